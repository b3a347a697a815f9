"""The part of the runner inside each pytest process: layers, the guard of unit tests, and records of what happens.

Loaded by `addopts` in pyproject.toml, so a plain pytest run has layers and the guard, too; it only records with
`--records FOLDER`, which the runner gives.
"""

from __future__ import annotations

import atexit
import faulthandler
import signal
import sys
import threading
from collections.abc import Generator
from functools import cache
from os import getpid  # by name: a test can replace what is in the module
from pathlib import Path
from socket import AF_UNIX
from time import monotonic, sleep
from types import ModuleType
from typing import Any

import pytest

from tests.runner import collecting, layers, signals
from tests.runner.groups import Scheduling, group_scheduling
from tests.runner.records import Reader, Writer
from tests.runner.verdict import VerdictError

RECORDS, DEADLINE, LATER, FILES = "--records", "--deadline", "--later", "--files"
LONGEST_S = 300.0
"""In a run of the runner, no test may declare a longer deadline with the mark `timeout`."""
_GUARD = pytest.StashKey["Guard"]()
_RECORDER = "muster-recorder"
_AS_THE_FD = -1
"""The family of a socket that is made of a descriptor."""
FIRST, ALONE_HERE = "gw0", "main"
"""What xdist calls the first worker, and what we call a process that has none."""
ENDING_S = 120.0
"""How long a worker that has no test left may take to end."""
PATIENCE_S, LOOK_S = 120.0, 0.1
"""How long the other workers wait until the first has loaded all files."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the runner."""
    parser.addoption(RECORDS, metavar="FOLDER", help="write down what happens, for the runner (tests/runner)")
    parser.addoption(DEADLINE, metavar="S", type=float, help="seconds that a test may take, with --records")
    parser.addoption(FILES, metavar="PATH", help="collect the files that this one lists, and no others")
    told = "so many of the workers begin when the run beside this one is over, with --dist loadgroup"
    parser.addoption(LATER, metavar="N", type=int, default=0, help=told)


def pytest_configure(config: pytest.Config) -> None:
    """Say which markers there are; begin to record."""
    for layer in layers.LAYERS:
        config.addinivalue_line("markers", f"{layer}: the layer of a test, set by {layers.TABLE} or by this mark")
    config.addinivalue_line("markers", "timeout(seconds): the test's own deadline, in a run of the runner")
    config.addinivalue_line("markers", "browser: the test drives Chromium, which needs a network of its own")
    config.pluginmanager.register(collecting)
    if config.getoption(FILES) is not None:
        files = Path(config.getoption(FILES)).read_text(encoding="utf-8").splitlines()
        config.pluginmanager.register(collecting.Chosen(config.rootpath, files))
    folder = config.getoption(RECORDS)
    if folder is not None and _distributes(config):
        config.pluginmanager.register(Endings(Path(folder)))
    elif folder is not None:
        name = getattr(config, "workerinput", {"workerid": ALONE_HERE})["workerid"]
        config.pluginmanager.register(Recorder(Writer(Path(folder), name), Path(folder), name), _RECORDER)


def _distributes(config: pytest.Config) -> bool:
    """Whether this process only hands tests to workers."""
    return not hasattr(config, "workerinput") and bool(config.getoption("numprocesses", 0))


@pytest.hookimpl(tryfirst=True)  # before pytest selects by these marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with its layer, and with `browser`."""
    table = layers.read((config.rootpath / layers.TABLE).read_text(encoding="utf-8"))
    for item in items:
        marked = [mark.name for mark in item.iter_markers() if mark.name in layers.LAYERS]
        layer = table.of(item.nodeid.partition("::")[0], getattr(item, "fixturenames", ()), marked)
        if marked and layer not in marked:
            raise pytest.UsageError(f"{item.nodeid} is marked {marked[0]}, and its path or a fixture makes it {layer}")
        item.add_marker(layer, append=False)
        if _drives_a_browser(getattr(item, "module", None)):
            item.add_marker("browser")
    if any(_layer(item) == "unit" for item in items):
        config.stash[_GUARD] = Guard()


@cache
def _drives_a_browser(module: ModuleType | None) -> bool:
    homes = (getattr(value, "__module__", None) for value in vars(module).values()) if module else ()
    return any(str(home).startswith(("playwright.", "tests.web.browser")) for home in homes)


def _group(item: pytest.Item) -> str:
    """The name of the group of tests that share a fixture which outlives one test, or an empty text. Such a fixture is
    made once per worker, so its tests stay on one worker."""
    if "testbed" in getattr(item, "fixturenames", ()):
        return "testbed"
    definitions = getattr(item, "_fixtureinfo", None)
    shared = any(
        found[-1].scope != "function" and found[-1].baseid.startswith("tests")
        for found in (definitions.name2fixturedefs.values() if definitions else ())
    )
    return item.nodeid.partition("::")[0].removesuffix(".py").replace("/", ".") if shared else ""


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    """Keep groups together with `--dist loadgroup`. The mark that xdist has for this does nothing with pytest 9.1 or
    newer, which no longer takes the id that xdist changes."""
    folder = config.getoption(RECORDS)
    if folder is None or config.getoption("dist") != "loadgroup":
        return None
    return group_scheduling(config, log, Path(folder), config.getoption(LATER))


