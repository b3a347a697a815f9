"""What is shown of others' tasks, over real connections: each surface, with `privacy` open and own, to the owner of a
task, his mentor, an admin, and somebody else."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from master.core.attempts.agent_messages import EncodedSample, as_sample
from master.core.attempts.exits import Exit
from master.core.nodes.facts import NodeState
from master.core.nodes.gpu_watch import GpuReport, Holder
from master.core.tasks.attempt import Attempt
from master.core.tasks.task import Task, TaskState
from master.durable import history
from master.durable.disk import OsDisk
from master.ports.port_server import NODES, TASKS
from master.verbs.task_rows import DEFAULTS
from master.views.sight import HIDDEN, Sight
from tests.cases import each_case
from tests.master.in_process import DATA, FACTS, InProcess, Peer, run
from tests.master.verbs.test_people import People, people
from tests.waiting import settled
from wire.message import Message

ANNS = {
    "command": ["secret-command"], "name": "secret-name", "project": "secret-project", "cwd": "/secret-cwd",
    "env": "/secret-env", "setup": "secret-setup", "priority": -3, "node": "a",
}  # fmt: skip
QUOTED = "a-line-of-the-log"
VARIABLES = {"TOKEN": "confidential"}
BARE = {"id", "owner", "state", "gpus", "gpu_ids", "submitted_at", "started_at", "ended_at", "allocation"}
VIEWERS = ("ann", "mia", "owner", "bob")
OLD = 9_000
PRIVACY = pytest.mark.parametrize("privacy", ["open", "own"])
VIEWER = pytest.mark.parametrize("viewer", VIEWERS)
READS: dict[str, tuple[str, dict[str, Any]]] = {
    "list": ("task.list", {"ended": True}),
    "sparse": ("task.list", {"ended": True, "sparse": True}),
    "stretch": ("task.list", {}),
    "by name": ("task.list", {"ended": True, "sort": "name"}),
    "by id": ("task.list", {"ids": [1, 2, 3]}),
    "of ann": ("task.list", {"user": "ann", "ended": True, "sparse": True}),
    "show": ("task.show", {"id": 1}),
    "show running": ("task.show", {"id": 2}),
    "show ended": ("task.show", {"id": 3}),
    "show archived": ("task.show", {"id": OLD}),
    "why": ("task.why", {"id": 1}),
    "why ended": ("task.why", {"id": 3}),
    "why archived": ("task.why", {"id": OLD}),
    "archived": ("task.archived", {}),
    "subscribe": ("subscribe", {}),
}


class Lab:
    """ann, whose mentor is mia, has a task that is held, one that runs, one that failed, and one in the monthly
    files; bob has one that waits. `of` gives a viewer's connection to a port."""

    def __init__(self, here: People) -> None:
        self.here = here
        self.master = here.master
        self._known: dict[tuple[str, str], Peer] = {}

    async def of(self, viewer: str, port: str = DATA) -> Peer:
        if (viewer, port) not in self._known:
            made = self.master.peer(port) if viewer == "owner" else self.here.user(viewer, port=port)
            self._known[viewer, port] = await made
        return self._known[viewer, port]


@asynccontextmanager
async def lab(folder: Path, patched: pytest.MonkeyPatch, privacy: str) -> AsyncIterator[Lab]:
    spec: dict[str, Any] = {**ANNS, "variables": VARIABLES, "owner": "ann"}
    tried = Attempt(1, [], None, 1.0, 2.0, 1, None, None, None, last_line=QUOTED)
    old = Task(
        id=OLD, state=TaskState.FAILED, ended_at=1e9, reason="secret-reason", last_line=QUOTED, earlier=[tried], **spec
    )
    history.extend(OsDisk(), folder / "task_info" / "history", [old])
    async with people(folder, patched) as here:
        here.master.place.config = msgspec.structs.replace(here.master.place.config, privacy=privacy)
        told = Lab(here)
        ann = await told.of("ann")
        for viewer in ("mia", "bob"):
            await told.of(viewer)
        await here.owner.call("group.add", name="vision")
        await here.owner.call("group.edit", name="vision", add=["ann"], add_mentors=["mia"])
        for _ in range(3):
            await ann.call("task.submit", **ANNS, variables=VARIABLES, hold=True, gpus=1)
        await (await told.of("bob")).call("task.submit", command="true", name="plain", hold=True)
        await _begin(here.master)
        yield told


