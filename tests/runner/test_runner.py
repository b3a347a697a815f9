"""The runner is red for everything that can go wrong in a suite, and names the test. Small suites, real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.waiting import until

ROOT = Path(__file__).parent.parent.parent
SETTINGS = """
[tool.pytest.ini_options]
testpaths = ["tests"]
addopts = ["-ra", "--strict-markers", "--strict-config", "-p", "xdist", "-p", "tests.runner.plugin"]
markers = ["soak"]
"""
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Without the plugins that are only installed here: hypothesis costs more than all else that pytest loads."""
TABLE = """
tests/unit unit
tests/master master
tests/real real
tests/storm storm
fixture server real
"""
FINE = "def test_fine(): pass\n"
SHORT = ("--deadline", "3", "--grace", "2", "--quiet", "100", "--limit", "300")
LAYERS = ("unit", "master", "real", "storm")


@dataclass(frozen=True)
class Said:
    """What the runner printed, and its exit code."""

    code: int
    text: str

    def line(self, *parts: str) -> str:
        """The first line that has all parts. Fails if none has."""
        found = [line for line in self.text.splitlines() if all(part in line for part in parts)]
        assert found, f"no line has {parts}:\n{self.text}"
        return found[0]


RunSuite = Callable[..., Said]


@pytest.fixture
def run_suite(tmp_path: Path) -> RunSuite:
    """`run_suite({"real/test_x.py": "…"}, *options)` runs a suite of these files and of a fine test in each of their
    layers; without such a file, in every layer."""

    def run(files: dict[str, str], *options: str, workers: str = "1") -> Said:
        used = {name.partition("/")[0] for name in files} & set(LAYERS) or LAYERS
        fine = {f"{layer}/test_fine_{layer}.py": FINE for layer in used}
        for name, text in {**fine, "layers.txt": TABLE, **files}.items():
            path = tmp_path / "tests" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        (tmp_path / "pyproject.toml").write_text(SETTINGS, encoding="utf-8")
        keys = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "MUSTER"))}
        done = subprocess.run(
            [sys.executable, "-m", "tests.runner", *SHORT, *options],
            cwd=tmp_path,
            env={**keys, **ALONE, "PYTHONPATH": str(ROOT), "MUSTER_TEST_WORKERS": workers},
            capture_output=True,
            text=True,
            check=False,
        )
        return Said(done.returncode, done.stdout + done.stderr)

    return run


def until_gone(told: Path) -> None:
    """Wait until nothing is left of the process whose pid is in the file. Its parent may still have to wait for it."""
    process = Path("/proc") / told.read_text(encoding="ascii")
    until("the process is gone", lambda: not process.exists())


def test_a_fine_suite_is_green_and_its_report_has_stages_layers_and_slowest_tests(run_suite: RunSuite) -> None:
    said = run_suite({})
    assert said.code == 0, said.text
    said.line("seconds per stage: A ", "B ")
    said.line("tests per layer:", "unit 1", "master 1", "real 1", "storm 1")
    said.line("s  tests/storm/test_fine_storm.py::test_fine")
    assert said.text.splitlines()[-1].strip("=").strip().startswith("4 passed in ")


MANY = """
import os
from pathlib import Path
import pytest
from tests.waiting import until
NAMES = Path("names")
def names():
    return set(NAMES.read_text().split())
@pytest.mark.parametrize("number", range(40))
def test_many(number, pytestconfig):
    with NAMES.open("a") as file:
        file.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")
    if 8 <= number < 20:
        until("the other run is over", (Path(pytestconfig.getoption("--records")) / "alone").exists)
    elif number >= 20:
        until("there are more workers", lambda: len(names()) == 7)
"""
BESIDE = """
from pathlib import Path
from playwright.sync_api import Browser
from tests.waiting import until
NAMES = Path("names")
def test_beside():
    until("they work", lambda: NAMES.exists() and len(NAMES.read_text().split()) >= 12)
    assert len(set(NAMES.read_text().split())) <= 6
"""


def test_more_workers_begin_when_the_run_in_a_browser_is_over(run_suite: RunSuite) -> None:
    files = {"real/test_many.py": MANY, "real/test_beside.py": BESIDE}
    said = run_suite(files, "--layer", "real", "--deadline", "60", workers="")
    assert said.code == 0, said.text
    said.line("42 passed in ")


