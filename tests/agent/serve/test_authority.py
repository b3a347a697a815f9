"""Whom an agent obeys: one master and its descendants, one connection at a time."""

from __future__ import annotations

import json
import select
import socket

import pytest

from monitor.agent.serve.connection import Connection
from monitor.agent.serve.connections import BEATS, HELLO_S, Connections
from tests.agent.small_master import Node
from tests.waiting import PATIENCE_S
from wire.agent import HEARTBEAT_S


@pytest.mark.parametrize(
    ("epoch", "incarnation", "lineage", "welcome"),
    [
        (5, "b", [[4, "x"], [5, "b"]], True),
        (6, "c", [[5, "b"], [6, "c"]], True),
        (9, "f", [[5, "b"], [8, "e"], [9, "f"]], True),
        (40, "z", [[20, "y"], [40, "z"]], True),
        (4, "x", [[4, "x"]], False),
        (5, "copy", [[4, "x"], [5, "copy"]], False),
        (6, "copy2", [[4, "x"], [5, "copy"], [6, "copy2"]], False),
        (6, "copy2", [[5, "copy"], [6, "copy2"]], False),
    ],
)
def test_only_a_descendant_of_the_master_obeyed_before(
    node: Node, epoch: int, incarnation: str, lineage: list[list[object]], *, welcome: bool
) -> None:
    assert node.serve().returncode == 0
    node.link(5, "b").close()
    answer = node.link(epoch, incarnation, lineage).welcome
    assert answer["op"] == ("welcome" if welcome else "refused")
    if not welcome:
        assert (answer["code"], answer["epoch"], answer["incarnation"]) == ("fenced", 5, "b")
        assert answer["message"].startswith("this agent obeys epoch 5 of b")


def test_the_master_is_on_disk_before_it_is_welcomed_and_outlives_the_agent(node: Node) -> None:
    node.serve()
    link = node.link(5, "b")
    assert json.loads((node.state / "master.json").read_text(encoding="utf-8")) == {"epoch": 5, "incarnation": "b"}
    node.kill_agent(link)
    node.serve()
    assert node.link(5, "copy").welcome["code"] == "fenced"


def test_a_master_file_that_is_garbage_stops_the_start_with_its_name(node: Node) -> None:
    node.state.mkdir()
    (node.state / "master.json").write_text("{", encoding="utf-8")
    done = node.serve()
    assert done.returncode == 1
    assert f"{node.state}/master.json is not JSON" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_same_master_again_replaces_its_old_connection(node: Node) -> None:
    old = node.up()
    new = node.link()
    with pytest.raises(EOFError):
        old.read()
    assert node.run(new, "t1", "exit 1")["code"] == 1


def test_a_descendant_waits_while_the_old_connection_is_alive(node: Node) -> None:
    old = node.up()
    lineage = [[1, "a"], [2, "b"]]
    assert node.link(2, "b", lineage).welcome["code"] == "busy"
    old.ping()
    old.close()
    answer = node.link(2, "b", lineage).welcome
    assert answer["op"] == "welcome"


def test_commands_without_a_welcome_are_not_obeyed(node: Node) -> None:
    node.serve()
    node.link(5, "b").close()
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(node.state / "agent.sock"))
        stranger.sendall(json.dumps(node.message("t1", "true")).encode() + b"\n")
        again = node.link(5, "b")
        again.ping()
    assert node.link(5, "b").inventory == {}


@pytest.mark.parametrize("data", [b"\xff\xfe\n", b"[" * 100 + b"\n", b'{"op":"hello","op":"x"}\n', b'{"op":"hello"}\n'])
def test_garbage_ends_that_connection_and_no_other(node: Node, data: bytes) -> None:
    link = node.up()
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.settimeout(60)
        stranger.connect(str(node.state / "agent.sock"))
        stranger.sendall(data)
        assert stranger.recv(10) == b""
    assert node.run(link, "t1", "exit 1")["code"] == 1


def test_unknown_ops_and_keys_are_passed_over(node: Node) -> None:
    link = node.up()
    link.send({"op": "from_the_future", "x": 1})
    link.send({"op": "kill"})
    assert node.run(link, "t1", "exit 1", colour="red")["code"] == 1


def test_silence_of_three_heartbeats_is_an_end(node: Node) -> None:
    """Before that, somebody who never says hello has as long as on any connection."""
    node.serve()
    with socket.socket(socket.AF_UNIX) as stranger, socket.socket(socket.AF_UNIX) as master:
        for one in (stranger, master):
            one.settimeout(PATIENCE_S)
            one.connect(str(node.state / "agent.sock"))
        hello = {"op": "hello", "protocol": 1, "cluster": "c", "epoch": 1, "incarnation": "a", "lineage": [[1, "a"]]}
        for message in (hello, {"op": "pace", "sample_s": 2.0, "heartbeat_s": 0.5}):
            master.sendall(json.dumps(message).encode() + b"\n")
        while master.recv(65536):
            pass
        stranger.settimeout(0)
        with pytest.raises(BlockingIOError):
            stranger.recv(1)
    assert 3 * 0.5 < HELLO_S < BEATS * HEARTBEAT_S, "without what it was told the stranger would go first"


def test_what_one_master_said_of_its_heartbeat_does_not_hold_for_the_next() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        found = Connections(select.poll(), on_message=print, on_lost=print, complain=print)
        found.expect(0.5)
        assert found.silence_s == BEATS * 0.5
        found.welcome(Connection(ours, 0.0), "b")
        assert found.silence_s == BEATS * HEARTBEAT_S


def test_samples_arrive_unasked(node: Node) -> None:
    link = node.up()
    with link.socket.makefile("rb") as lines:
        sample = next(found for found in map(json.loads, lines) if found["op"] == "sample")
    assert 0 <= sample["cpu_percent"] <= 100
    assert len(sample["cpu_percents"]) >= 1
    assert 0 < sample["memory_available_mib"] <= sample["memory_total_mib"]
    assert len(sample["load"]) == 3
