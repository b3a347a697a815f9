"""The walk: whoever there is, however he came in, calls every verb on what is his, his group's and another's.

What he should be allowed stands in `rules.py`, which somebody wrote down; what he is allowed is tried, over JSON-RPC,
in the desktop client's dialect and by listening. Who is refused has changed nothing, seen nothing, and got one line.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, get_args

import msgspec
import pytest

from master.core.attempts.agent_messages import EncodedSample, as_sample
from master.core.nodes.inventory import NodeState
from master.core.people.people import Scope
from master.desktop import requests
from master.desktop.chinese import in_chinese
from master.desktop.requests import REQUESTS
from master.desktop.session import DesktopSession
from master.ports.connection import NODES, TASKS, TELLS
from master.verbs.table import VERBS
from tests.attack import rules
from tests.attack.lab_of_many import NAMES, SECRET, DesktopPeer, LabOfMany, desktop_peer, desktop_peer_of, lab_of_many
from tests.attack.rules import CALLERS, Caller, Object, Who, acting_as, may_call, may_use, scopes_of
from tests.cases import each_case
from tests.desktop.client import REPLIES, form
from tests.desktop.test_fuzz import SHAPES, is_text
from tests.master.in_process import DATA, FACTS, Peer, run
from tests.master.verbs.parameters import required
from tests.master.verbs.test_people import OTHER, PASSWORD
from tests.waiting import settled
from wire.errors import ConflictError, MusterError

SOURCES = Path(__file__).parents[2] / "master"
THINGS: tuple[Object, ...] = get_args(Object)
SCOPES: tuple[Scope, ...] = get_args(Scope)
REFUSED = {"forbidden", "unauthenticated"}
HIDDEN = {*REFUSED, "not_found"}
"""What is another's may also be as if it were not there."""
OF_FILES = [verb for verb, rule in rules.VERBS.items() if rule.whose == "files"]


def callers(*, confined: bool = True) -> Iterator[Any]:
    """Everybody, by every way; whoever shows a token of his also with each scope alone, and with all but it."""
    sets = [frozenset({one}) for one in SCOPES] + [frozenset(SCOPES) - {one, "wall"} for one in SCOPES]
    for kind, line in CALLERS.items():
        for who in line.roles:
            for scopes in (None, *(sets if confined and line.scopes == "its" else ())):
                yield Caller(kind, who, scopes)


JSON_RPC = [one for one in callers(confined=False) if one.kind != "desktop"]
DESKTOP = [one for one in callers(confined=False) if one.kind == "desktop"]
WAYS = [pytest.param(one.kind, one.who, id=f"{one.who}-by-{one.kind}") for one in JSON_RPC]


def ways_of(kind: str, who: Who) -> list[Caller]:
    """The same one, with whatever he may have been confined to."""
    return [one for one in callers() if (one.kind, one.who) == (kind, who)]


# -- the dispatcher ---------------------------------------------------------------------------------------------------