def test_a_broken_assertion_is_red_in_each_layer(run_suite: RunSuite) -> None:
    said = run_suite({f"{layer}/test_broken_{layer}.py": "def test_broken(): assert 1 == 2\n" for layer in LAYERS})
    assert said.code == 1
    for layer in LAYERS:
        said.line(f"FAILED tests/{layer}/test_broken_{layer}.py::test_broken")
        said.line(f"stage C: tests/{layer}/test_broken_{layer}.py::test_broken")
    said.line("4 failed, 4 passed in ")


HANGING = {
    "in the main thread": "import time\ndef test_hangs(): time.sleep(1000)\n",
    "in the main thread, whatever is raised": """
import time
def test_hangs():
    while True:
        try:
            time.sleep(1000)
        except BaseException:
            pass
""",
    "in an asyncio callback": """
import asyncio, time
def test_hangs():
    async def story():
        asyncio.get_running_loop().call_soon(time.sleep, 1000)
        await asyncio.sleep(1000)
    asyncio.run(story())
""",
    "in a hypothesis example": """
import time
from hypothesis import given, settings, strategies
@settings(deadline=None, database=None)
@given(strategies.integers())
def test_hangs(number):
    try:
        time.sleep(1000)
    except BaseException:
        time.sleep(1000)
""",
    "in a fixture's teardown": """
import pytest, time
@pytest.fixture
def thing():
    yield
    try:
        time.sleep(1000)
    except BaseException:
        time.sleep(1000)
def test_hangs(thing): pass
""",
}


LOADED = """
import os
from contextlib import suppress
from pathlib import Path
from tests.waiting import NeverError, until
def note(what):
    with Path("loaded").open("a") as file:
        file.write(f"{os.environ['PYTEST_XDIST_WORKER']} {what}\\n")
note("begins")
with suppress(NeverError):
    until("another loads it, too", lambda: len(Path("loaded").read_text().splitlines()) > 1, 2)
note("ends")
def test_loaded(): pass
"""


def test_the_other_workers_load_the_files_when_the_first_has_compiled_them(run_suite: RunSuite, tmp_path: Path) -> None:
    said = run_suite({"real/test_loaded.py": LOADED}, "--layer", "real", workers="3")
    assert said.code == 0, said.text
    loaded = (tmp_path / "loaded").read_text(encoding="utf-8").splitlines()
    assert loaded[:2] == ["gw0 begins", "gw0 ends"]
    assert sorted(loaded) == sorted(f"gw{number} {what}" for number in range(3) for what in ("begins", "ends"))


def test_nobody_waits_for_a_first_worker_that_died_while_it_loaded_the_files(run_suite: RunSuite) -> None:
    text = "import os\nif os.environ['PYTEST_XDIST_WORKER'] == 'gw0': os.kill(os.getpid(), 9)\ndef test_fine(): pass\n"
    said = run_suite({"real/test_killing.py": text}, "--layer", "real", "--limit", "60", workers="2")
    assert said.code == 1
    said.line("RED", "worker gw0 died while collecting")
    assert "the run took longer" not in said.text


@pytest.mark.parametrize(("layer", "how"), [*(("unit", how) for how in HANGING), ("real", "in a fixture's teardown")])
def test_a_test_that_waits_forever_is_red_and_named(run_suite: RunSuite, layer: str, how: str) -> None:
    said = run_suite({f"{layer}/test_hanging.py": HANGING[how]})
    assert said.code == 1
    said.line(f"tests/{layer}/test_hanging.py::test_hangs", "hangs" if "whatever" in how else "")
    said.line("test_hanging.py", "line" if "whatever" in how else "")


def test_a_thread_that_keeps_a_worker_from_ending_is_red_and_its_test_named(run_suite: RunSuite) -> None:
    text = "import threading, time\ndef test_leaves(): threading.Thread(target=time.sleep, args=(1000,)).start()\n"
    said = run_suite({"real/test_leaving.py": text})
    assert said.code == 1
    said.line("RED", "did not end by itself", "begun in tests/real/test_leaving.py::test_leaves")


@pytest.mark.parametrize(("layer", "environment"), [("master", "None"), ("real", "{}")])
def test_a_child_that_keeps_stdout_open_is_named_and_killed(
    run_suite: RunSuite, layer: str, environment: str, tmp_path: Path
) -> None:
    text = f"""
import pathlib, subprocess
def test_leaves():
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True, env={environment})
    pathlib.Path({str(tmp_path / "pid")!r}).write_text(str(child.pid))
    child.returncode = 0  # nobody waits for it
"""
    said = run_suite({f"{layer}/test_leaving.py": text})
    assert said.code == 1
    said.line("RED left behind: process", "(sleep 1000)", f"tests/{layer}/test_leaving.py::test_leaves")
    until_gone(tmp_path / "pid")


