"""To ask about an environment is to run its `activate`, which anybody may have written who can write there: never as
root, nor as the account that runs the master, once there are users."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from master.core.nodes.inventory import NodeState
from master.core.nodes.node import Restriction
from master.core.people.run_as import as_their_owners
from master.doctor.examine import examine
from master.doctor.finding import CONDA
from master.doctor.node import Lab
from master.nodes.registry import NodeConfig
from tests.attack.lab_of_many import OWNER
from tests.cases import each_case
from tests.master.in_process import FACTS
from tests.master.verbs.test_people import Lab as Stories
from tests.master.verbs.test_people import People, lab
from wire.agent import Probed
from wire.errors import NodeUnreachableError
from wire.message import Message

__all__ = ["lab"]

ASKED = ("env.check", "env.python", "env.packages", "env.cuda")
ROOT: dict[str, dict[str, Any]] = {
    "is root, and becomes others": {"uid": 0, "can_run_as": True},
    "is root": {"uid": 0},
    "becomes others": {"can_run_as": True},
}
"""What an agent may say of itself."""


class Asked:
    """Stands in for the way to the nodes: what was to be run there, and as whom."""

    def __init__(self, here: People, patched: pytest.MonkeyPatch) -> None:
        self.runs: list[tuple[str, str | None]] = []
        self.said: list[Any] = []
        patched.setattr(here.master.place.fleet, "probe", self.probe)
        here.master.place.run_as = as_their_owners(here.master.core.people, OWNER)

    async def probe(self, node: str, argv: Any, *, run_as: str | None = None, **_keys: Any) -> Probed:
        """Note it."""
        self.runs.append((node, run_as))
        self.said.append(argv)
        raise NodeUnreachableError("it is asked nothing in this test")


def online(here: People, **facts: Any) -> None:
    core, engine = here.master.core, here.master.engine
    engine.event(lambda: core.node_state("a", NodeState.ONLINE, None, msgspec.structs.replace(FACTS, **facts)))


@pytest.mark.parametrize("agent", ROOT)
def test_no_environment_is_activated_as_root(lab: Stories, monkeypatch: pytest.MonkeyPatch, agent: str) -> None:
    async def story(here: People) -> None:
        asked = Asked(here, monkeypatch)
        online(here, **ROOT[agent])
        bob = await here.user("bob")
        with each_case() as cases:
            for verb in ASKED:
                for said in ({}, {"node": "a"}):
                    with cases.case(f"{verb} {said}"):
                        code, why = (await here.owner.refusal(verb, env="x", **said))[:2]
                        assert (code, "as root" in why) == ("forbidden", True)
        assert asked.runs == []
        await bob.refusal("env.python", env="x", node="a")
        assert asked.runs == [("a", "bob")]

    lab(story)


def test_none_is_activated_as_the_account_that_runs_the_master(lab: Stories, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(here: People) -> None:
        asked = Asked(here, monkeypatch)
        online(here, uid=4300)
        amy = await here.user("amy", "admin")
        await here.owner.call("user.add", name="bob")
        why = Message("own_account_node", account=OWNER)
        here.master.engine.event(lambda: here.master.core.restrict("a", Restriction(frozenset({"amy", OWNER}), why)))
        for peer in (here.owner, amy):
            for verb in ASKED:
                code, refused = await peer.told(verb, env="x", node="a")
                assert (code, refused.key) == ("forbidden", "env_as_admin"), verb
        assert asked.runs == []

    lab(story)


def test_until_there_are_users_they_are_asked_as_tasks_run(lab: Stories, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(here: People) -> None:
        asked = Asked(here, monkeypatch)
        online(here, uid=0, can_run_as=True)
        await here.owner.refusal("env.python", env="x", node="a")
        assert asked.runs == [("a", None)]

    lab(story)


@pytest.mark.parametrize("way", ["is root", "the master's"])
def test_nor_does_the_doctor_activate_one_there(lab: Stories, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    async def story(here: People) -> None:
        master = here.master
        await asyncio.to_thread(lay_conda, Path(master.place.config.conda))
        asked = Asked(here, monkeypatch)
        await here.owner.call("user.add", name="bob")
        online(here, uid=0 if way == "is root" else 4300)
        if way != "is root":
            why = Message("own_account_node", account=OWNER)
            master.engine.event(lambda: master.core.restrict("a", Restriction(frozenset({OWNER}), why)))
        config = NodeConfig(name="a", driver="local", gpu_count=1)
        links: Any = SimpleNamespace(configs={"a": config}, version=lambda _name: "0", probe=asked.probe)
        found = await examine(Lab(master.core, links, master.place.config), ["a"])
        assert [one.says.key for one in found["a"] if one.check == CONDA] == ["doctor_no_conda_as_admin"]
        assert not [argv for argv in asked.said if "activate" in str(argv)]

    lab(story)


def lay_conda(prefix: Path) -> None:
    """As far as the doctor looks."""
    for name in ("activate", "conda", "python"):
        place = prefix / "bin" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    (prefix / "conda-meta").mkdir(exist_ok=True)