@contextmanager
def doing_nothing(patched: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Verbs do nothing but tell that they were reached. There is none without a rule."""
    assert rules.VERBS.keys() == VERBS.keys()
    reached: list[str] = []

    def reach(name: str) -> Callable[[Any, Any], None]:
        return lambda _context, _params: reached.append(name)

    with patched.context() as doing:
        for name, verb in VERBS.items():
            doing.setitem(VERBS.of(name.partition(".")[0]), name, msgspec.structs.replace(verb, handle=reach(name)))
        yield reached


async def all_asked(peer: Peer, task: int) -> dict[str, dict[str, Any]]:
    """Every verb, on this task where it is about one; the answers."""
    frames = []
    for verb in rules.VERBS:
        of_task = {"id": task} if "id" in VERBS[verb].params.__struct_fields__ else {}
        params = {**required(verb), **of_task}
        frames.append(json.dumps({"jsonrpc": "2.0", "id": verb, "method": verb, "params": params}) + "\n")
    peer.send("".join(frames).encode())
    answers = [await peer.read() for _ in rules.VERBS]
    return {answer["id"]: answer for answer in answers}


def test_the_door_opens_for_whom_the_rules_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with lab_of_many(tmp_path, monkeypatch) as lab:
            with each_case() as cases:
                for caller in (caller for one in JSON_RPC for caller in ways_of(one.kind, one.who)):
                    peer = await lab.come_in(caller)
                    with doing_nothing(monkeypatch) as reached:
                        for thing in THINGS:
                            with cases.case(f"{caller}, {thing}"):
                                reached.clear()
                                answers = await all_asked(peer, lab.task(lab.whose(caller, thing) or "somebody"))
                                check_door(caller, thing, answers, reached)

    run(story())


def test_whoever_comes_in_is_told_to_be_what_the_rules_make_of_him(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with lab_of_many(tmp_path, monkeypatch) as lab:
            with each_case() as cases:
                for caller in (caller for one in JSON_RPC for caller in ways_of(one.kind, one.who)):
                    with cases.case(str(caller)):
                        await check_whoami(lab, caller)

    run(story())


async def check_whoami(lab: LabOfMany, caller: Caller) -> None:
    told = await (await lab.come_in(caller)).call("auth.whoami")
    role = {"nobody": "viewer", "mentor": "user"}.get(acting_as(caller), acting_as(caller))
    assert told["role"] == role, told
    assert set(told["scopes"]) <= scopes_of(caller), told


OF_SEVERAL = ("task.cancel", "task.edit_array")
"""Verbs that look at each task by itself."""


def check_door(caller: Caller, thing: Object, answers: dict[str, dict[str, Any]], reached: list[str]) -> None:
    """Those were reached that the rules name, and the others refused."""
    for verb, rule in rules.VERBS.items():
        # Whose files, accounts and which of several tasks are meant is checked after the dispatcher.
        at_door = {"group": "group", "ahead": "group", "own": "own"}.get(rule.whose) if verb not in OF_SEVERAL else None
        allowed = may_call(caller, verb) if at_door is None else may_use(caller, verb, thing, at_door)
        assert ("result" in answers[verb]) == allowed, f"{verb} on {thing}, called by {caller}: {answers[verb]}"
        if not allowed:
            assert verb not in reached
            error = answers[verb]["error"]
            assert error["data"]["code"] == ("unauthenticated" if caller.who == "nobody" else "forbidden"), answers[
                verb
            ]
            assert "\n" not in error["message"]


def test_what_is_no_verb_is_reached_by_nobody_and_whom_we_do_not_know_is_told_of_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with lab_of_many(tmp_path, monkeypatch) as lab:
            stranger = await lab.come_in(Caller("unknown", "nobody"))
            with each_case() as cases:
                for verb in ("no.such.verb", "", "auth", "TASK.LIST", "task.list\0", "task.cancel "):
                    with cases.case(repr(verb)):
                        assert (await lab.owner.refusal(verb))[0] == "unknown_method"
                        code, said = await stranger.refusal(verb)
                        assert code == "unauthenticated"
                        assert "task.list" not in said

    run(story())


# -- what is behind it ------------------------------------------------------------------------------------------------


class Call(NamedTuple):
    """A call about somebody's thing, and how one sees that it was let in where no error says so. `whose`: of the rules,
    where it asks for more than others of its verb."""

    verb: str
    params: dict[str, Any]
    is_in: Callable[[Any], bool] = lambda _result: True
    whose: str = ""


Calls = Callable[[LabOfMany, Caller, Object], list[Call]]


def of_task(verb: str, **params: Any) -> Calls:
    """It names one task."""
    return lambda lab, caller, thing: [Call(verb, {"id": lab.task(lab.whose(caller, thing)), **params})]


def of_array(verb: str, **params: Any) -> Calls:
    """It names an array."""
    return lambda lab, caller, thing: [Call(verb, {"id": lab.array(lab.whose(caller, thing)), **params})]


def of_allocation(verb: str) -> Calls:
    """It names an allocation."""
    return lambda lab, caller, thing: [Call(verb, {"id": lab.allocation(lab.whose(caller, thing))})]


def of_task_and_ahead(verb: str, params: dict[str, Any], *ahead: dict[str, Any]) -> Calls:
    """It names one task, and may put it before those of others."""

    def calls(lab: LabOfMany, caller: Caller, thing: Object) -> list[Call]:
        lab.task("somebody")
        found = [Call(verb, {"id": lab.task(lab.whose(caller, thing)), **params})]
        found += [Call(verb, {"id": lab.task(lab.whose(caller, thing)), **more}, whose="ahead") for more in ahead]
        return found

    return calls


def cancelled(lab: LabOfMany, caller: Caller, thing: Object) -> list[Call]:
    """One by one, and by the way of all: where one of them is among them."""
    one, other = (lab.task(lab.whose(caller, thing)) for _ in range(2))
    return [
        Call("task.cancel", {"ids": [one]}, lambda result: one in result["cancelled"]),
        Call("task.cancel", {"all": True}, lambda result: other in result["cancelled"]),
    ]


def of_account(verb: str, **params: Any) -> Calls:
    """It names a user; his own old password is shown."""

    def calls(lab: LabOfMany, caller: Caller, thing: Object) -> list[Call]:
        old = {"old": PASSWORD} if verb == "user.password" and thing == "own" else {}
        return [Call(verb, {"name": lab.whose(caller, thing), **params, **old})]

    return calls


def of_file(verb: str, **params: Any) -> Calls:
    """It names a file."""
    return lambda lab, caller, thing: [
        Call(verb, {**params, "path": lab.file(folder)}) for folder in lab.folders(caller, thing)
    ]


def beside_file(verb: str, **params: Any) -> Calls:
    """It names what is not there yet."""
    return lambda lab, caller, thing: [
        Call(verb, {**params, "path": f"{lab.file(folder)}.new"}) for folder in lab.folders(caller, thing)
    ]


def of_folder(verb: str) -> Calls:
    """It names a folder with something in it."""

    def calls(lab: LabOfMany, caller: Caller, thing: Object) -> list[Call]:
        folders = lab.folders(caller, thing)
        for folder in folders:
            lab.file(folder)
        return [Call(verb, {"path": folder}) for folder in folders]

    return calls


def of_two_files(verb: str) -> Calls:
    """From somebody's folder to itself, out of it into what is everybody's, and into it."""

    def calls(lab: LabOfMany, caller: Caller, thing: Object) -> list[Call]:
        found = []
        for folder in lab.folders(caller, thing):
            ways = ((folder, folder), (folder, "envs"), ("envs", folder))
            found += [Call(verb, {"from": lab.file(one), "to": f"{lab.file(two)}.new"}) for one, two in ways]
        return found

    return calls


def of_upload(verb: str, **params: Any) -> Calls:
    """It names an upload that was begun there by whoever may, and is half or whole."""

    def calls(lab: LabOfMany, caller: Caller, thing: Object) -> list[Call]:
        found = []
        for folder in lab.folders(caller, thing):
            path = f"{lab.file(folder)}.new"
            uploads = lab.master.place.files.uploads
            begun = uploads.begin(path, 4)
            uploads.piece(path, begun.upload, 0, b"half")
            found.append(Call(verb, {"path": path, "upload": begun.upload, **params}))
        return found

    return calls


OBJECTS: dict[str, Calls] = {
    "clock.accept": lambda _lab, _caller, _thing: [Call("clock.accept", {})],
    "alloc.grow": of_allocation("alloc.grow"),
    "alloc.shrink": of_allocation("alloc.shrink"),
    "alloc.release": of_allocation("alloc.release"),
    "task.cancel": cancelled,
    "task.edit": of_task_and_ahead(
        "task.edit", {"changes": {"priority": -1}}, {"changes": {"priority": 1}}, {"changes": {"urgent": True}}
    ),
    "task.edit_array": of_array("task.edit_array", cap=2),
    "task.hold": of_task("task.hold"),
    "task.release": of_task("task.release"),
    "task.pause": of_task("task.pause"),
    "task.resume": of_task("task.resume"),
    "task.move": of_task_and_ahead("task.move", {"position": 1 << 20}, {"position": 1}),
    "task.start": of_task("task.start"),
    "task.retry": of_task("task.retry"),
    "task.remove": of_task("task.remove"),
    "log.read": of_task("log.read"),
    "log.search": of_task("log.search", pattern="secret"),
    "user.password": of_account("user.password", password=OTHER),
    "token.list": of_account("token.list"),
    "token.new": of_account("token.new"),
    "token.revoke": of_account("token.revoke", all=True),
    "file.list": of_folder("file.list"),
    "file.stat": of_file("file.stat"),
    "file.read": of_file("file.read"),
    "file.write": of_file("file.write", content=""),
    "file.make": beside_file("file.make", kind="folder"),
    "file.move": of_two_files("file.move"),
    "file.copy": of_two_files("file.copy"),
    "file.delete": of_file("file.delete"),
    "file.upload_begin": beside_file("file.upload_begin", size=4),
    "file.upload_piece": of_upload("file.upload_piece", offset=4, content=""),
    "file.upload_commit": of_upload("file.upload_commit", size=4),
    "file.upload_cancel": of_upload("file.upload_cancel"),
}
"""Of each verb that is for one's own things the calls by which it is tried on somebody's."""
QUEUED_ONLY = {
    "alloc.grow",
    "alloc.shrink",
    "task.pause",
    "task.resume",
    "task.start",
    "task.retry",
    "task.remove",
    "task.move",
    "task.release",
}
NARROWED = (None, frozenset({"account"}), frozenset({"wall"}), frozenset({"submit", "files", "read"}))


@pytest.mark.parametrize(("kind", "who"), WAYS)
def test_whose_a_thing_is_decides_and_whoever_is_refused_changes_and_sees_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, who: Who
) -> None:
    async def story() -> None:
        async with lab_of_many(tmp_path, monkeypatch) as lab:
            people = lab.master.core.people
            kept = {user.name: user.password for user in people.users.values()}
            for caller in (one for one in ways_of(kind, who) if one.scopes in NARROWED):
                peer = await lab.come_in(caller)
                for verb, make in OBJECTS.items():
                    for thing in THINGS:
                        for call in make(lab, caller, thing):
                            if rules.VERBS[verb].whose in ("account", "secret"):
                                peer = await lab.come_in(caller)  # the one before may have ended itself
                            await check_object(lab, peer, caller, thing, call)
                            for name, phc in kept.items():
                                if people.find(name).password != phc:
                                    people.edit(name, password=phc)

    run(story())


async def check_object(lab: LabOfMany, peer: Peer, caller: Caller, thing: Object, call: Call) -> None:
    """Make the call: it is let in where the rules say so, and where not all is as it was."""
    before = await lab.state()
    answer = await peer.answer(peer.ask(call.verb, **call.params))
    code = answer.get("error", {}).get("data", {}).get("code", "")
    is_in = call.is_in(answer["result"]) if "result" in answer else code not in HIDDEN
    told = f"{call.verb} {call.params} on {thing}, called by {caller}: {answer}"
    assert is_in == may_use(caller, call.verb, thing, call.whose), told
    if not is_in and call.verb != "task.cancel":
        assert await lab.state() == before, told
        assert SECRET not in told
    elif is_in and call.verb not in QUEUED_ONLY:
        assert "result" in answer, told


# -- the desktop client -----------------------------------------------------------------------------------------------


def asked_by_desktop(lab: LabOfMany, caller: Caller, thing: Object) -> Iterator[tuple[str, Any]]:
    """Each request on what is somebody's."""
    owner = lab.whose(caller, thing)

    def task() -> str:
        return f"{lab.task(owner):014d}"

    for folder in lab.folders(caller, thing):
        yield "get_folder", f"/{lab.file(folder).rpartition('/')[0]}"
        yield "get_file", f"/{lab.file(folder)}"
        yield "save_file", {"path": f"/{lab.file(folder)}", "content": ""}
        yield "file_operate", {"mode": "touch", "root": f"/{folder}/", "name": "new", "old_name": ""}
        yield "rm_file", f"/{lab.file(folder)}"
    yield "change_task", form("false", task_id=task())
    for mode in ("del_task", "resub_task", "stop_task", "get_train_log_path"):
        yield mode, task()
    yield "add_task", form("true")
    yield "get_server_log", ""
    yield "get_root", ""
    yield "env_list", ""
    for mode in ("test_env", "py_v", "cuda_pt", "cuda_tf", "pkgs"):
        yield mode, "base"


def refused_to(patched: pytest.MonkeyPatch) -> list[MusterError]:
    """From now on what desktop clients are refused is told here, and no node is asked anything."""
    errors: list[MusterError] = []

    def told(error: MusterError) -> str:
        errors.append(error)
        return in_chinese(error)

    def no_node(_context: Any, _params: Any) -> None:
        raise ConflictError("no node is asked in this test")

    patched.setattr(requests, "in_chinese", told)
    for name, verb in VERBS.items():
        if name.startswith("env."):
            patched.setitem(VERBS.of(name.partition(".")[0]), name, msgspec.structs.replace(verb, handle=no_node))
    return errors


async def check_request(lab: LabOfMany, peer: DesktopPeer, errors: list[MusterError], mode: str, info: Any) -> bool:
    """Ask; whether it was let in. Whoever is refused is told so, changes nothing and sees nothing."""
    before = await lab.state()
    errors.clear()
    reply, said = await peer.ask(mode, info)
    refused = [error for error in errors if error.code in HIDDEN]
    assert reply in REPLIES.values()
    assert SHAPES.get(reply, is_text)(said), (reply, said)
    if refused:
        assert (reply, said) == REQUESTS[mode].refuse(info, in_chinese(refused[0])), (mode, info)
        assert await lab.state() == before, (mode, info)
        assert SECRET not in str(said)
    return not refused


def test_the_desktop_client_of_each_gets_what_the_rules_give_its_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with lab_of_many(tmp_path, monkeypatch) as lab:
            errors = refused_to(monkeypatch)
            with each_case() as cases:
                for caller in DESKTOP:
                    async with desktop_peer(lab, caller.who) as peer:
                        for thing in THINGS:
                            with cases.case(f"{caller.who}, {thing}"):
                                await check_requests(lab, peer, errors, caller, thing)

    run(story())


async def check_requests(
    lab: LabOfMany, peer: DesktopPeer, errors: list[MusterError], caller: Caller, thing: Object
) -> None:
    seen = set()
    for mode, info in asked_by_desktop(lab, caller, thing):
        seen.add(mode)
        is_in = await check_request(lab, peer, errors, mode, info)
        allowed = may_use(caller, rules.REQUESTS[mode], thing, DESKTOP_ASKS_MORE.get(mode, ""))
        assert is_in == allowed, f"{mode} {info}: {errors}"
    assert seen == rules.REQUESTS.keys()


DESKTOP_ASKS_MORE = {"change_task": "own", "get_server_log": "all"}
"""A form is of all that a task is, what it runs too, which only its owner may say. What is called the server's log is
the news of everybody's tasks, which tell no more than their rows."""


def test_until_there_are_users_everybody_s_tasks_are_the_desktop_clients_and_others_have_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with lab_of_many(tmp_path, monkeypatch, users=False) as lab, desktop_peer(lab, "user") as peer:
            errors = refused_to(monkeypatch)
            with each_case() as cases:
                for thing in THINGS:
                    with cases.case(thing):
                        await check_without_users(lab, peer, errors, thing, monkeypatch)

    run(story())


async def check_without_users(
    lab: LabOfMany, peer: DesktopPeer, errors: list[MusterError], thing: Object, patched: pytest.MonkeyPatch
) -> None:
    for mode, info in asked_by_desktop(lab, Caller("desktop", "user"), thing):
        is_file = rules.VERBS[rules.REQUESTS[mode]].whose == "files"
        allowed = not is_file or thing == "own"  # there are no groups either
        assert await check_request(lab, peer, errors, mode, info) == allowed, (mode, info, errors)
    for caller in (Caller("unknown", "nobody"), Caller("kernel", "admin")):
        other = await lab.come_in(caller)
        with doing_nothing(patched) as reached:
            check_door(caller, thing, await all_asked(other, lab.task("ann")), reached)


# -- who listens ------------------------------------------------------------------------------------------------------


LISTENING = [None, frozenset({"read"}), frozenset({"wall"}), frozenset(SCOPES) - {"read", "wall"}]


@pytest.mark.parametrize("port", [TASKS, NODES, DATA])
def test_streams_begin_for_whom_the_rules_name_and_tell_what_they_know_and_nobody_else_hears_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: str
) -> None:
    listeners = [caller for one in JSON_RPC for caller in ways_of(one.kind, one.who) if caller.scopes in LISTENING]

    async def story() -> None:
        async with lab_of_many(tmp_path, monkeypatch) as lab:
            with each_case() as cases:
                for caller in listeners:
                    with cases.case(str(caller)):
                        await check_stream(lab, caller, port)

    run(story())


