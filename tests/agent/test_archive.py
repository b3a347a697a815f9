"""The archive: reproducible, self-contained, and able to run a task on whatever Python 3.8 or newer is there."""

from __future__ import annotations

import hashlib
import io
import json
import marshal
import os
import shutil
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from threading import Event

import pytest

from master.drivers import agent_archive as archive
from master.drivers.agent_archive import Pack, build
from tests.cases import each_case
from tests.waiting import PATIENCE_S

from .small_master import Node
from .test_pythons import PYPY


def pythons() -> list[str]:
    """The interpreters on the PATH that run; a version manager's stand-in for a version that is not chosen does not.
    Not asked as the file is loaded, which each worker does: it takes a second."""
    names = ("python3.8", "python3.9", "python3.10", "python3", "python3.14", "pypy3")
    found = [path for name in names if (path := shutil.which(name))]
    return [
        path for path in found if subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0
    ]


def test_all_parts_are_reproducible() -> None:
    one, other = build(), build()
    assert (one.version, one.sources.data, one.compiled.data) == (
        other.version,
        other.sources.data,
        other.compiled.data,
    )
    assert one.compiled.packed == zlib.compress(one.compiled.data)
    assert one.compiled.checksum == hashlib.sha256(one.compiled.data).hexdigest()


def test_no_byte_code_is_read_or_made_before_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A master that finds its agents running needs none."""
    made: list[str] = []
    made_for_real = archive._byte_code

    def counted(name: str, path: Path, source: bytes) -> bytes:
        made.append(name)
        return made_for_real(name, path, source)

    monkeypatch.setattr(archive, "_byte_code", counted)
    built = build()
    assert built.sources.data
    assert made == []
    assert built.compiled.data
    once = len(made)
    assert built.compiled.packed
    assert once == len(made) > 50


def test_threads_that_ask_at_the_same_time_have_it_made_once() -> None:
    made, go = [], Event()

    def make() -> bytes:
        go.wait(PATIENCE_S)
        made.append(1)
        return b"archive"

    pack = Pack(make)
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(lambda: pack.checksum) for _ in range(4)]
        go.set()
        assert len({each.result() for each in asked}) == 1
    assert made == [1]


def test_what_changes_on_the_disk_after_the_start_does_not_travel(tmp_path: Path) -> None:
    """An upgrade beneath a running master: byte code of another version would be taken for that of the sources."""
    for package in ("master", "monitor", "wire"):
        shutil.copytree(package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    before = built_from(tmp_path, tmp_path / "cache")
    daemon, main = tmp_path / "monitor/agent/daemon.py", tmp_path / "monitor/agent/main.py"
    changes = f"open({str(daemon)!r}, 'a').write('ADDED = 1'); open({str(main)!r}, 'w').write('('); "
    changes += f"__import__('os').unlink({str(tmp_path / 'wire/agent.py')!r})"
    assert built_from(tmp_path, tmp_path / "cache", changes=changes) == before


BUILD = """
import json, sys
sys.path[:0] = [sys.argv[1]]
from master.drivers.agent_archive import build
archive = build()
exec(sys.argv[2])
print(json.dumps([archive.version, archive.compiled.checksum, sys.modules["master"].__file__]))
"""


def built_from(folder: Path, cache: Path, *options: str, changes: str = "") -> tuple[str, str]:
    """Version and SHA-256 of the archive that a fresh Python builds from the packages in a folder; what it does when it
    knows the version, and has not needed the rest."""
    words = [sys.executable, "-X", f"pycache_prefix={cache}", *options, "-c", BUILD, str(folder), changes]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(words, cwd="/", env=env, capture_output=True, text=True, check=True, timeout=60)
    version, sha256, loaded = json.loads(done.stdout)
    assert loaded.startswith(str(folder))
    return version, sha256


def test_where_the_sources_lie_and_what_was_compiled_before_changes_no_byte(tmp_path: Path) -> None:
    for name in ("here", "there"):
        for package in ("master", "monitor", "wire"):
            shutil.copytree(package, tmp_path / name / package, ignore=shutil.ignore_patterns("__pycache__"))
    here, there, cache = tmp_path / "here", tmp_path / "there", tmp_path / "cache"
    compiled = built_from(here, cache)
    assert list((cache / str(here).lstrip("/")).glob("monitor/agent/main.*.pyc")), "it was not kept for the next start"
    assert built_from(here, cache) == compiled, "compiled before"
    assert built_from(there, tmp_path / "none", "-B") == compiled, "compiled in another place"


def test_byte_code_that_a_power_cut_left_torn_keeps_no_agent_away(tmp_path: Path) -> None:
    for package in ("master", "monitor", "wire"):
        shutil.copytree(package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    compiled = built_from(tmp_path, tmp_path / "cache")
    kept = sorted((tmp_path / "cache" / str(tmp_path).lstrip("/")).glob("monitor/agent/*.pyc"))
    assert len(kept) > 5
    for number, path in enumerate(kept):
        data = path.read_bytes()
        torn = data[: len(data) // 2], data[:16] + bytes(len(data) - 16), data[:16] + b"i\1\0\0\0"
        path.write_bytes(torn[number % 3])
    assert built_from(tmp_path, tmp_path / "cache") == compiled


@pytest.mark.parametrize("letter", ["[", "{"])
def test_what_the_process_did_before_changes_no_byte(letter: str) -> None:
    """Python up to 3.11 writes a string of one character differently once anybody has interned it."""
    script = "import sys; from master.drivers.agent_archive import build; print(build().compiled.checksum)"
    said = {
        subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True, timeout=60).stdout
        for words in (script, f"import sys; sys.intern('{letter}'); {script}")
    }
    assert len(said) == 1


def test_byte_code_that_is_older_than_its_source_does_not_travel(tmp_path: Path) -> None:
    for package in ("master", "monitor", "wire"):
        shutil.copytree(package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    before = built_from(tmp_path, tmp_path / "cache")
    with (tmp_path / "monitor/agent/daemon.py").open("a", encoding="utf-8") as file:
        file.write("\nADDED = 1\n")
    version, sha256 = built_from(tmp_path, tmp_path / "cache")
    assert version != before[0]
    assert sha256 == built_from(tmp_path, tmp_path / "fresh")[1] != before[1]


def test_the_version_is_that_of_the_sources_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else two masters of one lab with different Pythons would replace each other's agents."""
    before = build()
    data = before.compiled.data
    monkeypatch.setattr("importlib.util.MAGIC_NUMBER", b"\0\0\r\n")
    assert build().version == before.version
    assert build().sources.data == before.sources.data
    assert build().compiled.data != data


