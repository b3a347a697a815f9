"""The rules of the dispatcher about several tasks, archived ones and log-ins; what each line of the table of
verbs must say; that what is new has a rule. Who may call what is walked through in `tests/attack/test_walk.py`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from master.callers.peer import Peer as KernelPeer
from master.core.outcome import Pending
from master.core.people.people import People, Role, Scope
from master.core.tasks.task import Task, TaskState
from master.desktop.requests import REQUESTS
from master.durable import history
from master.durable.disk import OsDisk
from master.ports import port_server
from master.ports.port_server import NODES, TASKS
from master.verbs.access import (
    ALL_SCOPES,
    DESKTOP_NOUNS,
    SCOPES_OF,
    SERVICE_NOUNS,
    USER_SCOPES,
    Caller,
    Identify,
    Via,
    Whose,
    by_kernel,
)
from master.verbs.table import VERBS
from tests.attack import rules
from tests.attack.test_walk import OBJECTS
from tests.cases import each_case
from tests.master.in_process import InProcess, comes_as, run
from tests.master.verbs.parameters import names_a_task, required
from wire.message import Message

SOURCES = Path(__file__).parents[3] / "master"
SCOPES: tuple[Scope, ...] = get_args(Scope)
LOOKS_AT_EACH = {"task.cancel"}
"""Verbs for the owner that name several tasks: a refusal is among the answers."""
STRANGER = "bob"

FOR_ANYONE = {
    *("auth.login", "auth.relay", "auth.session", "auth.token", "auth.redeem", "auth.logout", "auth.whoami"),
    "server.hello",
}
"""What somebody may call of whom we do not know who he is."""


def always(caller: Caller) -> Identify:
    """Whoever there is, it is this one."""
    return lambda _people, _now: caller


def now(identify: Identify) -> Caller:
    """Who that is while there are no users."""
    return identify(People(Pending()), 1.0)


def ann(role: Role = "admin", scopes: frozenset[Scope] = ALL_SCOPES, **keys: Any) -> Caller:
    return Caller("127.0.0.1", "ann", role, scopes, **{"counted_as": "ann", **keys})


@pytest.mark.master
@pytest.mark.parametrize("verb", [name for name in VERBS if VERBS[name].whose == "own" and name not in LOOKS_AT_EACH])
@pytest.mark.parametrize("owner", ["ann", STRANGER])
def test_a_task_that_was_archived_is_still_its_owners(tmp_path: Path, verb: str, owner: str) -> None:
    async def story() -> None:
        old = Task(id=7, owner=owner, command="true", state=TaskState.FAILED, ended_at=1e9, log_path=str(log))
        history.extend(OsDisk(), tmp_path / "task_info" / "history", [old])
        async with InProcess(tmp_path) as master:
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(port_server, "by_kernel", lambda _peer, **_: always(ann("user", USER_SCOPES)))
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


@pytest.mark.master
def test_cancel_refuses_each_task_of_another_and_cancels_the_callers_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            for owner in ("ann", STRANGER, "ann", STRANGER):
                draft = Task(id=0, owner=owner, command="true", state=TaskState.HELD)
                master.engine.client_change(lambda draft=draft: master.core.submit([draft], 1.0))  # type: ignore[misc]
            monkeypatch.setattr(port_server, "by_kernel", lambda _peer, **_: always(ann("user", USER_SCOPES)))
            peer = await master.peer()
            answer = await peer.call("task.cancel", ids=[1, 2])
            assert (answer["cancelled"], answer["codes"]) == ([1], {"2": "forbidden"})
            not_theirs = Message("not_in_your_care", id=2, owner="bob", verb="task.cancel")
            assert answer["refused"]["2"] == str(not_theirs)
            answer = await peer.call("task.cancel", all=True)
            assert (answer["cancelled"], answer["refused"]) == ([3], {})
            assert [task.state for task in master.core.tasks.values() if task.owner == STRANGER] == [TaskState.HELD] * 2

    run(story())


@pytest.mark.master
def test_a_chain_is_removed_only_where_all_of_it_is_the_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            monkeypatch.setattr(port_server, "by_kernel", lambda _peer, **_: always(ann("user", USER_SCOPES)))
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


@pytest.mark.master
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


def test_a_line_says_whose_task_where_a_task_can_be_named() -> None:
    with each_case() as cases:
        for verb, line in VERBS.items():
            with cases.case(verb):
                assert (line.whose != "none") == (names_a_task(verb) or verb == "task.archived")
                if line.whose == "own":
                    assert "id" in line.params.__struct_fields__ or verb in LOOKS_AT_EACH


def test_what_changes_something_is_for_no_viewer_and_not_within_the_scope_to_read() -> None:
    with each_case() as cases:
        for verb in VERBS:
            with cases.case(verb):
                check_role_and_scope(verb)


def check_role_and_scope(verb: str) -> None:
    line = VERBS[verb]
    if line.scope == "read":
        assert line.role == "viewer"
        assert line.repeatable
    if line.role == "viewer":
        assert line.scope in {"read", "files", "account"}
    assert (line.role == "anyone") == (verb in FOR_ANYONE)
    assert (line.role == "admin") == (line.scope in {"nodes", "admin"})


def test_questions_to_environments_and_passwords_are_counted_and_nothing_else_is() -> None:
    dear = {verb for verb in VERBS if verb.startswith("env.")} | {
        "auth.login",
        "auth.session",
        "auth.redeem",
        "user.password",
        "conf.write",
    }
    assert {verb for verb in VERBS if VERBS[verb].rate} == dear


# -- what is new has a rule -------------------------------------------------------------------------------------------


def test_every_verb_request_role_scope_and_way_in_has_a_rule() -> None:
    assert rules.VERBS.keys() == VERBS.keys()
    assert rules.REQUESTS.keys() == REQUESTS.keys()
    assert {who for kind in rules.CALLERS.values() for who in kind.roles} - {"mentor", "nobody"} == set(get_args(Role))
    assert {scope for scopes in rules.SCOPES.values() for scope in scopes} | rules.WALL == set(SCOPES)
    assert set(get_args(Whose)) == {"none", "any", "group", "own"}
    vias = {"kernel": "owner", "account": "local", "password": "session"}
    assert {vias.get(kind, kind) for kind in rules.CALLERS} == set(get_args(Via))


def test_who_is_confined_to_some_verbs_is_confined_to_those_of_the_rule() -> None:
    confined = {kind: set(line.verbs.split(",")) for kind, line in rules.CALLERS.items() if line.verbs != "all"}
    assert confined == {"desktop": DESKTOP_NOUNS, "service": SERVICE_NOUNS["metrics"]}
    assert SERVICE_NOUNS["web"] < SERVICE_NOUNS["metrics"]


def test_a_line_asks_for_what_the_rule_says() -> None:
    with each_case() as cases:
        for verb, line in VERBS.items():
            with cases.case(verb):
                rule = rules.VERBS[verb]
                scopes = f"{line.scope},wall" if line.on_wall else line.scope
                assert (line.role, "-" if line.role == "anyone" else scopes) == (rule.role, rule.scope)


def test_every_notification_and_every_port_that_tells_something_has_a_rule() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py"))
    sent = set(re.findall(r"(?<!def )notification\(\s*(\S+?)[,)]", text))
    assert sent == {f'"{name}"' for name in rules.NOTIFICATIONS if "." in name}
    assert {TASKS, NODES} == set(rules.NOTIFICATIONS.values())


def test_every_verb_that_is_for_ones_own_things_is_tried_on_them() -> None:
    own = {verb for verb, rule in rules.VERBS.items() if rule.whose not in ("-", "all")}
    assert own
    assert own - OBJECTS.keys() == set()


@pytest.mark.parametrize(("role", "may"), [("viewer", {"viewer"}), ("user", {"viewer", "user"}), ("admin", None)])
def test_the_scopes_of_a_role_are_those_of_the_verbs_that_it_may_call(role: Role, may: set[str] | None) -> None:
    verbs = [verb for verb in VERBS.values() if verb.role != "anyone" and (may is None or verb.role in may)]
    assert SCOPES_OF[role] == {verb.scope for verb in verbs} - {"wall"}