async def _begin(master: InProcess) -> None:
    """Task 2 runs, task 3 has failed."""
    core, engine = master.core, master.engine
    master.online()
    for number in (2, 3):
        engine.event(lambda number=number: core.release(number))  # type: ignore[misc]
    await settled(lambda: core.tasks[2].allocation and core.tasks[3].allocation)
    launches = [core.tasks[number].allocation[0].launch_id for number in (2, 3)]
    for launch in launches:
        engine.event(lambda launch=launch: core.started("a", launch, 2e9, 2e9, pid=77))  # type: ignore[misc]
    told = Exit(launches[1], "log_too_large", 3e9, error="secret-reason", last_line=QUOTED)
    engine.event(lambda: core.exited("a", told, 3e9))
    assert (core.tasks[2].state, core.tasks[3].state) == ("running", "failed")
    assert "secret-reason" in (core.tasks[3].reason or "")


def tell(folder: Path, story: Callable[[Lab], Awaitable[None]], privacy: str) -> None:
    async def whole() -> None:
        with pytest.MonkeyPatch.context() as patched:
            async with lab(folder, patched, privacy) as here:
                await story(here)

    run(whole())


def tasks_in(answer: Any) -> Any:
    return answer.get("tasks", [answer]) if isinstance(answer, dict) else answer


def check(answer: Any, viewer: str, privacy: str) -> None:
    """Nothing is in an answer that this viewer may not know of ann's tasks."""
    text = json.dumps(answer, ensure_ascii=False)
    assert ("confidential" in text) <= (viewer == "ann"), text
    assert ("TOKEN" in text) <= (viewer != "bob"), text
    assert (QUOTED in text) <= (viewer != "bob"), text
    if viewer == "bob" and privacy == "own":
        assert "secret" not in text
        anns = [task for task in tasks_in(answer) if task.get("owner") == "ann"]
        for task in anns:
            told = {key for key, value in task.items() if value not in (None, "", [], {}, 0, False, DEFAULTS.get(key))}
            assert told <= BARE, task
            for part in task.get("allocation") or []:
                assert {key for key, value in part.items() if value} <= {"node", "gpus"}


@PRIVACY
def test_who_may_read_a_log_is_told_its_last_line(tmp_path: Path, privacy: str) -> None:
    async def story(here: Lab) -> None:
        reads = ("list", "sparse", "show ended", "show archived", "archived")
        with each_case() as cases:
            for viewer, read in itertools.product(VIEWERS, reads):
                if viewer != "bob":
                    verb, params = READS[read]
                    with cases.case(f"{read} by {viewer}"):
                        assert QUOTED in json.dumps(await (await here.of(viewer)).call(verb, **params))

    tell(tmp_path, story, privacy)


@PRIVACY
def test_who_looks_is_shown_what_he_may_know(tmp_path: Path, privacy: str) -> None:
    async def story(here: Lab) -> None:
        with each_case() as cases:
            for viewer, read in itertools.product(VIEWERS, READS):
                with cases.case(f"{read} by {viewer}"):
                    await check_read(here, viewer, read, privacy)

    tell(tmp_path, story, privacy)


async def check_read(here: Lab, viewer: str, read: str, privacy: str) -> None:
    verb, params = READS[read]
    peer = await here.of(viewer, TASKS if verb == "subscribe" else DATA)
    answer = await peer.call(verb, **params)
    check(answer, viewer, privacy)
    text = json.dumps(answer, ensure_ascii=False)
    if viewer == "bob" and privacy == "own":
        owners = [task.get("owner") for task in tasks_in(answer) if "id" in task and verb != "task.why"]
        assert verb == "task.why" or "ann" in owners
    elif verb != "task.why":
        assert "secret-command" in text
        assert ("confidential" in text) == (viewer == "ann")
        assert (HIDDEN in text) == (viewer in {"mia", "owner"})


@PRIVACY
@VIEWER
def test_who_listens_is_told_of_changes_as_of_what_there_is(tmp_path: Path, privacy: str, viewer: str) -> None:
    async def story(here: Lab) -> None:
        listeners = {one: await here.of(one, TASKS) for one in VIEWERS}
        for peer in listeners.values():
            await peer.call("subscribe", snapshot="none")
        ann = await here.of("ann")
        await ann.call("task.edit", id=1, changes={"name": "secret-new"})
        news = await listeners[viewer].notification()
        task = news["params"]["task"]
        assert (task["id"], task["owner"]) == (1, "ann")
        check(task, viewer, privacy)
        hidden = viewer == "bob" and privacy == "own"
        assert task["name"] == ("" if hidden else "secret-new")
        assert task["variables"] == {"ann": VARIABLES, "bob": {}}.get(viewer, {"TOKEN": HIDDEN})
        # And so is who did not read at the time.
        streams = here.master.port_server.streams
        for session in streams.subscribers["tasks"]:
            if session.sight.user == viewer:
                late = streams.update(1, session.sight)
                check(json.loads(late), viewer, privacy)
                assert (b"secret" in late) != hidden

    tell(tmp_path, story, privacy)


