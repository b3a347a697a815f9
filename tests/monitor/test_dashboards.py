"""The dashboards: valid for Grafana, loaded without a click, and each of their queries finds what our writer wrote."""

from __future__ import annotations

import copy
import json
import re
import time
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from master.setup.deploy.monitoring import retention
from monitor.influx import SECOND, Point, to_text, writer_point
from monitor.influx_follower import GAUGE_S
from monitor.influx_recorder import Recorder
from monitor.influx_server import connect
from monitor.influx_settings import Settings
from monitor.influx_writer import Buffer, Tally, Writer
from tests.monitor.dashboards import DATA, GRAFANA, UIDS, Query, filled_in, load, panels, queries
from tests.monitor.databases import Influx
from tests.monitor.test_influx import GPU, SAMPLE, TASK
from tests.waiting import until

SCHEMA = json.loads((DATA / "schema.json").read_text(encoding="utf-8"))
SOURCE = {"type": "influxdb", "uid": "muster-influxdb"}
GRAFANAS_OWN = {"timeFilter", "__interval"}
OLD_QUERIES = {
    "CPU usage": """SELECT last("value") FROM "cpu" WHERE ("host" =~ /^$server$/ AND "cpu" = 'cpu-total')
        AND $timeFilter GROUP BY time($__interval) fill(null)""",
    "available RAM": """SELECT last("available"), "total" FROM "ram" WHERE ("host" =~ /^$server$/) AND $timeFilter""",
    "network received": """SELECT last("recv_bytes_ps"), "bandwidth" * 1024 * 1024 FROM "net"
        WHERE ("host" =~ /^$server$/) AND $timeFilter""",
    "network sent": """SELECT last("sent_bytes_ps"), "bandwidth" * 1024 * 1024 FROM "net"
        WHERE ("host" =~ /^$server$/) AND $timeFilter""",
    "GPU usage": """SELECT last("load") FROM "gpu" WHERE ("host" =~ /^$server$/)
        AND $timeFilter GROUP BY time($__interval), "gpu" fill(null)""",
    "available GPU RAM": """SELECT last("mem_available") FROM "gpu" WHERE ("host" =~ /^$server$/)
        AND $timeFilter GROUP BY time($__interval), "gpu" fill(null)""",
    "GPU RAM in use": """SELECT last("mem_used") FROM "gpu" WHERE ("host" =~ /^$server$/)
        AND $timeFilter GROUP BY time($__interval), "gpu" """,
    "its variables": "SHOW TAG VALUES FROM cpu WITH KEY=host",
    "its interfaces": "SHOW TAG VALUES FROM net WITH KEY=net",
}


@pytest.fixture(params=UIDS)
def dashboard(request: pytest.FixtureRequest) -> dict[str, Any]:
    return load(request.param)


def errors(schema: dict[str, Any], value: Any) -> list[str]:
    return [f"{error.json_path}: {error.message:.200}" for error in Draft7Validator(schema).iter_errors(value)]


def breaches(dashboard: dict[str, Any]) -> list[str]:
    """Where the dashboard and its panels are not what Grafana's own types say."""
    found = errors(SCHEMA["dashboard"], dashboard)
    for panel in panels(dashboard):
        found += errors(SCHEMA["options"][panel["type"]], panel["options"])
        custom = panel["fieldConfig"]["defaults"].get("custom")
        if custom is not None:
            found += errors(SCHEMA["custom"][panel["type"]], custom)
    return found


def test_it_is_what_grafanas_types_say(dashboard: dict[str, Any]) -> None:
    assert breaches(dashboard) == []


