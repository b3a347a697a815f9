"""The bootstrap as a node's Python runs it: from one line of stdin, whatever lies around."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from master.drivers import bootstrap, ssh_attach
from master.drivers.ssh_attach import command, order
from tests.cases import each_case
from tests.testbed.archives import archive_of

CONTENT = b"import sys; print('attached', *sys.argv[1:], sys.flags.isolated)\n"
SOURCES = CONTENT + b"# without byte code\n"
PACKED = zlib.compress(CONTENT)
ARCHIVE = archive_of(CONTENT, SOURCES)
LOADER = shlex.split(command("python3"))
WITHOUT_ZLIB = f"import sys; sys.modules['zlib'] = None; exec({LOADER[-1]!r})"


def boot(home: Path, line: bytes, archive: bytes = b"", loader: str = LOADER[-1]) -> tuple[int, bytes]:
    """Give it the order, and the archive when it asks; the exit status and all that it said."""
    process = subprocess.Popen(
        [sys.executable, *LOADER[1:-1], loader],
        env={"HOME": str(home), "PATH": os.environ["PATH"]},
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        process.stdin.write(line)
        process.stdin.flush()
        said = process.stdout.readline() if line else b""
        rest, _ = process.communicate(archive if b" need " in said else b"", timeout=60)
    return process.returncode, said + rest


def file_in(home: Path, content: bytes = CONTENT) -> Path:
    return home / ".local/state/muster" / f"agent-{hashlib.sha256(content).hexdigest()[:16]}.pyz"


def test_it_is_of_a_syntax_that_a_very_old_python_reads() -> None:
    source = Path(bootstrap.__file__)
    assert source.read_bytes().isascii()
    found = subprocess.run(
        [sys.executable, "-m", "vermin", "--no-tips", "-t=2.7", "-t=3.4", "--violations", str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    # What it calls may be newer, for only a new enough Python comes so far; what it is written in may not.
    tolerated = ("open(", "os.makedirs(exist_ok)")
    lines = [line.strip() for line in found.stdout.splitlines() if "requires" in line]
    assert [line for line in lines if not line.startswith(tuple(f"'{name}" for name in tolerated))] == []


def test_it_asks_for_the_archive_once_and_becomes_attach(tmp_path: Path) -> None:
    line = order(ARCHIVE, "c-n")
    attached = f"attached attach --state {tmp_path}/.local/state/muster/c-n 1\n"
    assert boot(tmp_path, line, PACKED) == (0, f"muster-bootstrap need compiled\n{attached}".encode())
    assert file_in(tmp_path).read_bytes() == CONTENT
    assert file_in(tmp_path).stat().st_mode & 0o777 == 0o600
    assert boot(tmp_path, line) == (0, f"muster-bootstrap have\n{attached}".encode())


def test_another_python_is_given_the_sources_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_attach, "MAGIC_NUMBER", b"\0\0\r\n")
    code, said = boot(tmp_path, order(ARCHIVE, "c-n"), zlib.compress(SOURCES))
    assert (code, said.splitlines()[0]) == (0, b"muster-bootstrap need sources")
    assert file_in(tmp_path, SOURCES).read_bytes() == SOURCES


def test_a_python_without_zlib_is_given_the_sources_unpacked(tmp_path: Path) -> None:
    code, said = boot(tmp_path, order(ARCHIVE, "c-n"), SOURCES, WITHOUT_ZLIB)
    assert (code, said.splitlines()[0]) == (0, b"muster-bootstrap need unpacked")
    assert file_in(tmp_path, SOURCES).read_bytes() == SOURCES


def test_an_archive_that_comes_in_part_or_damaged_is_not_kept(tmp_path: Path) -> None:
    line = order(ARCHIVE, "c-n")
    packed, unpacked = LOADER[-1], WITHOUT_ZLIB
    with each_case() as cases:
        # Where its last byte is missing, all of the archive is there; that byte would then be the agent's first.
        for loader, sent in ((packed, PACKED[:-1]), (packed, PACKED[:-6]), (unpacked, SOURCES[:-1])):
            with cases.case(f"in part: {sent!r}"):
                code, said = boot(tmp_path, line, sent, loader)
                told = b"muster-bootstrap failed the connection ended within the archive"
                assert (code, said.splitlines()[-1]) == (1, told)
        other, longer = zlib.compress(SOURCES), zlib.compress(CONTENT * 1000)
        for loader, sent in (
            *((packed, sent) for sent in (b"!" + PACKED[1:], other, longer)),
            (unpacked, SOURCES[:-1] + b"!"),
        ):
            with cases.case(f"damaged: {sent!r}"):
                code, said = boot(tmp_path, line, sent, loader)
                assert (code, said.splitlines()[-1]) == (1, b"muster-bootstrap failed the archive arrived damaged")
    assert list(file_in(tmp_path).parent.iterdir()) == []


def test_a_path_that_is_not_ascii_is_told_in_ascii(tmp_path: Path) -> None:
    home = tmp_path / "家"
    home.mkdir()
    (home / ".local").write_text("", encoding="utf-8")
    code, said = boot(home, order(ARCHIVE, "c-n"))
    assert (code, said.startswith(b"muster-bootstrap failed ")) == (1, True)
    assert b"\\u5bb6/.local" in said
    assert said.endswith(b"Not a directory\n")


def test_without_an_order_it_just_ends(tmp_path: Path) -> None:
    assert boot(tmp_path, b"") == (0, b"")


# -- where the state lies -------------------------------------------------------------------------------------


def mounts(path: Path, *entries: tuple[str, str]) -> str:
    table = path / "mounts"
    table.write_text(
        "".join(f"21 1 0:1 / {where} rw,relatime shared:1 - {kind} dev rw\n" for where, kind in entries),
        encoding="utf-8",
    )
    return str(table)


def test_the_state_lies_where_the_user_says_and_else_in_his_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = mounts(tmp_path, ("/", "ext4"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert bootstrap.state_base(table) == f"{tmp_path}/state/muster"
    monkeypatch.setenv("HOME", str(tmp_path))
    for nothing in ("", "relative/is/not/allowed"):
        monkeypatch.setenv("XDG_STATE_HOME", nothing)
        assert bootstrap.state_base(table) == f"{tmp_path}/.local/state/muster"


def test_the_state_never_lies_on_a_network_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = f"/var/tmp/muster-{os.getuid()}"  # noqa: S108
    odd = str(tmp_path / "a b").replace(" ", "\\040")
    table = mounts(
        tmp_path, ("/", "ext4"), (f"{tmp_path}/nfs", "nfs4"), (odd, "cifs"), (f"{tmp_path}/nfs/local", "xfs")
    )
    (tmp_path / "link").symlink_to(tmp_path / "nfs")
    expected = {
        "nfs/home": own,
        "nfs": own,
        "nfs-beside": f"{tmp_path}/nfs-beside/muster",
        "nfs/local": f"{tmp_path}/nfs/local/muster",
        "a b/c": own,
        "link/home": own,
    }
    for place, base in expected.items():
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / place))
        assert bootstrap.state_base(table) == base, place


def test_the_folder_is_ours_alone(tmp_path: Path) -> None:
    base = tmp_path / "new" / "muster"
    bootstrap.make_base(str(base))
    assert base.stat().st_mode & 0o777 == 0o700
    base.chmod(0o777)
    bootstrap.make_base(str(base))
    assert base.stat().st_mode & 0o777 == 0o700


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(bootstrap.RefusalError, match=f"{tmp_path} is not a folder of uid 12345"):
        bootstrap.make_base(str(tmp_path))


def test_where_everybody_may_write_a_link_is_refused(tmp_path: Path) -> None:
    base = Path(f"/var/tmp/muster-test-{os.getpid()}")  # noqa: S108  (the place is what is tested)
    base.symlink_to(tmp_path)
    try:
        with pytest.raises(bootstrap.RefusalError, match="remove it"):
            bootstrap.make_base(str(base))
    finally:
        base.unlink()


def test_only_old_archives_beyond_the_newest_are_swept(tmp_path: Path) -> None:
    now = 1_000_000_000.0
    for number in range(9):
        path = tmp_path / f"agent-{number}.{'tmp' if number == 7 else 'pyz'}"
        path.write_bytes(b"")
        os.utime(path, (now - number * 20_000, now - number * 20_000))
    (tmp_path / "c-node").mkdir()
    os.utime(tmp_path / "c-node", (0, 0))
    bootstrap.sweep(str(tmp_path), now)
    assert {path.name for path in tmp_path.iterdir()} == {"c-node", *(f"agent-{number}.pyz" for number in range(5))}


def test_the_checksum_is_sha_256() -> None:
    assert bootstrap.digest_of(CONTENT) == hashlib.sha256(CONTENT).hexdigest()