def test_an_update_is_encoded_once_for_all_who_are_told_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(here: Lab) -> None:
        streams = here.master.port_server.streams
        for viewer in VIEWERS:
            for port in (TASKS, TASKS):
                peer = await (here.master.peer(port) if viewer == "owner" else here.here.user(viewer, port=port))
                await peer.call("subscribe", snapshot="none")
        encoded: list[int] = []
        encode = streams.task_update

        def counted(key: int, sight: Sight) -> bytes:
            encoded.append(key)
            return encode(key, sight)

        monkeypatch.setattr(streams, "task_update", counted)
        bob = await here.of("bob")
        await bob.call("task.submit", command="true")
        await bob.call("task.cancel", ids=[5])
        await settled(lambda: len(encoded) >= 4)
        # While it waits also for admins, for whom a reason may name people; then for who may know it and for others.
        assert encoded.count(5) <= 3 + 2

    tell(tmp_path, story, "own")


def test_a_search_finds_only_by_what_one_may_see(tmp_path: Path) -> None:
    async def story(here: Lab) -> None:
        searches = ("secret-command", "secret-name", "secret-project", "secret-cwd")
        with each_case() as cases:
            for viewer, search in itertools.product(VIEWERS, searches):
                with cases.case(f"{search} by {viewer}"):
                    await check_search(await here.of(viewer), search, [] if viewer == "bob" else [1, 2, 3])

    tell(tmp_path, story, "own")


async def check_search(peer: Peer, search: str, found: list[int]) -> None:
    answer = await peer.call("task.list", ended=True, search=search, sort="id")
    assert ([task["id"] for task in answer["tasks"]], answer["total"]) == (found, len(found))
    archived = await peer.call("task.archived", search=search)
    expected = [OLD] if found else []
    assert ([task["id"] for task in archived["tasks"]], archived["total"]) == (expected, len(expected))
    by_id = await peer.call("task.archived", search="9000")
    assert by_id["total"] == 1


@pytest.mark.parametrize("sort", ["name", "priority", "node"])
def test_an_order_tells_nothing_of_what_is_not_shown(tmp_path: Path, sort: str) -> None:
    async def story(here: Lab) -> None:
        tasks = here.master.core.tasks
        tasks[3].name, tasks[2].priority, tasks[3].node = "a", -9, "0"
        seen = await (await here.of("bob")).call("task.list", user="ann", ended=True, sort=sort)
        assert [task["id"] for task in seen["tasks"]] == [1, 2, 3]
        known = await (await here.of("ann")).call("task.list", mine=True, ended=True, sort=sort)
        assert sort == "node" or [task["id"] for task in known["tasks"]] != [1, 2, 3]

    tell(tmp_path, story, "own")


