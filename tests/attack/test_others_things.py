"""Somebody who may submit tasks, and wants what others have: their environments, logs, variables and names.

Calls about a task, file or account itself are walked through in `test_walk.py`; here is what leads there otherwise.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from master.core.nodes.inventory import NodeState
from master.core.tasks.task import Task, TaskState
from master.durable import history
from master.durable.disk import OsDisk
from master.files.service import Files
from master.nodes.environment_scripts import MARK
from master.ports.port_server import TASKS
from tests.attack.lab_of_many import MEMBER, OUTSIDER, SECRET, LabOfMany, desktop_peer, lab_of_many
from tests.attack.rules import Caller, Who
from tests.desktop.client import form
from tests.master.in_process import FACTS, Peer, run
from tests.master.verbs.test_people import PASSWORD
from wire.agent import Probed

ANN = Caller("password", "user")
USERS: tuple[Who, ...] = ("viewer", "user", "mentor")


def answers_with(lab: LabOfMany, output: str) -> None:
    """A node is there, and every question to an environment is answered so."""
    core = lab.master.core
    lab.master.engine.event(lambda: core.node_state("a", NodeState.ONLINE, None, FACTS))

    async def probe(node: str, _argv: list[str], **_how: Any) -> Probed:
        lab.master.machine.asked.append(node)
        return Probed(op="probed", probe_id="", code=0, output=output, truncated=False, error="")

    lab.master.machine.probe = probe  # type: ignore[assignment, method-assign]


@pytest.mark.parametrize("who", USERS)
def test_nobody_learns_of_environments_in_others_folders_nor_activates_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: Who
) -> None:
    async def story() -> None:
        async with lab_of_many(tmp_path, monkeypatch) as lab:
            caller = Caller("token", who)
            own, others = f"{tmp_path}/data/{lab.name(caller)}/venv", f"{tmp_path}/data/{OUTSIDER}/venv"
            shared, group = f"{tmp_path}/envs/venv", f"{tmp_path}/data/groups/vision/venv"
            answers_with(lab, "".join(f"{path}\0" for path in (own, others, shared, group)))
            peer = await lab.come_in(caller)
            assert {env["path"] for env in (await peer.call("env.list"))["envs"]} == {own, shared, group}
            assert others in {env["path"] for env in (await lab.owner.call("env.list"))["envs"]}
            lab.master.machine.asked.clear()
            for verb in ("env.check", "env.python", "env.packages", "env.cuda"):
                for path in (others, f"{own}/../../{OUTSIDER}/venv", f"{tmp_path}/data//{OUTSIDER}/./venv"):
                    assert (await peer.refusal(verb, env=path))[0] == "forbidden", (verb, path)
            assert lab.master.machine.asked == []
            if who != "viewer":
                told = {"version": "3.11", "executable": f"{own}/bin/python", "prefix": own, "own": True}
                answers_with(lab, f"{MARK}{json.dumps(told)}")
                assert (await peer.call("env.python", env=own))["prefix"] == own

    run(story())


@pytest.mark.parametrize(
    "log", ["data/bob/x", "logs/{bobs}.log", "data/ann/../bob/x", "data/ann/link", "task_info/lock"]
)
def test_nobody_reads_anothers_file_or_log_by_calling_it_his_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str
) -> None:
    async def story() -> None:
        async with lab_of_many(tmp_path, monkeypatch) as lab:
            bobs = lab.task(OUTSIDER)
            for name in (OUTSIDER, "ann"):
                (tmp_path / "data" / name).mkdir(parents=True)
            (tmp_path / "data" / OUTSIDER / "x").write_text(SECRET, encoding="utf-8")
            (tmp_path / "data" / "ann" / "link").symlink_to(tmp_path / "data" / OUTSIDER / "x")
            peer = await lab.come_in(ANN)
            place = f"{tmp_path}/{log.format(bobs=bobs)}"
            answer = await peer.answer(peer.ask("task.submit", command="true", hold=True, log=place))
            if "result" in answer:
                read = await peer.answer(peer.ask("log.read", id=answer["result"]["id"]))
                if "result" in read:  # as if it were not there
                    assert (read["result"]["data"], read["result"]["size"]) == ("", 0)
                else:
                    assert read["error"]["data"]["code"] in ("forbidden", "not_found"), read

    run(story())


@pytest.mark.parametrize("who", ["viewer", "user", "mentor", "admin"])
def test_the_values_of_anothers_variables_are_told_to_nobody_by_any_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: Who
) -> None:
    async def story() -> None:
        async with lab_of_many(tmp_path, monkeypatch) as lab:
            caller = Caller("token", who)
            peer, listener = await lab.come_in(caller), await lab.come_in(caller, TASKS)
            task = lab.task(MEMBER)
            lab.master.core.tasks[task].variables = {"TOKEN": SECRET}
            told: list[Any] = [await listener.call("subscribe")]
            for verb in ("task.show", "task.why", "task.hold", "task.release", "task.edit"):
                more = {"changes": {"priority": -1}} if verb == "task.edit" else {}
                told.append(await peer.answer(peer.ask(verb, id=task, **more)))
            told += [await peer.call("task.list", sparse=sparse, search=SECRET) for sparse in (False, True)]
            told += [await peer.call("task.list", sparse=sparse) for sparse in (False, True)]
            other = lab.task(MEMBER)
            while other not in (told[-1].get("params") or {}).get("task", {}).values():
                told.append(await listener.notification())
            told.append(await peer.answer(peer.ask("task.submit", command="true", after=[{"id": task}], dry_run=True)))
            assert SECRET not in json.dumps(told)

    run(story())


@pytest.mark.parametrize("who", ["user", "mentor"])
def test_nobody_files_or_gives_away_tasks_in_anothers_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: Who
) -> None:
    async def story() -> None:
        async with lab_of_many(tmp_path, monkeypatch) as lab:
            caller = Caller("token", who)
            peer = await lab.come_in(caller)
            before = await lab.state()
            for name in (OUTSIDER, MEMBER, "amy", "nobody_at_all"):
                for verb, command in (
                    ("task.submit", {"command": "true"}),
                    ("task.submit_batch", {"commands": ["true"]}),
                ):
                    assert (await peer.refusal(verb, **command, **{"as": name}))[0] == "forbidden", (verb, name)
            assert await lab.state() == before
            mine = lab.task(lab.name(caller))
            for task, owner in ((mine, OUTSIDER), (lab.task(OUTSIDER), lab.name(caller)), (lab.task(MEMBER), "mia")):
                assert (await peer.refusal("task.edit", id=task, changes={"owner": owner}))[0] == "forbidden"
            assert (await peer.refusal("task.submit", command="true", owner=OUTSIDER))[0] == "bad_request"

    run(story())


@pytest.mark.parametrize("left", ["here", "in the monthly files", "nothing"])
def test_who_is_added_by_the_name_of_who_was_removed_gets_his_tasks_only_where_an_admin_says_that_it_is_he(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    ended = Task(id=9_000, state=TaskState.FAILED, ended_at=1e9, command="x", owner="cy", variables={"TOKEN": SECRET})

    async def story() -> None:
        async with lab_of_many(tmp_path, monkeypatch) as lab:
            await lab.owner.call("user.add", name="cy", password=PASSWORD)
            if left == "here":
                lab.master.engine.event(lambda: lab.master.core.recall(ended))
            elif left == "in the monthly files":
                history.extend(OsDisk(), tmp_path / "task_info" / "history", [ended])
            await lab.owner.call("user.remove", name="cy")
            if left != "nothing":
                code, said = await lab.owner.refusal("user.add", name="cy", password=PASSWORD)
                assert (code, "--again" in said) == ("conflict", True)
                assert lab.master.core.people.named("cy") is None
            again = left != "nothing"
            assert (await lab.owner.call("user.add", name="cy", again=again))["name"] == "cy"

    run(story())


async def bare(peer: Peer, task: int) -> dict[str, Any]:
    """What is told of the task next."""
    while True:
        told = (await peer.notification())["params"].get("task")
        if told is not None and told["id"] == task:
            return dict(told)


def test_who_looks_after_a_group_no_more_is_told_no_more_of_it_on_the_stream_that_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with lab_of_many(tmp_path, monkeypatch) as lab:
            place = lab.master.place
            place.config = msgspec.structs.replace(place.config, privacy="own")
            task = lab.task(MEMBER)
            mia = await lab.come_in(Caller("token", "mentor"), TASKS)
            await mia.call("subscribe")
            await lab.owner.call("task.edit", id=task, changes={"priority": -1})
            assert (await bare(mia, task))["command"] == "true"
            await lab.owner.call("group.edit", name="vision", remove_mentors=["mia"])
            await lab.owner.call("task.edit", id=task, changes={"priority": -2})
            told = await bare(mia, task)
            assert (told["command"], told["priority"], told["log_path"]) == ("", 0, "")

    run(story())


def test_a_desktop_client_gives_a_task_to_nobody_and_reaches_no_other_by_an_id_that_is_spelled_oddly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with lab_of_many(tmp_path, monkeypatch) as lab, desktop_peer(lab, "user") as peer:
            bobs = lab.task(OUTSIDER)
            before = await lab.state()
            for spelled in (
                f"{bobs:014d}",
                str(bobs),
                bobs,
                f" {bobs} ",
                f"{bobs}.0",
                f"+{bobs}",
                [bobs],
                {"id": bobs},
            ):
                for mode in ("stop_task", "del_task", "resub_task", "get_train_log_path"):
                    _, said = await peer.ask(mode, spelled)
                    assert SECRET not in str(said)
                await peer.ask("change_task", form("false", task_id=spelled))
            assert await lab.state() == before
            await peer.ask("add_task", {**form("true"), "owner": OUTSIDER, "user": OUTSIDER, "as": OUTSIDER})
            assert {task.owner for task in lab.master.core.tasks.values() if task.id > bobs} <= {"ann"}

    run(story())


@pytest.mark.usefixtures("unhurried_look")
def test_nobody_learns_what_lies_on_the_masters_disk_by_asking_whether_a_folder_for_a_task_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with lab_of_many(tmp_path, monkeypatch) as lab:
            for owners in (lab.master.place.files, Files(tmp_path, ("data", "envs"))):
                lab.master.place.files = owners
                peer = await lab.come_in(ANN)
                (tmp_path / "data" / "ann").mkdir(parents=True, exist_ok=True)
                link = tmp_path / "data" / "ann" / "out"
                link.unlink(missing_ok=True)
                link.symlink_to(tmp_path / "task_info")
                for folder in ("task_info", "data/ann/out", "data/../task_info"):
                    told = [
                        (await peer.call("task.places", cwd=f"{tmp_path}/{folder}/{name}"))["missing"]
                        for name in ("services", "nothing")
                    ]
                    assert told[0] == told[1] == [], folder
                assert (await peer.call("task.places", cwd=f"{tmp_path}/data/ann/nothing"))["missing"]

    run(story())
