"""Databases for each test, gone with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.monitor.databases import Influx, Victoria
from tests.system.conftest import lab, make_system_lab  # noqa: F401  (fixtures)

InfluxMaker = Callable[..., Influx]


@pytest.fixture
def make_influx(tmp_path: Path) -> Iterator[InfluxMaker]:
    """`make_influx(auth=…)`: a real InfluxDB 1.6 that runs."""
    with ExitStack() as stack:

        def make(*, auth: bool = False) -> Influx:
            made = Influx(tmp_path / "influx", auth=auth)
            stack.callback(made.stop)
            return made

        yield make


@pytest.fixture
def influx(make_influx: InfluxMaker) -> Influx:
    """A real InfluxDB 1.6 that runs and lets everybody in."""
    return make_influx()


@pytest.fixture
def victoria(tmp_path: Path) -> Iterator[Victoria]:
    """A real VictoriaMetrics that runs."""
    made = Victoria(tmp_path / "victoria")
    yield made
    made.stop()