def test_until_there_are_users_nothing_is_hidden(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            master.place.config = msgspec.structs.replace(master.place.config, privacy="own")
            draft = Task(id=0, owner="lab", command="secret", variables=VARIABLES, state=TaskState.HELD)
            master.engine.client_change(lambda: master.core.submit([draft], 1.0))
            peer = await master.peer()
            assert (await peer.call("task.show", id=1))["variables"] == VARIABLES
            await peer.call("user.add", name="ann")
            assert (await peer.call("task.show", id=1))["variables"] == {"TOKEN": HIDDEN}

    run(story())


@PRIVACY
@VIEWER
def test_who_else_computes_on_a_gpu_is_told_where_tasks_are_open_and_to_admins(
    tmp_path: Path, privacy: str, viewer: str
) -> None:
    async def story(here: Lab) -> None:
        core, engine = here.master.core, here.master.engine
        reports = [
            GpuReport(0, processes=(Holder(pid=987654321, user="carol", memory_mib=5), Holder(8, "dave", 5, "2.1.x"))),
            *(
                GpuReport(index, processes=(Holder(pid=987654321, user="carol", memory_mib=5),))
                for index in range(1, 8)
            ),
        ]
        here.master.online()
        engine.event(lambda: core.gpus_seen("a", reports, 1.0))
        engine.event(lambda: core.cordon("a", "resting", _resting()))
        peer, stream = await here.of(viewer), await here.of(viewer, NODES)
        waits = await peer.call("task.submit", command="true", gpus=8)
        answers = [
            await peer.call("node.list"),
            await peer.call("node.show", name="a"),
            await stream.call("subscribe"),
            await peer.call("task.why", id=waits["id"]),
            await peer.call("task.list", mine=True, sparse=True),
            await peer.call("task.list", mine=True),
            await peer.call("task.submit", command="true", gpus=8, dry_run=True),
        ]
        told = privacy == "open" or viewer == "owner"
        for answer in answers:
            text = json.dumps(answer)
            assert ("carol" in text or "secret-said" in text) == told, text
            assert ("987654321" in text) <= told
        told_of = msgspec.json.encode({"op": "sample", "at": 1, "gpus": msgspec.to_builtins(reports)})
        here.master.port_server.sample("a", EncodedSample(as_sample(told_of)))
        sampled = json.dumps(await stream.notification())
        assert ("carol" in sampled and "987654321" in sampled and "dave" in sampled) == told
        assert "2.1.x" in sampled

    tell(tmp_path, story, privacy)


class Kept(set[int]):
    """What is not saved, and stays so."""

    def clear(self) -> None:
        """Not now."""


def _resting() -> Any:
    return Message("resting", task=2, said="secret-said", seconds=5)


@pytest.mark.parametrize(("viewer", "known"), [("ann", True), ("mia", True), ("owner", True), ("bob", False)])
def test_what_is_wrong_with_tasks_is_counted_for_who_may_know_it(tmp_path: Path, viewer: str, *, known: bool) -> None:
    async def story(here: Lab) -> None:
        peer = await here.of(viewer)
        here.master.core.warn(2, Message("agent_said", said="secret-warning"))
        here.master.core.unsaved = Kept({2})
        info = await peer.call("server.info")
        assert (info["warned"], info["unsaved"]) == (([2], [2]) if known else ([], []))
        listed = await peer.call("task.list", sparse=True)
        assert (listed["unsaved"], bool(listed["warnings"])) == (([2], True) if known else ([], False))
        [whole] = (await peer.call("task.list", ids=[2]))["tasks"]
        assert (whole["unsaved"], bool(whole["warning"])) == (known, known)

    tell(tmp_path, story, "own")


@PRIVACY
def test_a_group_s_task_that_a_mentor_changes_comes_back_without_the_values_of_its_variables(
    tmp_path: Path, privacy: str
) -> None:
    async def story(here: Lab) -> None:
        mia = await here.of("mia")
        for verb, params in (
            ("task.edit", {"changes": {"priority": 5}}),
            ("task.hold", {}),
            ("task.move", {"position": 1}),
            ("task.start", {}),
        ):
            assert (await mia.call(verb, id=1, **params))["variables"] == {"TOKEN": HIDDEN}, verb

    tell(tmp_path, story, privacy)


# -- who may change what ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("viewer", "key", "value", "may"),
    [
        ("mia", "priority", 1, True),
        ("mia", "urgent", True, True),
        ("mia", "project", "x", True),
        ("mia", "command", "true", False),
        ("mia", "variables", {}, False),
        ("mia", "name", "x", False),
        ("mia", "gpus", 2, False),
        ("mia", "owner", "mia", False),
        ("ann", "owner", "bob", False),
        ("ann", "command", "true", True),
        ("owner", "command", "true", True),
        ("owner", "variables", {}, True),
    ],
)
def test_a_mentor_says_where_it_stands_an_admin_all_of_it(
    tmp_path: Path, viewer: str, key: str, value: Any, *, may: bool
) -> None:
    async def story(here: Lab) -> None:
        peer = await here.of(viewer)
        answer = await peer.answer(peer.ask("task.edit", id=1, changes={key: value}))
        assert ("result" in answer) == may
        if not may:
            assert answer["error"]["data"]["code"] == "forbidden"

    tell(tmp_path, story, "open")


@pytest.mark.parametrize("key", ["command", "setup", "env", "cwd", "variables", "log"])
def test_where_a_task_runs_as_its_owner_nobody_else_says_what_it_does(tmp_path: Path, key: str) -> None:
    async def story(here: Lab) -> None:
        here.master.place.run_as = lambda owner: owner
        changes: dict[str, Any] = {key: {} if key == "variables" else "/x" if key in {"cwd", "log", "env"} else "true"}
        admin, ann = await here.of("owner"), await here.of("ann")
        code, said = await admin.refusal("task.edit", id=1, changes=changes)
        assert (code, key in said) == ("forbidden", True)
        assert await ann.call("task.edit", id=1, changes=changes)
        assert await admin.call("task.edit", id=1, changes={"gpus": 2})
        for more in ({}, {"gpus": 2}):
            for task in (1,) if not more else (1, 3):
                assert (await admin.refusal("task.edit", id=task, changes={"owner": "bob", **more}))[0] == "conflict"
        assert (await admin.call("task.edit", id=3, changes={"owner": "bob"}))["owner"] == "bob"

    tell(tmp_path, story, "open")


