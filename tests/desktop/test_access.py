"""What a desktop client may do follows from the table of verbs, and a refusal has the shape that its boxes want.

JSON-RPC's walk is `tests/master/verbs/test_access.py`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from master.core.outcome import Pending
from master.core.people import People, Role, Scope
from master.core.task import Task, TaskState
from master.desktop import requests
from master.desktop.chinese import in_chinese
from master.desktop.requests import REQUESTS, answer
from master.ports import arrival
from master.verbs.access import USER_SCOPES, Caller, by_desktop_client
from master.verbs.call import Calls
from master.verbs.table import VERBS
from tests.desktop.arrivals import TERMINATOR
from tests.desktop.client import REPLIES, DesktopClient, form
from tests.desktop.place import DesktopPlace, with_client
from tests.desktop.test_fuzz import SHAPES, is_text
from tests.master.in_process import run
from tests.waiting import until
from wire import desktop as wire
from wire.errors import ConflictError, ForbiddenError, MusterError

TASK = "00000000000001"
CLIENT = by_desktop_client("10.0.0.1", "desktop")(People(Pending()), 1.0)

VERB_OF: dict[str, tuple[str, Any]] = {
    "get_root": ("file.roots", ""),
    "get_folder": ("file.list", "/data"),
    "get_file": ("file.read", "/data/x"),
    "save_file": ("file.write", {"path": "/data/y", "content": ""}),
    "file_operate": ("file.make", {"mode": "touch", "root": "/data/", "name": "z", "old_name": ""}),
    "rm_file": ("file.delete", "/data/x"),
    "add_task": ("task.submit", form("true")),
    "change_task": ("task.edit", form("false", task_id=TASK)),
    "del_task": ("task.remove", TASK),
    "resub_task": ("task.retry", TASK),
    "stop_task": ("task.cancel", TASK),
    "get_train_log_path": ("log.read", TASK),
    "get_server_log": ("log.read", ""),
    "env_list": ("env.list", ""),
    "test_env": ("env.check", "base"),
    "py_v": ("env.python", "base"),
    "cuda_pt": ("env.cuda", "base"),
    "cuda_tf": ("env.cuda", "base"),
    "pkgs": ("env.packages", "base"),
}
"""Of each request the verb whose line it follows, and what is asked for."""
NAMES_NO_TASK = {"get_server_log"}


def callers() -> list[Any]:
    """Each role; each scope missing; the tasks of others not the client's."""
    roles: list[Role] = list(get_args(Role))
    scopes: list[Scope] = sorted(USER_SCOPES)
    found = [(f"{role}", msgspec.structs.replace(CLIENT, role=role)) for role in roles]
    found += [(f"without {one}", msgspec.structs.replace(CLIENT, scopes=USER_SCOPES - {one})) for one in scopes]
    found += [("own tasks only", msgspec.structs.replace(CLIENT, all_tasks=False))]
    found += [("no nouns", msgspec.structs.replace(CLIENT, nouns=frozenset()))]
    return [pytest.param(caller, id=name) for name, caller in found]


def may(mode: str, caller: Caller, owner: str) -> bool:
    """What the line of the table says."""
    verb = VERB_OF[mode][0]
    line, roles = VERBS[verb], get_args(Role)
    enough = roles.index(caller.role) >= roles.index(line.role) and line.scope in caller.scopes
    names_task = line.whose in ("own", "group") and mode not in NAMES_NO_TASK
    theirs = not names_task or caller.role == "admin" or caller.all_tasks or owner == caller.user
    return enough and theirs and (caller.nouns is None or verb.split(".")[0] in caller.nouns)


@asynccontextmanager
async def place(folder: Path, owner: str) -> AsyncIterator[DesktopPlace]:
    """A master with a file, and a task of this owner's."""
    async with DesktopPlace(folder) as master:
        (folder / "data" / "x").write_text("x", encoding="utf-8")
        draft = Task(id=0, owner=owner, command="true", cwd=str(folder), state=TaskState.HELD)
        master.engine.client_change(lambda: master.core.submit([draft], 1.0))
        yield master


