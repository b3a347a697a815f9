"""Who is not root runs what he can, as root of his own namespaces where he may, and is told of the rest in one line."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import rights

ROOT = Path(__file__).parent.parent
SOMEBODY = 54321
HOOKS = (
    "from tests.conftest import pytest_report_teststatus, pytest_runtest_makereport, pytest_terminal_summary  # noqa"
)
TESTS = """
import pytest
from tests import rights

@pytest.fixture(scope="module")
def room():
    rights.need_program("no-such-server", "no-such-package")

def test_with_a_server(room): ...
def test_with_the_same_server(room): ...
def test_with_a_tool(): rights.need_program("no-such-tool", "no-such-tool")
def test_with_nothing():
    import logging
    logging.getLogger().warning("a folder \\udcff")
"""


def pytest_says(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a run of TESTS ends with."""
    (folder / "conftest.py").write_text(HOOKS, encoding="utf-8")
    (folder / "test_some.py").write_text(TESTS, encoding="utf-8")
    keys = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_ADDOPTS")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-ra", *options, str(folder)]
    return subprocess.run(
        command,
        cwd=folder,
        env={**keys, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_cannot_be_run_is_one_line_at_the_end_and_no_failure(tmp_path: Path, workers: str) -> None:
    done = pytest_says(tmp_path, "--numprocesses", workers)
    assert done.returncode == 0, done.stdout
    told = [line for line in done.stdout.splitlines() if "no-such" in line]
    server = "2 need no-such-server: sudo apt install no-such-package"
    tool = "1 need no-such-tool: sudo apt install no-such-tool"
    assert told == [f"not run here: {server}; {tool}"]
    assert "1 passed, 3 not here" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_who_has_each_test_shown_gets_those_that_cannot_be_run_too(tmp_path: Path, workers: str) -> None:
    done = pytest_says(tmp_path, "--numprocesses", workers, "-v")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("NOT HERE") == 3
    assert "1 passed, 3 not here" in done.stdout.splitlines()[-1]


def test_where_all_must_run_nothing_is_left_out(tmp_path: Path) -> None:
    done = pytest_says(tmp_path, CI="true")
    assert done.returncode == 1
    assert "1 failed, 1 passed, 2 errors" in done.stdout.splitlines()[-1]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """as_root.sh where everybody can read it, with all that it makes beside it."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o1777)
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(shutil.copy(ROOT / "tests" / "as_root.sh", folder))


def somebody(*command: str) -> subprocess.CompletedProcess[str]:
    """The command, as an account that is not root."""
    become = ["setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups"] if rights.has_users() else []
    if not become and os.geteuid() == 0:
        rights.need_users()
    return subprocess.run([*become, *command], cwd="/", capture_output=True, text=True, check=False)


def test_an_ordinary_account_mounts_and_makes_networks_that_nobody_else_sees(script: Path) -> None:
    allowed = somebody("unshare", "--user", "--map-root-user", "--mount", "--net", "true").returncode == 0
    mounts = "mount -t tmpfs -o size=64k tmpfs /mnt && touch /mnt/mine; ip netns add mine; ip netns list"
    inside = f"id -u; [ $(id -u) != 0 ] || {{ {mounts}; }}; exit 7"
    done = somebody("sh", str(script), "sh", "-c", inside)
    assert done.returncode == 7
    assert done.stdout.split() == (["0", "mine"] if allowed else [str(SOMEBODY)]), done.stderr
    assert not Path("/mnt/mine").exists()
    assert "mine" not in subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout


def test_its_temporary_folder_is_its_own_and_so_is_all_above_it(script: Path) -> None:
    told = "id -u; pwd; stat -c %u / $TMPDIR; touch $TMPDIR/made; ls -d /run/* /root"
    done = somebody("sh", str(script), "sh", "-c", told)
    uid, *rest = done.stdout.split()
    if uid == "0":
        assert rest == ["/", "0", "0", "/root", "/run/samba", "/run/sshd"], done.stderr
        assert (script.parent / f"mt-{SOMEBODY}" / "made").stat().st_uid == SOMEBODY


def test_it_sees_the_rest_of_the_machine_where_it_is_and_makes_networks_that_see_it_too(script: Path) -> None:
    inside = "id -u; pwd; ls -A /; ip netns add mine; ip netns exec mine ip netns exec mine id -u"
    done = somebody("sh", "-c", f"cd {script.parent} && sh as_root.sh sh -c '{inside}'")
    uid, *rest = done.stdout.split()
    if uid == "0":
        assert (rest[0], rest[-1]) == (str(script.parent), "0"), done.stderr
        assert {path.name for path in Path("/").iterdir()} <= {*rest}


def test_where_the_kernel_allows_no_namespaces_the_command_runs_as_who_one_is(script: Path, tmp_path: Path) -> None:
    refuses = script.parent / "unshare"
    refuses.write_text("#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2\nexit 1\n", "utf-8")
    refuses.chmod(0o755)
    done = somebody("env", f"PATH={script.parent}:{os.environ['PATH']}", "sh", str(script), "sh", "-c", "id -u; exit 7")
    own = str(SOMEBODY if rights.has_users() else os.geteuid())
    assert (done.stdout.split(), done.stderr, done.returncode) == ([own], "", 7)
    assert list(tmp_path.iterdir()) == []


def test_root_stays_root_and_is_spared_what_his_shells_do_at_a_log_in(script: Path, tmp_path: Path) -> None:
    rights.need_root()
    home = Path(pwd.getpwnam("root").pw_dir)
    before = (home / ".bashrc").read_bytes() if (home / ".bashrc").exists() else None
    done = subprocess.run(
        ["sh", str(script), "sh", "-c", "cat /proc/self/uid_map; cat ~root/.bashrc ~root/.profile 2>/dev/null; exit 7"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == Path("/proc/self/uid_map").read_text("ascii")
    assert done.returncode == 7
    assert ((home / ".bashrc").read_bytes() if (home / ".bashrc").exists() else None) == before


def test_root_runs_it_within_itself_and_nothing_is_told(script: Path) -> None:
    """So does the runner, for the tests in a browser. A file that is hidden already is not hidden again: where what
    hides it has no name any more, nothing can be mounted."""
    rights.need_root()
    home = "mount -t tmpfs tmpfs ~root && echo loud >~root/.profile && touch ~root/.bashrc"
    within = f"{home} && sh {script} sh {script} --own-network cat ~root/.profile"
    command = ["unshare", "--mount", "sh", "-c", within]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
