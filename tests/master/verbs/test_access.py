"""Who may call what, walked through from the table of verbs: every verb × role × own or another's × scope, over
JSON-RPC and `subscribe`. The desktop dialect's walk is `tests/desktop/test_access.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from master.core.outcome import Pending
from master.core.people import People, Role, Scope
from master.core.task import Task, TaskState
from master.durable import history
from master.durable.disk import OsDisk
from master.peer import Peer as KernelPeer
from master.ports import hub
from master.ports.hub import NODES, TASKS
from master.verbs.access import ALL_SCOPES, USER_SCOPES, Caller, Identify, by_desktop_client, by_kernel
from master.verbs.table import VERBS
from tests.master.in_process import DATA, InProcess, Peer, comes_as, run
from tests.master.verbs.parameters import RIGHT, names_a_task, required

ROLES: tuple[Role, ...] = get_args(Role)
SCOPES: tuple[Scope, ...] = get_args(Scope)
LOOKS_AT_EACH = {"task.cancel"}
"""Verbs for the owner that name several tasks: a refusal is among the answers."""
STRANGER = "bob"

FOR_ANYONE = {"auth.login", "auth.token", "auth.redeem", "auth.logout", "auth.whoami"}
"""What somebody may call of whom we do not know who he is."""

LINES = [pytest.param(name, id=name) for name in VERBS]


def always(caller: Caller) -> Identify:
    """Whoever there is, it is this one."""
    return lambda _people, _now: caller


def now(identify: Identify) -> Caller:
    """Who that is while there are no users."""
    return identify(People(Pending()), 1.0)


def ann(role: Role = "admin", scopes: frozenset[Scope] = ALL_SCOPES, **keys: Any) -> Caller:
    return Caller("127.0.0.1", "ann", role, scopes, **{"counted_as": "ann", **keys})


def may(verb: str, caller: Caller, owner: str) -> bool:
    """What the line of the table says, spelled anew."""
    line = VERBS[verb]
    if line.role == "anyone":
        return True
    enough = ROLES.index(caller.role) >= ROLES.index(line.role) and line.scope in caller.scopes
    theirs = line.whose in ("none", "any") or owner == caller.user or caller.role == "admin" or caller.all_tasks
    theirs = theirs or (line.whose == "group" and owner in caller.mentored)
    return enough and theirs and (caller.nouns is None or verb.split(".", maxsplit=1)[0] in caller.nouns)


class Walk:
    """A master whose verbs do nothing but tell that they were reached, and one task."""

    def __init__(self, master: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
        self._master = master
        self._monkeypatch = monkeypatch
        self.reached: list[str] = []
        for name, verb in VERBS.items():
            if name not in LOOKS_AT_EACH:
                monkeypatch.setitem(VERBS, name, msgspec.structs.replace(verb, handle=self._reach(name)))

    def _reach(self, name: str) -> Callable[[Any, Any], None]:
        return lambda _context, _params: self.reached.append(name)

    async def peer(self, caller: Caller) -> Peer:
        """A connection that is this caller's."""
        self._monkeypatch.setattr(hub, "by_kernel", lambda _peer, **_: always(caller))
        peer = await self._master.peer(DATA)
        await peer.answer(peer.ask("no.such.verb"))  # it has come in
        return peer

    async def is_let_in(self, peer: Peer, verb: str) -> bool:
        """Call it; whether it was reached, or refused as it should be."""
        if verb in LOOKS_AT_EACH:
            answer = await peer.answer(peer.ask(verb, ids=[RIGHT["id"]]))
            return answer.get("error", {}).get("data", {}).get("code") != "forbidden" and "forbidden" not in str(answer)
        before = len(self.reached)
        answer = await peer.answer(peer.ask(verb, **required(verb), **_task_named(verb)))
        if "error" in answer:
            assert answer["error"]["data"]["code"] == "forbidden", answer
            assert verb in answer["error"]["message"]
        assert (self.reached[before:] == [verb]) == ("result" in answer)
        return "result" in answer


def _task_named(verb: str) -> dict[str, Any]:
    return {"id": RIGHT["id"]} if "id" in VERBS[verb].params.__struct_fields__ and "id" not in required(verb) else {}