def test_it_says_its_version_whatever_its_file_is_called(tmp_path: Path) -> None:
    built = build()
    packs = (built.sources, built.compiled)
    for name, pack in zip(("agent.pyz", "agent-0123456789abcdef.pyz"), packs, strict=True):
        (tmp_path / name).write_bytes(pack.data)
        words = [sys.executable, "-I", str(tmp_path / name), "version"]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
        assert done.stdout == f"{built.version}\n"


def test_each_module_has_its_byte_code_beside_it_which_is_not_compared_with_the_source() -> None:
    with zipfile.ZipFile(io.BytesIO(build().compiled.data)) as archive:
        names = archive.namelist()
        for name in [name for name in names if name.endswith(".py") and name != "__main__.py"]:
            data = archive.read(f"{name}c")
            assert data[:8] == MAGIC_NUMBER + b"\1\0\0\0", name  # PEP 552: unchecked
            assert marshal.loads(data[16:]).co_filename == f"muster-agent/{name}"  # noqa: S302  (our own)
        assert [name for name in names if name.endswith(".pyc") and name[:-1] not in names] == []


LOADED = """
import json, sys
sys.path[:0] = [sys.argv[1]]
import agent.main, agent.serve.server
ours = [m for n, m in sys.modules.items() if n.partition(".")[0] in ("agent", "wire")]
print(json.dumps(sorted({m.__file__.rpartition(".")[2] for m in ours})))
"""


