"""How tasks that submit others call the master from their nodes, and which nodes have no way for them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from master.config.config import load_config
from master.core.nodes.inventory import NodeState
from master.engine.engine import Engine
from master.nodes.link import Link
from master.nodes.registry import NodeConfig
from master.nodes.same_account import _this_machine
from master.people.task_tokens import TaskTokens
from master.tls.policy import Tls
from master.watchers.ways_back import WaysBack
from tests.master.core.small_core import BOOT, core_with
from wire.agent import GIVES_TOKENS, PROTOCOL

AWAY = msgspec.structs.replace(BOOT, protocol=PROTOCOL, machine="another")


def here() -> Any:
    machine, boot_id = _this_machine()
    return msgspec.structs.replace(BOOT, protocol=PROTOCOL, machine=machine or "no id", boot_id=boot_id)


class Seen:
    """A driver whose node sees the master so."""

    def __init__(self, place: str) -> None:
        self.place = place

    def sees_us_as(self) -> str:
        return self.place


class Place:
    """A master's settings, and one node `a`."""

    def __init__(self, folder: Path, **conf: Any) -> None:
        ports = {"monitor_port": 1, "data_port": 2, "train_state_port": 3}
        (folder / "conf.json").write_text(json.dumps({"socket_info": ports, **conf}), encoding="utf-8")
        (folder / "task_info").mkdir()
        config = load_config(folder / "conf.json")
        self.core = core_with()
        engine = SimpleNamespace(core=self.core, event=lambda change: change())
        self.tls = Tls.of(config)
        self.ways = WaysBack(cast("Engine", engine), config, self.tls, TaskTokens(b"key"))

    def up(self, facts: Any, driver: str = "ssh", seen: str | None = None) -> tuple[str, str]:
        """The agent is there: how its tasks call the master, and why they cannot."""
        self.core.node_state("a", NodeState.ONLINE, None, facts)
        link = cast("Link", SimpleNamespace(node="a", driver=object() if seen is None else Seen(seen)))
        self.ways.link_up(
            link, NodeConfig(name="a", ip="10.0.0.1", user_name="u", gpu_count=0, driver=cast("Any", driver))
        )
        why = self.core.inventory.nodes["a"].no_tokens
        return self.ways.give("a", "1.1.ab").variables.get("MUSTER_MASTER", ""), "" if why is None else why.key


@pytest.mark.parametrize(
    ("bind", "seen", "told"),
    [
        ("0.0.0.0", "10.0.0.9", ("10.0.0.9:2", "")),  # noqa: S104
        ("::", "fd00::9", ("[fd00::9]:2", "")),
        ("10.0.0.8", "10.0.0.9", ("10.0.0.8:2", "")),
        ("0.0.0.0", "127.0.0.1", ("", "master_out_of_reach")),  # noqa: S104
        ("0.0.0.0", "fe80::1%eth0", ("", "master_out_of_reach")),  # noqa: S104
        ("0.0.0.0", "", ("", "master_out_of_reach")),  # noqa: S104
        ("0.0.0.0", None, ("", "master_out_of_reach")),  # noqa: S104
        ("127.0.0.1", "10.0.0.9", ("", "master_out_of_reach")),
    ],
)
def test_from_another_machine_it_is_called_as_it_came_in_there(
    tmp_path: Path, bind: str, seen: str | None, told: tuple[str, str]
) -> None:
    place = Place(tmp_path, bind=bind)
    assert place.up(AWAY, seen=seen) == told
    if told[0]:
        variables = place.ways.give("a", "1.1.ab").variables
        assert variables["MUSTER_CA_FINGERPRINT"] == place.tls.fingerprint()
        assert "MUSTER_MASTER_UID" not in variables
        assert place.ways.give("a", "1.1.ab").token not in repr(place.ways.give("a", "1.1.ab"))


@pytest.mark.parametrize(
    ("bind", "told"),
    [("127.0.0.1", "127.0.0.1:2"), ("0.0.0.0", "127.0.0.1:2"), ("::1", "[::1]:2")],  # noqa: S104
)
def test_on_the_masters_own_machine_it_is_called_over_loopback(tmp_path: Path, bind: str, told: str) -> None:
    place = Place(tmp_path, bind=bind)
    assert place.up(AWAY, "local") == (told, "")
    assert place.up(here(), "ssh", "127.0.0.1") == (told, "")
    assert place.ways.give("a", "1.1.ab").variables["MUSTER_MASTER_UID"] == str(os.geteuid())


def test_where_the_agent_dialled_in_it_is_called_as_that_was(tmp_path: Path) -> None:
    place = Place(tmp_path, bind="0.0.0.0")  # noqa: S104
    assert place.up(AWAY, "report", "gate.example.org:7000") == ("gate.example.org:7000", "")
    assert place.up(AWAY, "report", "") == ("", "master_out_of_reach")


def test_an_agent_that_would_start_it_without_is_given_none_and_one_that_learned_it_is(tmp_path: Path) -> None:
    place = Place(tmp_path)
    old = msgspec.structs.replace(AWAY, protocol=GIVES_TOKENS - 1)
    assert place.up(old, "local")[1] == "agent_without_tokens"
    assert place.up(AWAY, "local") == ("127.0.0.1:2", "")


def test_no_token_goes_over_plain_text(tmp_path: Path) -> None:
    place = Place(tmp_path, bind="0.0.0.0", tls="off")  # noqa: S104
    assert place.up(AWAY, seen="10.0.0.9")[1] == "tokens_need_tls"
    assert place.up(here(), seen="127.0.0.1")[1] == ""


@pytest.mark.parametrize("bind", ["10.0.0.8", "fd00::8", "queue.lab"])
def test_on_the_masters_own_machine_it_is_called_in_plain_text_where_it_knows_no_other(
    tmp_path: Path, bind: str
) -> None:
    place = Place(tmp_path, bind=bind, tls="off")
    called = f"[{bind}]:2" if ":" in bind else f"{bind}:2"
    assert place.up(AWAY, "local") == (f"plain://{called}", "")
    assert place.ways.give("a", "1.1.ab").variables["MUSTER_MASTER_UID"] == str(os.geteuid())
    assert place.up(AWAY, seen="10.0.0.9")[1] == "tokens_need_tls"


def test_what_the_lab_says_of_its_networks_goes_before_what_we_know(tmp_path: Path) -> None:
    place = Place(tmp_path, bind="0.0.0.0", task_env={"MUSTER_MASTER": "queue.lab:2"})  # noqa: S104
    assert place.up(AWAY, seen="127.0.0.1") == ("", "")
    assert "MUSTER_CA_FINGERPRINT" in place.ways.give("a", "1.1.ab").variables