SLOW_TO_END = """
import time
def pytest_unconfigure(config):
    if hasattr(config, "workerinput"):
        for _ in range(7):
            time.sleep(1)
        open("ended", "w").close()
"""


def test_a_worker_that_takes_long_to_end_is_waited_for(run_suite: RunSuite, tmp_path: Path) -> None:
    """Else xdist interrupts one after five seconds and kills it after ten."""
    said = run_suite({"real/conftest.py": SLOW_TO_END})
    assert said.code == 0, said.text
    assert (tmp_path / "ended").exists()


def test_a_test_that_kills_its_worker_is_red_and_not_tried_again(run_suite: RunSuite) -> None:
    said = run_suite({"unit/test_killing.py": "import os\ndef test_kills(): os.kill(os.getpid(), 9)\n"})
    assert said.code == 1
    said.line("RED", "died in tests/unit/test_killing.py::test_kills")
    assert "stage C" not in said.text


def test_six_failures_are_not_tried_again(run_suite: RunSuite) -> None:
    text = "import pytest\n@pytest.mark.parametrize('n', range(6))\ndef test_broken(n): assert n is None\n"
    said = run_suite({"real/test_six.py": text})
    assert said.code == 1
    assert said.text.count("\nFAILED tests/real/test_six.py::test_broken[") >= 6
    said.line("RED 6 tests failed")
    assert "stage C" not in said.text


def test_a_syntax_error_is_red_and_the_file_named(run_suite: RunSuite) -> None:
    said = run_suite({"master/test_wrong.py": "def test_wrong(:\n"})
    assert said.code == 1
    said.line("RED stage A: pytest failed, although no test did")
    said.line("ERROR tests/master/test_wrong.py")


def test_a_test_that_is_deselected_by_accident_is_red_and_named(run_suite: RunSuite) -> None:
    hook = """
def pytest_collection_modifyitems(config, items):
    items[:] = [item for item in items if "fine_real" not in item.nodeid]
"""
    said = run_suite({"real/test_other.py": FINE, "conftest.py": hook})
    assert said.code == 1
    said.line("RED", "tests/real/test_fine_real.py::test_fine")


def test_a_file_without_a_test_is_red_and_named(run_suite: RunSuite) -> None:
    said = run_suite({"real/test_renamed.py": "def check_nothing(): pass\n"})
    assert said.code == 1
    said.line("RED stage B: no test was found in tests/real/test_renamed.py")


def test_a_file_with_tests_that_only_make_soak_runs_is_no_file_without_a_test(run_suite: RunSuite) -> None:
    said = run_suite({"real/test_long.py": f"import pytest\npytestmark = pytest.mark.soak\n{FINE}"})
    assert said.code == 0, said


def test_a_test_that_fails_and_then_passes_alone_is_named_and_green(run_suite: RunSuite, tmp_path: Path) -> None:
    text = f"""
import pathlib
def test_flaky():
    seen = pathlib.Path({str(tmp_path / "seen")!r})
    if not seen.exists():
        seen.touch()
        raise OSError("once")
"""
    said = run_suite({"real/test_moody.py": text})
    assert said.code == 0, said.text
    said.line("passes alone: tests/real/test_moody.py::test_flaky")
    said.line("2 passed in ")


def test_an_audits_verdict_is_never_tried_again(run_suite: RunSuite) -> None:
    text = "from tests.runner.verdict import nothing_found\ndef test_books(): nothing_found(['task 7 is lost'])\n"
    said = run_suite({"storm/test_audit.py": text})
    assert said.code == 1
    said.line("FAILED tests/storm/test_audit.py::test_books", "verdict")
    assert "stage C" not in said.text


PROCESSES = {
    "import subprocess; subprocess.run(['true'])": "starts a process",
    "import os\n    try: os.fork()\n    except AssertionError: pass": "starts a process",
    "import socket; socket.socket().bind(('127.0.0.1', 0))": "opens a socket",
}
SOCKETS = {
    "import socket; socket.socket(type=socket.SOCK_DGRAM).close()": "opens a socket",
    "import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'', '/none')": "opens a socket",
    "import socket; socket.gethostbyname('localhost')": "opens a socket",
}