def loaded_from(python: str, archive: Path) -> list[str]:
    """Of which kinds the files are that an agent's modules were loaded from."""
    words = [python, "-I", "-S", "-c", LOADED, str(archive)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    kinds = json.loads(done.stdout)
    assert isinstance(kinds, list)
    return kinds


def test_the_python_that_built_it_compiles_nothing(tmp_path: Path) -> None:
    (tmp_path / "agent.pyz").write_bytes(build().compiled.data)
    assert loaded_from(sys.executable, tmp_path / "agent.pyz") == ["pyc"]


def test_another_python_takes_the_sources(tmp_path: Path) -> None:
    (tmp_path / "agent.pyz").write_bytes(build().compiled.data)
    assert loaded_from(PYPY, tmp_path / "agent.pyz") == ["py"]


def test_a_python_that_does_not_know_the_byte_code_takes_the_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.MAGIC_NUMBER", b"\0\0\r\n")
    (tmp_path / "agent.pyz").write_bytes(build().compiled.data)
    with each_case() as cases:
        for python in pythons():
            with cases.case(python):
                assert loaded_from(python, tmp_path / "agent.pyz") == ["py"]


def test_a_traceback_shows_the_lines_of_the_sources(tmp_path: Path) -> None:
    (tmp_path / "agent.pyz").write_bytes(build().compiled.data)
    script = (
        "import sys, traceback; sys.path[:0] = [sys.argv[1]]\nfrom agent.folder import Folder\n"
        "try: Folder(None)\nexcept TypeError: print(traceback.format_exc())"
    )
    words = [sys.executable, "-I", "-c", script, str(tmp_path / "agent.pyz")]
    said = subprocess.run(words, cwd="/", capture_output=True, text=True, check=True, timeout=60).stdout
    assert 'File "muster-agent/agent/folder.py", line ' in said
    assert "self.path = " in said


def test_it_is_what_the_standard_librarys_zipfile_makes_of_these_files() -> None:
    data = build().compiled.data
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as ours, zipfile.ZipFile(written, "w") as theirs:
        assert ours.testzip() is None
        for entry in ours.infolist():
            same = zipfile.ZipInfo(entry.filename)
            same.create_system, same.external_attr = 3, 0o644 << 16
            theirs.writestr(same, ours.read(entry))
    assert data == b"#!/usr/bin/env python3\n" + written.getvalue()


def test_it_is_copied_nowhere_as_it_is_made() -> None:
    """The C library keeps twice the size of what was freed, for as long as the master runs."""
    files = {f"{number}.py": bytes(10_000) for number in range(100)}
    tracemalloc.start()
    try:
        made = archive._zip(files.items())
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1.5 * len(made)


def test_only_the_agent_and_its_files_of_wire_travel() -> None:
    names = zipfile.ZipFile(io.BytesIO(build().compiled.data)).namelist()
    assert {name for name in names if not name.startswith("agent/") and not name.endswith(".pyc")} == {
        "__main__.py", "wire/__init__.py", "wire/account.py", "wire/agent.py", "wire/framing.py", "wire/pinning.py",
    }  # fmt: skip
    assert "agent/attempt/shim.py" in names
    assert "agent/__main__.py" not in names


def test_building_it_loads_nothing_of_monitor() -> None:
    script = (
        "import sys; from master.drivers.agent_archive import build; "
        "build(); print([m for m in sys.modules if 'moni' in m])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("words", [["version"], ["report", "--help"]])
def test_who_does_not_serve_does_not_load_what_serves(tmp_path: Path, words: list[str]) -> None:
    """It is most of an agent, and where another Python built the archive it is compiled at each start."""
    archive = tmp_path / "agent.pyz"
    archive.write_bytes(build().compiled.data)
    command = [sys.executable, "-I", "-S", "-X", "importtime", str(archive), *words]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr
    assert "agent.main" in loaded
    assert "agent.serve.server" not in loaded


def test_it_runs_a_task_on_every_python_found_here(tmp_path: Path) -> None:
    with each_case() as cases:
        for number, python in enumerate(pythons()):
            with cases.case(python):
                folder = tmp_path / str(number)
                folder.mkdir()
                check_it_runs_a_task(folder, python)


def check_it_runs_a_task(folder: Path, python: str) -> None:
    node = Node(folder, python=python)
    try:
        link = node.up()
        assert node.run(link, "t1", "echo 你好; exit 3")["code"] == 3
        assert node.text("t1") == "你好\n\nProgram Exit With Code 3\n"
        node.launch(link, "t2", "sleep 1000 & sleep 1000")
        link.wait_for("started", "t2")
        node.kill_agent(link)
        again = node.up()
        again.kill("t2")
        assert again.wait_for("exit", "t2")["cause"] == "killed"
        assert node.carriers("t2") == []
    finally:
        node.clean()
