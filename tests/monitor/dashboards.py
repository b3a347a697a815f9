"""Our dashboards as Grafana reads them, and their queries as Grafana sends them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

GRAFANA = Path(__file__).parents[2] / "monitor" / "grafana"
DATA = Path(__file__).parents[1] / "data" / "grafana"
UIDS = ("muster-cluster", "muster-node", "muster-queue")


class Query(NamedTuple):
    """A query of a panel. `panel`: dashboard and title, for the message of a failure."""

    panel: str
    text: str


def load(uid: str) -> dict[str, Any]:
    """One dashboard."""
    dashboard: dict[str, Any] = json.loads((GRAFANA / "dashboards" / f"{uid}.json").read_text(encoding="utf-8"))
    return dashboard


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """Its panels that show something."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def queries(dashboard: dict[str, Any]) -> Iterator[Query]:
    """All queries of all panels, as they stand in the file."""
    for panel in panels(dashboard):
        for target in panel["targets"]:
            yield Query(f"{dashboard['uid']}: {panel['title']}: {target['refId']}", target["query"])


def filled_in(text: str, begin_ns: int, end_ns: int, values: dict[str, str], interval: str = "10s") -> str:
    """The query with Grafana's words replaced; `values` are the variables, as it writes them into a regex."""
    text = text.replace("$timeFilter", f"time >= {begin_ns} AND time <= {end_ns}").replace("$__interval", interval)
    for name, value in values.items():
        text = text.replace(f"${name}", value)
    return text