@pytest.mark.parametrize("bodies", [PROCESSES, SOCKETS], ids=["processes", "sockets"])
def test_a_unit_test_that_starts_a_process_or_opens_a_socket_fails(run_suite: RunSuite, bodies: dict[str, str]) -> None:
    files = {f"unit/test_unit_{at}.py": f"def test_does():\n    {body}\n" for at, body in enumerate(bodies)}
    said = run_suite(files)
    assert said.code == 1
    for at, did in enumerate(bodies.values()):
        said.line(f"tests/unit/test_unit_{at}.py::test_does is a unit test and {did}")
    said.line("3 failed, 1 passed in ")


def test_a_fixture_and_a_mark_move_a_test_to_their_layer(run_suite: RunSuite) -> None:
    text = """
import pytest
@pytest.fixture
def server(): pass
def test_a(server): pass
@pytest.mark.storm
def test_b(): pass
def test_c(): pass
"""
    said = run_suite({"unit/test_all.py": text})
    assert said.code == 0, said.text
    said.line("tests per layer:", "unit 2", "real 1", "storm 1")


def test_tests_that_share_a_fixture_stay_on_one_worker(run_suite: RunSuite, tmp_path: Path) -> None:
    text = f"""
import os, pathlib, pytest, time
@pytest.fixture(scope="module")
def shared():
    with open({str(tmp_path / "made")!r}, "a") as file: file.write("made\\n")
@pytest.mark.parametrize("n", range(8))
def test_uses(shared, n): time.sleep(0.1)
"""
    said = run_suite({"real/test_sharing.py": text}, workers="2")
    assert said.code == 0, said.text
    assert (tmp_path / "made").read_text(encoding="utf-8").splitlines() == ["made"]


def test_one_layer_runs_through_the_same_stages(run_suite: RunSuite) -> None:
    files = {"real/test_broken.py": "def test_broken(): assert False\n", "unit/test_more.py": FINE}
    said = run_suite(files, "--layer", "unit")
    assert said.code == 0, said.text
    said.line("2 passed in ")


def test_a_command_beside_stage_a_is_shown_and_red_if_it_fails_and_the_tests_go_on(run_suite: RunSuite) -> None:
    said = run_suite({}, "--beside", "sh -c 'echo types are wrong; exit 3'")
    assert said.code == 1
    said.line("types are wrong")
    said.line("RED sh -c echo types are wrong; exit 3 failed (exit code 3)")
    said.line("4 passed, 1 error in ")


def test_a_run_that_takes_too_long_is_ended(run_suite: RunSuite) -> None:
    text = "import pytest, time\n@pytest.mark.timeout(200)\ndef test_long(): time.sleep(199)\n"
    said = run_suite({"real/test_long.py": text}, "--layer", "real", "--limit", "30")
    assert said.code == 1
    said.line("RED the run took longer than 30 s")
    said.line("tests/real/test_long.py::test_long")


def test_an_import_that_waits_forever_is_red_and_its_file_named(run_suite: RunSuite) -> None:
    said = run_suite({"real/test_importing.py": "import time\ntime.sleep(1000)\n"}, "--quiet", "20")
    assert said.code == 1
    said.line("hangs while collecting")
    said.line("test_importing.py")


def test_an_interrupted_run_ends_what_it_started_and_says_so(run_suite: RunSuite, tmp_path: Path) -> None:
    text = f"""
import os, pathlib, signal, time
def test_interrupts():
    pathlib.Path({str(tmp_path / "pid")!r}).write_text(str(os.getpid()))
    runner = next(pid for pid in ancestors() if b"tests.runner" in pathlib.Path(f"/proc/{{pid}}/cmdline").read_bytes())
    os.kill(runner, signal.SIGINT)
    time.sleep(1000)
def ancestors():
    pid = os.getpid()
    while pid > 1:
        yield pid
        pid = int(pathlib.Path(f"/proc/{{pid}}/stat").read_text().rpartition(")")[2].split()[1])
"""
    said = run_suite({"real/test_interrupting.py": text})
    assert said.code == 1
    said.line("RED the run was interrupted")
    until_gone(tmp_path / "pid")


def test_no_test_has_a_deadline_of_more_than_five_minutes_or_none(run_suite: RunSuite) -> None:
    text = "import pytest\n@pytest.mark.timeout({})\ndef test_long(): pass\n"
    said = run_suite({f"real/test_long_{seconds}.py": text.format(seconds) for seconds in (0, 301)})
    assert said.code == 1
    for seconds in (0, 301):
        said.line(f"the deadline of tests/real/test_long_{seconds}.py::test_long must lie between 0 and 300 s")
    said.line("2 failed, 1 passed in ")