@asynccontextmanager
async def walking(folder: Path, monkeypatch: pytest.MonkeyPatch, owner: str = STRANGER) -> AsyncIterator[Walk]:
    """A walk with a task of this owner's."""
    async with InProcess(folder) as master:
        draft = Task(id=0, owner=owner, command="true", state=TaskState.HELD)
        master.engine.client_change(lambda: master.core.submit([draft], 1.0))
        with monkeypatch.context() as patched:
            yield Walk(master, patched)


@pytest.mark.parametrize("owner", ["ann", STRANGER])
@pytest.mark.parametrize("role", ROLES)
def test_every_verb_lets_in_whom_its_line_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: Role, owner: str
) -> None:
    async def story() -> None:
        caller = ann(role)
        async with walking(tmp_path, monkeypatch, owner) as walk:
            peer = await walk.peer(caller)
            for verb in VERBS:
                assert await walk.is_let_in(peer, verb) == may(verb, caller, owner), (verb, caller, owner)

    run(story())


@pytest.mark.parametrize("scope", SCOPES)
def test_who_is_confined_to_scopes_calls_what_they_hold_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: Scope
) -> None:
    async def story() -> None:
        async with walking(tmp_path, monkeypatch) as walk:
            for caller in (ann(scopes=frozenset({scope})), ann(scopes=ALL_SCOPES - {scope})):
                peer = await walk.peer(caller)
                for verb in VERBS:
                    assert await walk.is_let_in(peer, verb) == may(verb, caller, STRANGER), (verb, caller.scopes)

    run(story())


def test_who_is_confined_to_some_nouns_calls_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        caller = ann(nouns=frozenset({"log", "subscribe"}))
        async with walking(tmp_path, monkeypatch) as walk:
            peer = await walk.peer(caller)
            allowed = {verb for verb in VERBS if await walk.is_let_in(peer, verb)}
            assert allowed - FOR_ANYONE == {"log.read", "subscribe"}

    run(story())


def test_nobody_whom_we_do_not_know_calls_anything_but_to_say_who_he_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with walking(tmp_path, monkeypatch) as walk:
            peer = await walk.peer(Caller("127.0.0.1"))
            for verb in (*(VERBS.keys() - FOR_ANYONE), "no.such.verb"):
                params = required(verb) if verb in VERBS else {}
                assert (await peer.refusal(verb, **params))[0] == "unauthenticated"
            assert walk.reached == []

    run(story())


@pytest.mark.parametrize("port", [TASKS, NODES])
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("scopes", [ALL_SCOPES, ALL_SCOPES - {"read"}])
def test_a_subscription_begins_for_whom_its_line_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: str, role: Role, scopes: frozenset[Scope]
) -> None:
    async def story() -> None:
        caller = ann(role, scopes)
        monkeypatch.setattr(hub, "by_kernel", lambda _peer, **_: always(caller))
        async with InProcess(tmp_path) as master:
            peer = await master.peer(port)
            answer = await peer.answer(peer.ask("subscribe"))
            assert ("result" in answer) == may("subscribe", caller, "")
            assert bool(master.hub.streams.subscribers[port]) == ("result" in answer)

    run(story())


@pytest.mark.parametrize("verb", [name for name in VERBS if VERBS[name].whose == "own" and name not in LOOKS_AT_EACH])
@pytest.mark.parametrize("owner", ["ann", STRANGER])
def test_a_task_that_was_archived_is_still_its_owners(tmp_path: Path, verb: str, owner: str) -> None:
    async def story() -> None:
        old = Task(id=7, owner=owner, command="true", state=TaskState.FAILED, ended_at=1e9, log_path=str(log))
        history.extend(OsDisk(), tmp_path / "task_info" / "history", [old])
        async with InProcess(tmp_path) as master:
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(hub, "by_kernel", lambda _peer, **_: always(ann("user", USER_SCOPES)))
                peer = await master.peer()
                answer = await peer.answer(peer.ask(verb, **{**required(verb), "id": 7}))
            refused = answer.get("error", {}).get("data", {}).get("code")
            assert (refused == "forbidden") == (owner == STRANGER), answer
            if owner == STRANGER:
                assert 7 not in master.core.tasks
                assert (await master.engine.archive.find(7)).state is TaskState.FAILED

    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "7.log"
    log.touch()
    run(story())


