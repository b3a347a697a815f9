"""What tests of several packages share: a lab's folder with free ports, how hypothesis searches, and what becomes of a
test that this account or machine cannot run (`tests/rights.py`): told at the end, or with `CI=true` an error."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import ports
from tests.leaps import Leap
from tests.rights import CannotHere
from tests.waiting import PATIENCE_S
from tests.walks import some

# How long an example takes, or the making of one, is the machine's affair.
_SLOW = [HealthCheck.too_slow]
settings.register_profile("here", deadline=None, print_blob=True, suppress_health_check=_SLOW, max_examples=some(100))
settings.register_profile("ci", settings.get_profile("here"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

NOT_HERE = "not here"

LabMaker = Callable[..., Path]


def pytest_configure() -> None:
    """Who runs the tests in a shell's background has Ctrl-C ignored, and so would have all that they start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A browser is kept for the next test that drives one, and for no other."""
    if item.get_closest_marker("browser") is None:
        _end_the_browser()


def pytest_sessionfinish() -> None:
    _end_the_browser()


def _end_the_browser() -> None:
    if browser := sys.modules.get("tests.web.browser"):
        browser.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    # What a test logged may be no Unicode, on purpose, and so may what it failed with; a worker could not send it and
    # would end.
    report.sections = [(name, _sendable(text)) for name, text in report.sections]
    if report.longrepr is not None and not isinstance(report.longrepr, tuple):
        text = str(report.longrepr)
        report.longrepr = report.longrepr if text == _sendable(text) else _sendable(text)
    if call.excinfo is not None and isinstance(call.excinfo.value, CannotHere) and not os.environ.get("CI"):
        report.outcome = "skipped"
        report.not_here = [call.excinfo.value.why, call.excinfo.value.cure]  # type: ignore[attr-defined]
        path, line, _ = report.location
        report.longrepr = (path, line or 0, str(call.excinfo.value))  # as of all that are skipped: -v shows it
    return report


def _sendable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    return (NOT_HERE, "-", "NOT HERE") if hasattr(report, "not_here") else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = Counter(tuple(report.not_here) for report in terminalreporter.stats.get(NOT_HERE, []))
    if reasons:
        told = "; ".join(f"{count} {why}: {cure}" for (why, cure), count in reasons.most_common())
        terminalreporter.write_line(f"not run here: {told}")


@pytest.fixture(autouse=True)
def _nothing_from_the_callers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own master, token, failpoint or width of the terminal never reaches a test."""
    for name in [name for name in os.environ if name.startswith("MUSTER_") or name in ("COLUMNS", "LINES")]:
        monkeypatch.delenv(name)


@pytest.fixture
def unhurried_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A master in this process looks for what a task names as long as that takes: long, on a busy machine."""
    monkeypatch.setattr("master.verbs.places.PATIENCE_S", PATIENCE_S)


@pytest.fixture
def leap(monkeypatch: pytest.MonkeyPatch) -> Leap:
    """Sets the clocks of this process forward."""
    return Leap(monkeypatch)


@pytest.fixture
def free_ports() -> list[int]:
    """Three TCP ports that nobody listens on, and that nobody else is given."""
    return ports.free_ports(3)


@pytest.fixture
def make_lab(tmp_path: Path, free_ports: list[int]) -> LabMaker:
    """`make_lab(nodes=[{…}], **keys of conf.json)` writes a folder a master can start in; gives conf.json's path.

    Without `nodes` there is one `local` node with 8 declared GPUs.
    """

    def make(nodes: list[dict[str, Any]] | None = None, **keys: Any) -> Path:
        names = ("monitor_port", "data_port", "train_state_port")
        conf = {"socket_info": dict(zip(names, free_ports, strict=True)), **keys}
        registry = [declared_node("local", gpus=8)] if nodes is None else nodes
        (tmp_path / "gpu_slaver_info.json").write_text(json.dumps(registry), encoding="utf-8")
        path = tmp_path / "conf.json"
        path.write_text(json.dumps(conf), encoding="utf-8")
        return path

    return make


def declared_node(name: str, *, gpus: int, **keys: Any) -> dict[str, Any]:
    """A registry entry for this machine whose GPUs are believed, not probed."""
    entry = {"name": name, "ip": "127.0.0.1", "driver": "local", "gpu_probe": "declared", "gpu_count": gpus}
    return {**entry, **keys}