def test_what_an_admin_gives_to_somebody_does_nothing_with_his_rights_before_he_asks_for_it(tmp_path: Path) -> None:
    async def story(here: Lab) -> None:
        admin, bob, task = await here.of("owner"), await here.of("bob"), here.master.core.tasks[3]
        here.master.core.keep_apart(lambda owner: owner)
        here.master.core.node_state("a", NodeState.ONLINE, None, msgspec.structs.replace(FACTS, can_run_as=True))
        for owner, said_by in (("bob", "ann"), ("ann", ""), ("mia", "ann"), ("bob", "ann")):
            await admin.call("task.edit", id=3, changes={"owner": owner})
            assert task.said_by == said_by
        assert [row for row in (await bob.call("task.list", ids=[3], sparse=True))["tasks"] if "said_by" in row] == []
        for verb, more in (("task.retry", {}), ("task.edit", {"changes": {"gpus": 2}})):
            code, said = await admin.refusal(verb, id=3, **more)
            assert code == "forbidden"
            assert "only bob" in said
            assert "ann" in said
        assert task.state == "failed"
        await bob.call("task.retry", id=3)
        assert (task.state, task.said_by) == ("starting", "")  # he has said it, too

    tell(tmp_path, story, "open")


def test_an_admin_gives_a_task_to_another_and_that_alone_queues_nothing(tmp_path: Path) -> None:
    async def story(here: Lab) -> None:
        admin = await here.of("owner")
        for number, state in ((1, "held"), (3, "failed"), (OLD, "failed")):
            for _ in range(2):
                given = await admin.call("task.edit", id=number, changes={"owner": "bob"})
                assert (given["owner"], given["state"]) == ("bob", state)
        assert (await admin.refusal("task.edit", id=2, changes={"owner": "bob"}))[0] == "conflict"
        assert (await admin.refusal("task.edit", id=1, changes={"owner": "nobody"}))[0] == "not_found"
        assert (await admin.refusal("task.edit", id=1, changes={"owner": 7}))[0] == "bad_request"
        both = await admin.call("task.edit", id=1, changes={"owner": "ann", "name": "n"})
        assert (both["owner"], both["name"]) == ("ann", "n")

    tell(tmp_path, story, "open")


@VIEWER
def test_the_masters_own_log_is_for_admins_once_there_are_users(tmp_path: Path, viewer: str) -> None:
    (tmp_path / "server.log").write_text("x", encoding="utf-8")

    async def story(here: Lab) -> None:
        peer = await here.of(viewer)
        answer = await peer.answer(peer.ask("log.read", server=True))
        assert ("result" in answer) == (viewer == "owner")

    tell(tmp_path, story, "open")


@PRIVACY
def test_the_line_that_held_the_rest_of_an_array_is_for_who_may_read_its_logs(tmp_path: Path, privacy: str) -> None:
    async def story(here: Lab) -> None:
        core, engine = here.master.core, here.master.engine
        ann = await here.of("ann")
        first = (await ann.call("task.submit_array", command="x", array="0-1%1", max_fails=1, gpus=1))["first"]
        await settled(lambda: core.tasks[first].allocation)
        told = Exit(core.tasks[first].allocation[0].launch_id, "exited", 3e9, 1, last_line="the-last-word")
        engine.event(lambda: core.exited("a", told, 3e9))
        assert core.tasks[first + 1].reason_key == "array_failed_with"
        reads = ("list", "sparse", "stretch", "by id", "show", "why", "subscribe")
        with each_case() as cases:
            for viewer, read in itertools.product(VIEWERS, reads):
                with cases.case(f"{read} by {viewer}"):
                    text = await read_of(here, viewer, read, first + 1)
                    assert ("the-last-word" in text) == (viewer != "bob"), text
                    if viewer != "bob" or privacy == "open":
                        assert "exit code 1" in text

    tell(tmp_path, story, privacy)


async def read_of(here: Lab, viewer: str, read: str, task: int) -> str:
    """Return what this viewer is answered, of this task where the call names one."""
    verb, params = READS[read]
    ours: dict[str, Any] = {"id": task, "ids": [task]}
    peer = await here.of(viewer, TASKS if verb == "subscribe" else DATA)
    answer = await peer.call(verb, **{key: ours.get(key, value) for key, value in params.items()})
    return json.dumps(answer, ensure_ascii=False)