class Guard:
    """Refuses, while a unit test runs, what makes it no unit test: starting a process or opening a socket.

    A pair of Unix sockets is allowed: each asyncio loop makes one to wake itself.
    """

    STARTS = frozenset({"os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system", "subprocess.Popen"})
    OPENS = frozenset({"socket.bind", "socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname"})

    def __init__(self) -> None:
        self.test = ""
        """The unit test that runs now, or an empty text."""
        self.found = ""
        """The first forbidden thing that the test did, or an empty text."""
        self._pid = getpid()
        sys.addaudithook(self._look)

    def _look(self, event: str, told: tuple[Any, ...]) -> None:
        if not self.test or getpid() != self._pid:
            return
        opens = event in self.OPENS or (event == "socket.__new__" and told[1] not in (AF_UNIX, _AS_THE_FD))
        if event in self.STARTS or opens:
            did = "starts a process" if event in self.STARTS else "opens a socket"
            self.found = self.found or f"{self.test} is a unit test and {did} ({event}): see {layers.TABLE}"
            raise AssertionError(self.found)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Put the guard on a unit test."""
    guard = item.config.stash.get(_GUARD, None)
    if guard is not None and _layer(item) == "unit":
        guard.test, guard.found = item.nodeid, ""
    try:
        return (yield)
    finally:
        if guard is not None:
            guard.test = ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """A unit test that caught the guard's error fails all the same."""
    yield
    guard = item.config.stash.get(_GUARD, None)
    if guard is not None and guard.test and guard.found:
        pytest.fail(guard.found, pytrace=False)


class Recorder:
    """Writes the records of one process that runs tests."""

    def __init__(self, writer: Writer, folder: Path, name: str) -> None:
        self._write = writer.write
        self._first = None if name in (FIRST, ALONE_HERE) else Reader(folder)
        self._threads: dict[int, str] = {}
        self._test, self._until = "", 0.0
        faulthandler.register(signals.STACKS, writer.stacks, all_threads=True)
        signal.signal(signals.LATE, self._late)
        # This runs after the interpreter has waited for all threads, so a thread that never ends is noticed.
        atexit.register(self._leave, getpid())

    def _late(self, *_: object) -> None:
        """The runner says that the test has reached its deadline: an error for whatever the main thread does."""
        if self._test and monotonic() >= self._until:  # not the test before
            pytest.fail(f"{self._test} has reached its deadline")

    def _leave(self, pid: int) -> None:
        if getpid() == pid:
            self._write("left")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        """In a fresh clone each worker would compile every file, all of them the same at the same moment. So the first
        does it, and the others wait for it: not for one that died, nor for ever."""
        until, pid = monotonic() + PATIENCE_S, 0
        while self._first is not None and monotonic() < until:
            for line in (line for name, line in self._first.new() if name == FIRST):
                pid = line["pid"] if line["kind"] == "began" else -1
            if pid < 0 or (pid > 0 and not _lives(pid)):
                break
            sleep(LOOK_S)
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Runs before tests are deselected and before xdist adds the group to an id."""
        self._collected = {item: item.nodeid for item in items}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Record of each test its layer, whether it will run (`selected`, `unselected`, `soak`), and its group."""
        chosen = set(session.items)
        tests = []
        for item, name in self._collected.items():
            fate = "selected" if item in chosen else "soak" if item.get_closest_marker("soak") else "unselected"
            tests.append([name, _layer(item), fate, _group(item)])
        self._write("collected", tests=tests)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Start and end of a test, and which threads began in it."""
        name = self._collected[item]
        self._test, self._until = name, monotonic() + _deadline(item)
        self._write("start", test=name, deadline=_deadline(item))
        try:
            return (yield)
        finally:
            self._test = ""
            for thread in threading.enumerate():
                self._threads.setdefault(thread.ident or 0, name)
            self._write("end", test=name)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Every test has a deadline, and none a long one."""
        if not 0 < _deadline(item) <= LONGEST_S:
            pytest.fail(f"the deadline of {item.nodeid} must lie between 0 and {LONGEST_S:.0f} s", pytrace=False)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """The outcome of one phase; `final` if it must not be tried again."""
        report = yield
        final = call.excinfo is not None and call.excinfo.errisinstance(VerdictError)
        name = self._collected[item]
        self._write("report", test=name, when=report.when, outcome=report.outcome, seconds=report.duration, final=final)
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """Nothing runs any more, so the threads that are left keep this process from ending."""
        left = [
            f"{thread.name}, begun in {self._threads.get(thread.ident or 0, 'no test')}"
            for thread in threading.enumerate()
            if thread is not threading.main_thread() and not thread.daemon
        ]
        self._write("finished", threads=left)


class Endings:
    """Waits, where tests are handed out, until each worker has ended its work: xdist would interrupt one after five
    seconds and kill it after ten, and a loaded machine takes as long to look for garbage."""

    def __init__(self, folder: Path) -> None:
        self._records = Reader(folder)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Before xdist ends the workers."""
        until, at_work = monotonic() + ENDING_S, {}
        while monotonic() < until:
            for name, line in self._records.new():
                if line["kind"] == "began":
                    at_work[name] = line["pid"]
                elif line["kind"] == "finished":
                    at_work.pop(name, None)
            if not any(map(_lives, at_work.values())):
                return
            sleep(LOOK_S)


def _lives(pid: int) -> bool:
    """A zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def _layer(item: pytest.Item) -> str:
    return next((mark.name for mark in item.iter_markers() if mark.name in layers.LAYERS), layers.UNKNOWN)


def _deadline(item: pytest.Item) -> float:
    """Seconds that the test may take, by its mark or by the option."""
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0] if mark else item.config.getoption(DEADLINE) or LONGEST_S)