def test_cancel_refuses_each_task_of_another_and_cancels_the_callers_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            for owner in ("ann", STRANGER, "ann", STRANGER):
                draft = Task(id=0, owner=owner, command="true", state=TaskState.HELD)
                master.engine.client_change(lambda draft=draft: master.core.submit([draft], 1.0))  # type: ignore[misc]
            monkeypatch.setattr(hub, "by_kernel", lambda _peer, **_: always(ann("user", USER_SCOPES)))
            peer = await master.peer()
            answer = await peer.call("task.cancel", ids=[1, 2])
            assert (answer["cancelled"], answer["codes"]) == ([1], {"2": "forbidden"})
            assert answer["refused"]["2"] == "task 2 is bob's: task.cancel is for its owner, and for admins"
            answer = await peer.call("task.cancel", all=True)
            assert (answer["cancelled"], answer["refused"]) == ([3], {})
            assert [task.state for task in master.core.tasks.values() if task.owner == STRANGER] == [TaskState.HELD] * 2

    run(story())


def test_a_chain_is_removed_only_where_all_of_it_is_the_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            monkeypatch.setattr(hub, "by_kernel", lambda _peer, **_: always(ann("user", USER_SCOPES)))
            peer = await master.peer()
            await peer.call("task.submit", command="true", hold=True)
            await peer.call("task.submit", command="true", after=[{"id": 1}])
            await peer.call("task.submit", command="true", after=[{"id": 2}])
            master.core.tasks[3].owner = STRANGER
            assert (await peer.refusal("task.remove", id=1, successors=True))[0] == "forbidden"
            assert list(master.core.tasks) == [1, 2, 3]
            master.core.tasks[3].owner = "ann"
            assert (await peer.call("task.remove", id=1, successors=True))["removed"] == [1, 2, 3]

    run(story())


# -- who comes in as whom ---------------------------------------------------------------------------------------------


def test_the_kernel_says_who_is_admin() -> None:
    owner = now(by_kernel(KernelPeer("127.0.0.1", "lab", is_ours=True, is_here=True)))
    assert (owner.role, owner.scopes, owner.owns_all, owner.is_ours) == ("admin", ALL_SCOPES, True, True)
    nobody = now(by_kernel(KernelPeer("10.0.0.1")))
    assert (nobody.user, nobody.scopes) == (None, frozenset())


def test_a_desktop_client_is_never_an_admin_and_has_tasks_logs_environments_files_and_both_streams() -> None:
    client = now(by_desktop_client("10.0.0.1", "desktop"))
    assert (client.role, client.owns_all, client.is_ours) == ("user", True, False)
    allowed = {verb for verb in VERBS if may(verb, client, STRANGER)}
    expected = {verb for verb in VERBS if verb.partition(".")[0] in {"task", "log", "env", "file", "subscribe"}}
    assert {verb for verb in allowed if VERBS[verb].role != "anyone"} == expected
    assert client.counted_as == "desktop at 10.0.0.1"


def test_a_peer_of_this_machine_calls_what_its_user_may(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            assert (await (await master.peer()).call("server.seen")) == {}
            with comes_as("ann", master.core):
                peer = await master.peer()
                assert (await peer.refusal("server.stop"))[0] == "forbidden"
                assert (await peer.call("server.info"))["user"] == "ann"
            assert not master.place.stopped

    run(story())


# -- the table --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", LINES)
def test_a_line_says_whose_task_where_a_task_can_be_named(verb: str) -> None:
    assert (VERBS[verb].whose != "none") == (names_a_task(verb) or verb == "task.archived")
    if VERBS[verb].whose == "own":
        assert "id" in VERBS[verb].params.__struct_fields__ or verb in LOOKS_AT_EACH


@pytest.mark.parametrize("verb", LINES)
def test_what_changes_something_is_for_no_viewer_and_not_within_the_scope_to_read(verb: str) -> None:
    line = VERBS[verb]
    if line.scope == "read":
        assert line.role == "viewer"
        assert line.repeatable
    if line.role == "viewer":
        assert line.scope in {"read", "files", "account"}
    assert (line.role == "anyone") == (verb in FOR_ANYONE)
    assert (line.role == "admin") == (line.scope in {"nodes", "admin"})


def test_questions_to_environments_and_passwords_are_counted_and_nothing_else_is() -> None:
    dear = {verb for verb in VERBS if verb.startswith("env.")} | {"auth.login", "auth.redeem", "user.password"}
    assert {verb for verb in VERBS if VERBS[verb].rate} == dear