def test_every_request_follows_the_line_of_a_verb() -> None:
    assert VERB_OF.keys() == REQUESTS.keys() == REPLIES.keys()
    assert {verb for verb, _ in VERB_OF.values()} <= VERBS.keys()


@pytest.mark.parametrize("owner", ["desktop", "ann"])
@pytest.mark.parametrize("caller", callers())
def test_every_request_is_answered_for_whom_its_verb_is_and_refused_to_others_in_the_clients_shapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caller: Caller, owner: str
) -> None:
    errors: list[MusterError] = []

    def told(error: MusterError) -> str:
        errors.append(error)
        return in_chinese(error)

    def no_node(_context: Any, _params: Any) -> None:
        raise ConflictError("no node is asked in this test")

    monkeypatch.setattr(requests, "in_chinese", told)
    for name, verb in VERBS.items():
        if name.startswith("env."):
            monkeypatch.setitem(VERBS, name, msgspec.structs.replace(verb, handle=no_node))

    async def story() -> None:
        for number, mode in enumerate(VERB_OF):
            (tmp_path / str(number)).mkdir()
            async with place(tmp_path / str(number), owner) as master:
                before = msgspec.json.encode(list(master.core.tasks.values()))
                errors.clear()
                kind, info = REQUESTS[mode], VERB_OF[mode][1]
                reply = await answer(kind, Calls(master.hub.door, lambda _people, _now: caller), info)
                refused = [error for error in errors if isinstance(error, ForbiddenError)]
                assert bool(refused) != may(mode, caller, owner), (mode, caller, errors)
                check_shape(*reply)
                if refused:
                    assert reply == kind.refuse(info, in_chinese(refused[0]))
                    assert msgspec.json.encode(list(master.core.tasks.values())) == before
                    assert [path.name for path in (master.folder / "data").iterdir()] == ["x"]

    run(story())


def check_shape(mode: str, info: Any) -> None:
    """One frame, of a mode that the client knows, and what that mode's handler can take."""
    frame = wire.encode(mode, info, "main")
    assert frame.isascii()
    assert frame.count(TERMINATOR.encode()) == 1
    value = json.loads(frame.removesuffix(TERMINATOR.encode()))
    assert mode in REPLIES.values()
    assert SHAPES.get(mode, is_text)(value["info"]), value


def test_a_client_that_may_only_read_goes_on_reading_and_one_that_may_more_does_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer = msgspec.structs.replace(CLIENT, role="viewer", scopes=frozenset({"read"}))

    def story(client: DesktopClient, master: DesktopPlace) -> None:
        monkeypatch.setattr(arrival, "by_desktop_client", lambda _address, _user: lambda _people, _now: viewer)
        confined = DesktopClient({name: master.address(name) for name in master.servers})
        for mode in ("add_task", "change_task", "save_file", "get_folder", "rm_file"):
            confined.reply(mode, VERB_OF[mode][1])
        assert "没有权限" in str(confined.ask("add_task", form("true")))
        assert confined.read_err == []
        until("the tables come to who may read them", lambda: confined.train.seen)
        assert client.add("true") == ""
        confined.close()

    with_client(tmp_path, story)


def test_a_client_that_may_not_read_is_told_nothing_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blind = msgspec.structs.replace(CLIENT, scopes=frozenset({"files"}))

    def story(_client: DesktopClient, master: DesktopPlace) -> None:
        monkeypatch.setattr(arrival, "by_desktop_client", lambda _address, _user: lambda _people, _now: blind)
        confined = DesktopClient({name: master.address(name) for name in master.servers})
        assert confined.train.ended.wait(60)
        assert confined.monitor.ended.wait(60)
        assert confined.ask("get_root") == ["data", "envs"]
        assert (confined.train.seen, confined.monitor.seen) == ([], [])
        confined.close()

    with_client(tmp_path, story)