async def check_stream(lab: LabOfMany, caller: Caller, port: str) -> None:
    def subscribers() -> bool:
        tells = TELLS.get(port)
        return tells is not None and bool(lab.master.port_server.streams.subscribers[tells])

    peer = await lab.come_in(caller, port)
    try:
        answer = await peer.answer(peer.ask("subscribe"))
        allowed = may_call(caller, "subscribe") and port != DATA
        assert ("result" in answer) == allowed, answer
        stir(lab)
        await lab.master.engine.settled()
        if allowed:
            await settled_on(peer, {name for name, at in rules.NOTIFICATIONS.items() if at == port and "." in name})
        else:
            assert not subscribers()
            assert (await peer.call("auth.whoami"))["via"]
            assert peer.pushed == []
    finally:
        peer.writer.close()
        await settled(lambda: not subscribers())


async def settled_on(peer: Peer, heard: set[str]) -> None:
    """Wait until it was told all of these, and see that it was told nothing else."""
    missing = set(heard)
    while missing:
        told = await peer.notification()
        assert told["method"] in heard
        missing.discard(told["method"])


def stir(lab: LabOfMany) -> None:
    """Something happens to a task, and to a node."""
    master = lab.master
    lab.task("somebody")
    is_online = master.core.inventory.nodes["a"].state is NodeState.ONLINE
    state, facts = (NodeState.UNREACHABLE, None) if is_online else (NodeState.ONLINE, FACTS)
    master.engine.event(lambda: master.core.node_state("a", state, None, facts))
    master.port_server.sample("a", EncodedSample(as_sample(b'{"op":"sample","at":1,"cpu_percent":5.0}')))


@pytest.mark.parametrize("end", ["user.disable", "user.remove"])
def test_the_desktop_client_of_who_is_nobody_any_more_is_cut_off_on_every_port_and_not_let_in_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    async def story() -> None:
        async with lab_of_many(tmp_path, monkeypatch) as lab, desktop_peer(lab, "user") as peer:
            streams = [await desktop_peer_of(lab, "user", port) for port in (TASKS, NODES)]
            await settled(lambda: sessions(lab) == len([peer, *streams]))
            await lab.owner.call(end, name=NAMES["user"])
            for one in (peer, *streams):
                await one.ended()
            with pytest.raises(asyncio.IncompleteReadError):
                async with desktop_peer(lab, "user"):
                    pass  # it is not let in
            async with desktop_peer(lab, "mentor") as other:
                assert (await other.ask("add_task", form("true")))[0] == "ret_add_task"

    run(story())


def sessions(lab: LabOfMany) -> int:
    """So many connections of desktop clients there are."""
    return sum(isinstance(one, DesktopSession) for one in lab.master.sessions())