@pytest.mark.parametrize(
    "breakage",
    [
        lambda panel: panel.update(tittle="x"),
        lambda panel: panel["gridPos"].update(w="12"),
        lambda panel: panel["options"].update(legend="right"),
        lambda panel: panel["fieldConfig"]["defaults"]["custom"].update(drawStyle="dots"),
        lambda panel: panel["fieldConfig"]["defaults"]["thresholds"].update(mode="relative"),
        lambda panel: panel.pop("type"),
    ],
)
def test_a_mistake_would_be_found(breakage: Any) -> None:
    broken = copy.deepcopy(load("muster-node"))
    panel = next(panel for panel in broken["panels"] if panel["type"] == "timeseries")
    whole = copy.deepcopy(panel)
    breakage(panel)
    if "type" not in panel:
        assert errors(SCHEMA["dashboard"], broken) != []
    else:
        assert breaches(broken) != []
    assert panel != whole


def test_it_loads_without_a_click(dashboard: dict[str, Any]) -> None:
    """No input to be answered, a data source that is provisioned, a time, a refresh, and a place for every panel."""
    assert "__inputs" not in dashboard
    assert dashboard["time"]["to"] == "now"
    assert dashboard["refresh"] == "10s"
    uses = [*panels(dashboard), *dashboard["templating"]["list"]]
    uses += [target for panel in panels(dashboard) for target in panel["targets"]]
    assert all(use["datasource"] == SOURCE for use in uses)
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in panels(dashboard):
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)


def test_data_that_stopped_looks_stopped(dashboard: dict[str, Any]) -> None:
    """Nothing shows the last word of long ago as how things are, and no line is drawn over a gap."""
    assert "lastNotNull" not in json.dumps(dashboard)
    for panel in panels(dashboard):
        texts = [target["query"] for target in panel["targets"]]
        custom = panel["fieldConfig"]["defaults"].get("custom", {})
        if panel["type"] == "stat":
            assert (panel["timeFrom"], panel["options"]["reduceOptions"]["calcs"]) == ("1m", ["last"]), panel["title"]
        elif panel["type"] == "state-timeline" or custom.get("drawStyle") == "line":
            of_tasks = ('"task", "user"', "wait_s", "run_s")  # each of them ends, and nothing is known in between
            gaps = [text for text in texts if not any(word in text for word in of_tasks)]
            assert all(text.endswith("fill(null)") for text in gaps), panel["title"]
            assert custom.get("spanNulls", False) in (False, 60_000), panel["title"]


def test_panels_do_not_overlap(dashboard: dict[str, Any]) -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, f"{panel['title']} lies on {taken[x, y]}"
                taken[x, y] = panel["title"]


def test_its_queries_use_only_variables_that_it_has(dashboard: dict[str, Any]) -> None:
    known = {variable["name"] for variable in dashboard["templating"]["list"]} | GRAFANAS_OWN
    used = {name for query in queries(dashboard) for name in re.findall(r"\$(\w+)", query.text)}
    assert used <= known
    assert used - GRAFANAS_OWN == known - GRAFANAS_OWN


def test_both_data_sources_and_the_provider_are_what_the_dashboards_name() -> None:
    for version in (1, 2):
        text = (GRAFANA / "datasources" / f"influxdb{version}.yaml").read_text(encoding="utf-8")
        assert f"uid: {SOURCE['uid']}\n" in text
        assert f"type: {SOURCE['type']}\n" in text
        assert "version: InfluxQL\n" in text
    assert sorted(path.stem for path in (GRAFANA / "dashboards").iterdir()) == sorted(UIDS)


