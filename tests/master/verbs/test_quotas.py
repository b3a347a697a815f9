"""Quotas over real connections: who sets and sees them, what a task meets, and that a restart keeps them."""

from __future__ import annotations

from pathlib import Path

from master.core.nodes.inventory import Facts, NodeState
from master.core.tasks.task import TaskState
from tests.master.in_process import InProcess, comes_as, run
from tests.waiting import settled

FACTS = Facts(boot_id="boot", state_id="state", cpus=8, memory_mib=1000)


def online(master: InProcess) -> None:
    master.engine.event(lambda: master.core.node_state("a", NodeState.ONLINE, None, FACTS))


def test_admins_set_quotas_and_whose_they_are_sees_them_with_what_is_in_use(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            online(master)
            with comes_as("chen", master.core, "admin"):
                chen = await master.peer()
                await chen.call("user.add", name="ann")
                await chen.call("group.add", name="nlp")
                await chen.call("group.edit", name="nlp", add=["ann"], changes={"max_running": 3})
                user = await chen.call("user.edit", name="ann", changes={"max_total_gpus": 2, "display": "安"})
                assert user["quota"]["max_total_gpus"] == 2
                assert (await chen.call("user.edit", name="ann", changes={"role": "user"}))["quota"] == user["quota"]
                assert (await chen.refusal("user.edit", name="ann", changes={"max_total_gpus": -1}))[0] == "bad_request"
                assert (await chen.refusal("user.edit", name="ann", changes={"max_gpu": 1}))[1].startswith("Object")
                assert (await chen.refusal("group.edit", name="nlp", changes={"max": 1}))[0] == "bad_request"
            with comes_as("ann", master.core):
                ann = await master.peer()
                await ann.call("task.submit", command="true", gpus=2)
                # Where a plan took long, the next one comes a little later.
                await settled(lambda: master.core.counts[TaskState.STARTING] == 1)
                second = (await ann.call("task.submit", command="true", gpus=2))["id"]
                why = await ann.call("task.why", id=second)
                assert why["reason_key"] == "over_quota"
                assert why["details"][0] == "max_total_gpus of user ann is 2, and 2 GPUs are in use (task 1)"
                refused = await ann.refusal("task.submit", command="true", gpus=3)
                assert refused[0] == "impossible"
                assert "max_total_gpus of user ann is 2: ask for fewer" in refused[1]
                seen = await ann.call("task.submit", command="true", gpus=3, dry_run=True)
                assert (seen["possible"], seen["reason_key"]) == (False, "never")
                seen = await ann.call("task.submit", command="true", gpus=1, dry_run=True)
                assert (seen["possible"], seen["placement"], seen["reason_key"]) == (True, None, "over_quota")
                quotas = (await ann.call("auth.whoami"))["quotas"]
                assert [(one["kind"], one["name"], one["use"]) for one in quotas] == [
                    ("user", "ann", {"gpus": 2, "running": 1, "manual": 0}),
                    ("group", "nlp", {"gpus": 2, "running": 1, "manual": 0}),
                ]
                assert (await ann.call("group.list"))[0]["quota"]["max_running"] == 3
                for verb, params in (
                    ("user.edit", {"name": "ann"}),
                    ("group.edit", {"name": "nlp"}),
                    ("project.edit", {"name": "p"}),
                ):
                    assert (await ann.refusal(verb, **params, changes={"max_running": 9}))[0] == "forbidden"

    run(story())


def test_only_an_admins_start_passes_a_quota(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            online(master)
            core = master.core
            with comes_as("meg", core):
                meg = await master.peer()
                core.people.add("ann")
                core.people.add_group("nlp")
                core.people.edit_group("nlp", [core.people.find("ann")], [core.people.find("meg")])
                with comes_as("ann", core):
                    ann = await master.peer()
                    await ann.call("task.submit", command="true", gpus=1)
                    number = (await ann.call("task.submit", command="true", gpus=1, hold=True))["id"]
                await settled(lambda: core.counts[TaskState.STARTING] == 1)
                await meg.call("task.list")
                with comes_as("chen", core, "admin"):
                    chen = await master.peer()
                    await chen.call("user.edit", name="ann", changes={"max_running": 1})
            with comes_as("meg", core):
                await (await master.peer()).call("task.start", id=number)
            await master.engine.durable()
            assert core.tasks[number].state is TaskState.WAITING
            with comes_as("chen", core, "admin"):
                await (await master.peer()).call("task.start", id=number)
            await settled(lambda: core.tasks[number].state is TaskState.STARTING)

    run(story())


def test_a_project_of_a_group_is_for_those_who_belong_to_it_and_is_there_after_a_restart(tmp_path: Path) -> None:
    async def begin() -> None:
        async with InProcess(tmp_path) as master:
            with comes_as("chen", master.core, "admin"):
                chen = await master.peer()
                for name in ("ann", "bob"):
                    await chen.call("user.add", name=name)
                await chen.call("group.add", name="nlp")
                await chen.call("group.edit", name="nlp", add=["ann"])
                made = await chen.call("project.edit", name="crawl", changes={"group": "nlp", "max_running": 2})
                assert (made["group"], made["quota"]["max_running"]) == ("nlp", 2)
                for name in ("", " crawl", "a\nb", "x" * 201):
                    assert (await chen.refusal("project.edit", name=name, changes={}))[0] == "bad_request"
                assert (await chen.refusal("project.edit", name="x", changes={"group": "no"}))[0] == "not_found"
            with comes_as("ann", master.core):
                ann = await master.peer()
                mine = (await ann.call("task.submit", command="true", project="crawl"))["id"]
                assert [one["name"] for one in await ann.call("project.list")] == ["crawl"]
            with comes_as("bob", master.core):
                bob = await master.peer()
                for verb, params in (("task.submit", {"command": "true"}), ("task.submit_batch", {"commands": ["a"]})):
                    code, said = await bob.refusal(verb, **params, project="crawl")
                    assert code == "forbidden"
                    assert said.startswith("project crawl belongs to group nlp, and bob does not")
                number = (await bob.call("task.submit", command="true", project="free"))["id"]
                assert (await bob.refusal("task.edit", id=number, changes={"project": "crawl"}))[0] == "forbidden"
                assert [one["name"] for one in await bob.call("project.list")] == ["free"]
            assert master.core.tasks[mine].project == "crawl"

    async def again() -> None:
        async with InProcess(tmp_path) as master:
            with comes_as("chen", master.core, "admin"):
                chen = await master.peer()
                found = {one["name"]: one for one in await chen.call("project.list")}
                assert (found["crawl"]["group"], found["crawl"]["tasks"], found["free"]["tasks"]) == ("nlp", 1, 1)
                await chen.call("project.edit", name="crawl", changes={"group": None, "max_running": None})
                assert master.core.projects == {}

    run(begin())
    run(again())


def test_who_has_left_a_group_begins_nothing_more_in_its_projects(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            online(master)
            with comes_as("chen", master.core, "admin"):
                chen = await master.peer()
                await chen.call("user.add", name="ann")
                await chen.call("group.add", name="nlp")
                await chen.call("group.edit", name="nlp", add=["ann"])
                await chen.call("project.edit", name="crawl", changes={"group": "nlp"})
            with comes_as("ann", master.core):
                ann = await master.peer()
                held, over, holder = [
                    (await ann.call("task.submit", command="true", project="crawl", hold=True))["id"],
                    (await ann.call("task.submit", command="true", project="crawl", hold=True))["id"],
                    (await ann.call("alloc.new", name="exp", gpus=1, project="crawl"))["id"],
                ]
                await ann.call("task.cancel", ids=[over])
                await settled(lambda: master.core.tasks[holder].state is TaskState.RUNNING)
                await chen.call("group.edit", name="nlp", remove=["ann"])
                for verb, params in {
                    "task.retry": {"id": over},
                    "task.edit": {"id": over, "changes": {"command": "other"}},
                    "task.release": {"id": held},
                    "alloc.grow": {"id": holder, "gpus": 1},
                }.items():
                    assert (await ann.refusal(verb, **params))[0] == "forbidden", verb
                assert (await ann.refusal("task.edit", id=held, changes={"command": "other"}))[0] == "forbidden"
                assert master.core.tasks[over].state is TaskState.CANCELLED
                await ann.call("task.edit", id=held, changes={"priority": -1})
                await ann.call("task.edit", id=held, changes={"command": "other", "project": ""})
                await ann.call("task.release", id=held)
            with comes_as("chen", master.core, "admin"):
                await chen.call("task.retry", id=over)

    run(story())