def alert_rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((GRAFANA / "alerting" / "muster.yaml").read_text(encoding="utf-8"))["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def test_alert_rules_are_provisioned_whole() -> None:
    """Each asks our source, reduces what it says and compares that; and names nothing that Grafana would replace."""
    rules = alert_rules()
    assert len({rule["uid"] for rule in rules}) == len({rule["title"] for rule in rules}) == len(rules) >= 8
    for rule in rules:
        asked, reduced, compared = rule["data"]
        assert asked["datasourceUid"] == SOURCE["uid"]
        assert (reduced["model"]["expression"], compared["model"]["expression"]) == ("A", "B")
        assert rule["condition"] == compared["refId"] == "C"
        assert "$" not in json.dumps(rule), "provisioning replaces $NAME by variables of Grafana's environment"
    assert {rule["uid"]: rule["noDataState"] for rule in rules}["muster-no-metrics"] == "Alerting"


# -- with data -------------------------------------------------------------------------------------------------


def some_minutes_of_a_lab(end: float) -> list[Point]:
    """Two nodes and two users for two minutes, told by a recorder as a master would tell it."""
    recorder = Recorder()
    begin = end - 120
    waiting = {**TASK, "id": 8, "owner": "bob", "state": "waiting", "started_at": None, "allocation": []}
    running = {**TASK, "submitted_at": begin - 30, "started_at": begin + 1}
    nodes = [
        {
            "name": name,
            "state": "online",
            "schedulable": True,
            "gpus": [{"health": "ok", "condition": "ok", "held_by": [7]}],
            "tasks": [7],
        }
        for name in ("node1", "node2")
    ]
    points = recorder.handle({"method": "snapshot", "params": {"tasks": [running, waiting]}})
    points += recorder.handle({"method": "snapshot", "params": {"nodes": nodes}})
    for second in range(0, 120, 2):
        at = begin + second
        for name in ("node1", "node2"):
            memory = {**SAMPLE["memory"], "swap_total": 4096, "swap_used": 1024}
            sample = {**SAMPLE, "node": name, "at": at, "memory": memory, "gpus": [GPU, {**GPU, "index": 4, "xid": 79}]}
            points += recorder.handle({"method": "node.sample", "params": sample}, round(at * 1e9))
        if second % 10 == 0:
            points += recorder.tick(round(at * 1e9))
    for state in ("failed", "lost"):
        ended = {**running, "state": state, "ended_at": end - 5}
        points += recorder.handle({"method": "task.changed", "params": {"task": ended}})
    return points


@pytest.fixture
def filled(influx: Influx) -> tuple[Influx, int, int]:
    """A real InfluxDB with what the writer wrote, and the nanoseconds of its first and last point."""
    end = time.time()
    buffer = Buffer()
    buffer.add(*to_text(some_minutes_of_a_lab(end)))
    writer = Writer(buffer, lambda: connect(Settings(influx.url, 1, "", "", "muster")))
    writer.start()
    until("all is written", lambda: not buffer.points)
    writer.stop(5)
    return influx, round((end - 130) * 1e9), round((end + 10) * 1e9)


def nothing_found(influx: Influx, wanted: list[Query]) -> list[str]:
    """The panels whose query gives no row with a number in it."""
    return [
        query.panel
        for query in wanted
        if not any(
            any(isinstance(value, (int, float)) for value in row[1:])
            for series in influx.query(query.text)
            for row in series["values"]
        )
    ]


CHOICES = [
    {"host": ".*", "user": ".*"},
    {"host": "(node1|node2)", "user": "(ada)"},
    {"host": "node1", "user": "ada"},
]


@pytest.mark.parametrize("interval", ["10s", "2m"])
@pytest.mark.parametrize("values", CHOICES, ids=["all", "several", "one"])
def test_every_query_of_every_panel_finds_what_the_writer_wrote(
    filled: tuple[Influx, int, int], values: dict[str, str], interval: str
) -> None:
    influx, begin, end = filled
    wanted = [
        Query(query.panel, filled_in(query.text, begin, end, values, interval))
        for uid in UIDS
        for query in queries(load(uid))
    ]
    assert len(wanted) > 50
    assert nothing_found(influx, wanted) == []


def test_the_variables_find_their_values(filled: tuple[Influx, int, int]) -> None:
    found = {
        (uid, variable["name"]): [row["value"] for row in filled[0].rows(variable["query"])]
        for uid in UIDS
        for variable in load(uid)["templating"]["list"]
    }
    assert found == {
        ("muster-cluster", "host"): ["node1", "node2"],
        ("muster-node", "host"): ["node1", "node2"],
        ("muster-queue", "user"): ["ada", "bob"],
    }


def test_each_alert_rule_asks_for_what_the_writer_writes(influx: Influx) -> None:
    now = time.time()
    points = [
        *some_minutes_of_a_lab(now - 20),
        writer_point(Tally(5, 0, 0, 0, None)._asdict(), round((now - 90) * 1e9)),
    ]
    buffer = Buffer()
    buffer.add(*to_text(points))
    writer = Writer(buffer, lambda: connect(Settings(influx.url, 1, "", "", "muster")))
    writer.start()
    until("all is written", lambda: not buffer.points)
    writer.stop(5)
    asked = [Query(rule["uid"], rule["data"][0]["model"]["query"]) for rule in alert_rules()]
    assert nothing_found(influx, asked) == []


def test_the_retention_of_the_compose_file_is_one_that_influxdb_1_takes(influx: Influx) -> None:
    name = 'my "lab"'
    influx.query('CREATE DATABASE "my \\"lab\\""')
    influx.query(retention(name), name)
    ((policy, duration, *_),) = influx.query("SHOW RETENTION POLICIES", name)[0]["values"]
    assert (policy, duration) == ("autogen", "8736h0m0s")


def test_sums_over_nodes_and_users_count_each_once(filled: tuple[Influx, int, int]) -> None:
    influx, begin, end = filled
    told = {
        query.panel: influx.query(filled_in(query.text, begin, end, {"host": ".*", "user": ".*"}))
        for uid in UIDS
        for query in queries(load(uid))
    }

    def last(panel: str) -> Any:
        return [value for _, value, *_ in told[panel][0]["values"] if value is not None][-1]

    assert last("muster-cluster: Nodes online: A") == 2
    assert last("muster-cluster: GPUs held: A") == 2
    assert last("muster-cluster: Tasks running: A") == 1
    assert last("muster-cluster: Tasks waiting: A") == 1
    assert last("muster-cluster: GPUs that get no tasks: A") == 0
    assert last("muster-cluster: Received by node: A") == 8000.0
    assert last("muster-queue: GPUs that waiting tasks want: A") == 2
    hours = {row["tags"]["user"]: row["values"][0][1] for row in told["muster-queue: GPU hours in this time: A"]}
    assert hours["ada"] == pytest.approx(12 * 2 * 10 / 3600)  # twelve times told, for 10 s each


def test_gpu_hours_are_not_counted_for_a_time_of_which_nobody_knows(influx: Influx) -> None:
    """The writer was away for a day: before it a user held nothing, after it eight GPUs."""
    buffer, end = Buffer(), time.time_ns()
    idle, busy = dict.fromkeys(("gpus", "running"), 0), {"gpus": 8, "running": 1}
    told = [(end - 86_400 * SECOND, idle), (end - 10 * SECOND, busy), (end, busy)]
    buffer.add(*to_text([Point("task", {"user": "ada"}, fields, at) for at, fields in told]))
    writer = Writer(buffer, lambda: connect(Settings(influx.url, 1, "", "", "muster")))
    writer.start()
    until("all is written", lambda: not buffer.points)
    writer.stop(5)
    (text,) = [query.text for query in queries(load("muster-queue")) if "GPU hours" in query.panel]
    (row,) = influx.rows(filled_in(text, end - 86_400 * SECOND, end, {"user": ".*"}))
    assert row["GPU hours"] == pytest.approx(2 * 8 * GAUGE_S / 3600)


def test_rates_of_the_network_are_shown_as_what_is_written() -> None:
    """Bits a second."""
    shown = {
        panel["title"]: panel["fieldConfig"]["defaults"]["unit"]
        for uid in UIDS
        for panel in panels(load(uid))
        if any("bytes_ps" in target["query"] for target in panel["targets"])
    }
    assert shown == {"Received by node": "bps", "Sent by node": "bps", "Network": "bps"}


@pytest.mark.parametrize("name", OLD_QUERIES)
def test_the_queries_of_the_old_systems_dashboard_find_their_data(filled: tuple[Influx, int, int], name: str) -> None:
    influx, begin, end = filled
    text = filled_in(OLD_QUERIES[name], begin, end, {"server": "node1"})
    rows = [row for series in influx.query(text) for row in series["values"]]
    assert rows
    assert any(None not in row for row in rows)
