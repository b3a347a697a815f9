"""The dispatcher tells the audit log every verb that changes something, in both dialects, and nothing secret."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from master.core.people.people import Role
from master.core.tasks.task import TaskState
from master.people.audit import AuditLog
from master.people.audit_file import NAME
from master.ports import connection, port_server
from master.verbs import tasks
from master.verbs.access import ALL_SCOPES, Caller
from master.verbs.audited import about, note
from master.verbs.table import VERBS
from master.verbs.tokens import Revoked, TokenMade
from tests.cases import each_case
from tests.desktop.client import DesktopClient, form
from tests.desktop.place import DesktopPlace, in_loop, with_client
from tests.master.in_process import InProcess, Peer, run
from tests.master.verbs.parameters import required
from tests.waiting import settled

LOOKS_ONLY = {
    "task.places", "env.check", "env.python", "env.cuda", "env.packages", "node.doctor", "node.archive",
    "node.attempts",
    "file.upload_piece", "audit.read", "auth.token", "auth.relay", "auth.whoami", "token.list",
    "user.list", "server.hello",
}  # fmt: skip
"""What takes the rights of a user or more, and changes nothing by itself."""
CHANGES = frozenset(name for name, verb in VERBS.items() if verb.is_audited)
HUSH = "hush"
TOKEN = "mst_7f3a_" + "s" * 43


def ann(role: Role = "admin", user: str = "ann") -> Caller:
    return Caller("127.0.0.1", user, role, ALL_SCOPES, "local", counted_as=user)


async def peer_as(master: InProcess, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> Peer:
    """A connection that is this caller's."""
    monkeypatch.setattr(port_server, "by_kernel", lambda _peer, **_: lambda _people, _now: caller)
    peer = await master.peer()
    await peer.answer(peer.ask("no.such.verb"))
    return peer


def told(master: InProcess) -> list[tuple[str | None, str, str, str]]:
    master.place.audit.flush()
    path = master.folder / "task_info" / "audit" / NAME
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [(line["user"], line["verb"], line["target"], line["result"]) for line in map(json.loads, lines)]


def test_every_verb_that_is_not_for_viewers_and_not_of_the_scope_read_is_told_but_for_those_that_only_look() -> None:
    of_viewers = {name for name, verb in VERBS.items() if verb.role == "viewer" and verb.scope != "account"}
    may_change = {name for name, verb in VERBS.items() if verb.scope != "read"} - of_viewers
    assert may_change - CHANGES == LOOKS_ONLY & VERBS.keys()
    assert may_change >= CHANGES


def test_what_is_done_is_told_with_what_it_is_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        (tmp_path / "data").mkdir()
        async with InProcess(tmp_path) as master:
            peer = await peer_as(master, ann(), monkeypatch)
            await peer.call("task.submit", command=f"echo {HUSH}", variables={"K": HUSH}, name="x", hold=True)
            await peer.call("task.submit_batch", commands=[HUSH, HUSH], hold=True)
            await peer.call("task.submit", command="true", dry_run=True)
            await peer.call("task.show", id=1)
            await peer.call("task.edit", id=2, changes={"command": HUSH})
            await peer.call("node.drain", name="a", reason=HUSH)
            content = base64.b64encode(HUSH.encode()).decode()
            await peer.call("file.write", path="data/a", content=content)
            await peer.call("file.read", path="data/a")
            await peer.call("file.move", **{"from": "data/a", "to": "data/b"})
            begun = (await peer.call("file.upload_begin", path="data/up", size=4))["upload"]
            await peer.call("file.upload_piece", path="data/up", upload=begun, offset=0, content=content)
            await peer.call("file.upload_commit", path="data/up", upload=begun, size=4)
            assert told(master) == [
                ("ann", "task.submit", "1", "ok"),
                ("ann", "task.submit_batch", "2-3", "ok"),
                ("ann", "task.edit", "2", "ok"),
                ("ann", "node.drain", "a", "ok"),
                ("ann", "file.write", "data/a", "ok"),
                ("ann", "file.move", "data/a -> data/b", "ok"),
                ("ann", "file.upload_begin", "data/up", "ok"),
                ("ann", "file.upload_commit", "data/up", "ok"),
            ]
            assert HUSH not in (tmp_path / "task_info" / "audit" / NAME).read_text()

    run(story())


def test_a_range_is_one_line_however_many_requests_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await peer_as(master, ann(), monkeypatch)
            await peer.call("task.submit_batch", commands=["true"] * 200)
            asked = [peer.ask("task.hold", id=number) for number in range(1, 201)]
            for number in asked:
                assert "result" in await peer.answer(number)
            lines = [target for _, verb, target, _ in told(master) if verb == "task.hold"]
            # Lines are written in between on a slow machine: each holds what came until then.
            assert lines[0].startswith("1-")
            assert lines[-1].endswith("-200")
            assert len(lines) < 20

    run(story())


def test_a_cancel_of_several_is_told_by_what_became_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await peer_as(master, ann(), monkeypatch)
            await peer.call("task.submit_batch", commands=["true"] * 3)
            bob = await peer_as(master, ann("user", "bob"), monkeypatch)
            await bob.call("task.submit_batch", commands=["true"] * 3)
            await bob.call("task.cancel", ids=[1, 2, 4, 6, 999])
            await bob.call("task.cancel", mine=True)
            assert [line for line in told(master) if line[1] == "task.cancel"] == [
                ("bob", "task.cancel", "4, 6", "ok"),
                ("bob", "task.cancel", "999", "not_found"),
                ("bob", "task.cancel", "1-2", "forbidden"),
                ("bob", "task.cancel", "5", "ok"),
            ]

    run(story())


def test_who_is_refused_is_told_with_the_code_of_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        (tmp_path / "data").mkdir()
        async with InProcess(tmp_path) as master:
            admin = await peer_as(master, ann(), monkeypatch)
            await admin.call("task.submit", command="true", hold=True)
            bob = await peer_as(master, ann("user", "bob"), monkeypatch)
            await bob.refusal("node.drain", name="a")
            await bob.refusal("task.release", id=1)
            await bob.refusal("log.read", id=1)  # changes nothing, and is another's
            await bob.refusal("file.delete", path="data/none")
            await bob.refusal("task.show", id=99)
            await bob.refusal("task.move", id=1)
            nobody = await peer_as(master, Caller("127.0.0.1"), monkeypatch)
            await nobody.refusal("task.start", id=1)
            await nobody.refusal("task.list")  # anybody may knock, as often as he likes
            assert told(master)[1:] == [
                ("bob", "node.drain", "a", "forbidden"),
                ("bob", "task.release", "1", "forbidden"),
                ("bob", "log.read", "1", "forbidden"),
                ("bob", "file.delete", "data/none", "not_found"),
                ("bob", "task.move", "1", "bad_request"),
                (None, "task.start", "1", "unauthenticated"),
            ]

    run(story())


def test_a_defect_of_ours_is_told_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_context: Any, _params: Any) -> None:
        raise ZeroDivisionError

    async def story() -> None:
        broken = msgspec.structs.replace(VERBS["task.start"], handle=fails)
        monkeypatch.setitem(VERBS.of("task"), "task.start", broken)
        async with InProcess(tmp_path) as master:
            peer = await peer_as(master, ann(), monkeypatch)
            await peer.refusal("task.start", id=3)
            assert told(master) == [("ann", "task.start", "3", "internal")]

    run(story())


def test_what_goes_on_after_its_caller_has_left_is_told_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        begun = asyncio.Event()

        async def lasts(_context: Any, _params: Any) -> None:
            begun.set()
            await asyncio.Event().wait()

        lasting = msgspec.structs.replace(VERBS["file.delete"], handle=lasts)
        monkeypatch.setitem(VERBS.of("file"), "file.delete", lasting)
        async with InProcess(tmp_path) as master:
            peer = await peer_as(master, ann(), monkeypatch)
            peer.ask("file.delete", path="data/x")
            await begun.wait()
            peer.writer.close()
            await settled(lambda: told(master))
            assert told(master) == [("ann", "file.delete", "data/x", "left")]

    run(story())


def test_the_desktop_client_is_told_of_by_the_same_words(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        client.add("true")
        client.ask("save_file", {"path": "/data/y", "content": ""})
        client.ask("get_file", "/data/y")
        client.ask("rm_file", "/data/none")
        client.ask("resub_task", "00000000000001")
        user = "desktop"
        assert in_loop(master, lambda: told(master)) == [
            (user, "task.submit", "1", "ok"),
            (user, "file.write", "data/y", "ok"),
            (user, "file.delete", "data/none", "not_found"),
            (user, "task.submit", "2", "ok"),
        ]

    with_client(tmp_path, story)


def test_a_desktop_client_that_may_not_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_only = Caller("127.0.0.1", "desktop", "user", ALL_SCOPES, "desktop", counted_as="d")
    monkeypatch.setattr(connection, "by_desktop_client", lambda _address, _user: lambda _people, _now: own_only)

    def story(client: DesktopClient, master: DesktopPlace) -> None:
        number = in_loop(master, lambda: master.submit("true", state=TaskState.HELD))
        client.ask("stop_task", f"{number:014}")
        assert in_loop(master, lambda: told(master)) == [("desktop", "task.cancel", str(number), "forbidden")]

    with_client(tmp_path, story)


def test_nothing_that_a_verb_is_given_stands_in_the_log_but_what_it_is_about(tmp_path: Path) -> None:
    with each_case() as cases:
        for verb in sorted(CHANGES):
            with cases.case(verb):
                check_hushed(tmp_path / verb, verb)


def check_hushed(folder: Path, verb: str) -> None:
    names = {"id", "ids", "path", "from", "to", "name", "names", "node", "nodes", "user", "group"}
    names |= {"account"} if verb == "node.lost" else set()
    names |= {"launch_id"} if verb in {"node.adopt", "node.end_attempt", "node.dismiss_attempt"} else set()

    def secret(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: one if key in names else secret(one) for key, one in value.items()}
        return [secret(one) for one in value] if isinstance(value, list) else HUSH

    fields = msgspec.structs.fields(VERBS[verb].params)
    params = {field.encode_name: HUSH for field in fields if field.encode_name not in names}
    params |= {name: value if name in names else secret(value) for name, value in required(verb).items()}

    async def story() -> None:
        audit = AuditLog(folder)
        note(audit, ann(), verb, params, None)
        note(audit, ann(), verb, params, None, error=ValueError(HUSH))
        audit.close()

    run(story())
    text = (folder / NAME).read_text()
    assert len(text.splitlines()) == (1 if "dry_run" in params else 2)
    assert HUSH not in text


@pytest.mark.parametrize(
    ("params", "result", "target"),
    [
        ({"id": True}, None, ""),
        ({"id": "12", "path": ["data"]}, None, ""),
        ({"ids": ["x", 3, None]}, None, 3),
        ({"ids": list(range(3000))}, None, "0-999 and 2000 more"),
        ({"nodes": ["gpu01", "gpu02", "gpu03", 7]}, None, "gpu[01-03]"),
        ({"node": {"name": "far", "proxy": HUSH}}, None, "far"),
        ({}, tasks.Removed([4]), ""),
    ],
)
def test_what_a_call_is_about_is_seen_whatever_it_was_given(
    params: dict[str, Any], result: Any, target: int | str
) -> None:
    assert about("task.hold", params, result) == target


@pytest.mark.parametrize(
    ("verb", "params", "result", "target"),
    [
        ("user.claim", {"name": "lab", "to": "wang"}, None, "lab -> wang"),
        ("node.lost", {"name": "gpu1", "account": "li2"}, None, "li2@gpu1"),
        ("node.lost", {"name": "gpu1", "account": None}, None, "gpu1"),
        ("node.lost", {"account": "li2"}, None, ""),
        ("node.adopt", {"name": "gpu1", "launch_id": "3.1.x"}, None, "3.1.x@gpu1"),
        ("node.dismiss_attempt", {"name": "gpu1", "launch_id": "3.1.x"}, None, "3.1.x@gpu1"),
        ("node.end_attempt", {"name": "gpu1", "launch_id": "3.1.x" * 99}, None, ("3.1.x" * 99)[:64] + "@gpu1"),
        ("token.new", {"label": HUSH}, TokenMade("7f3a", HUSH, "ann", None, None), "ann 7f3a"),
        ("token.revoke", {"tokens": [f"mst_7f3a_{HUSH}", "9b"]}, Revoked(["7f3a", "9b"]), "7f3a, 9b"),
        ("token.revoke", {"tokens": [TOKEN, TOKEN.rpartition("_")[2], "7f3a"]}, None, "7f3a"),
        ("user.password", {"name": "ann", "password": HUSH}, None, "ann"),
        ("auth.login", {"name": "ann", "password": "x"}, None, "ann"),
        ("auth.login", {"name": "My dog's name!", "password": ""}, None, ""),
        ("auth.redeem", {"link": HUSH, "password": HUSH}, None, ""),
    ],
)
def test_what_people_prove_themselves_with_is_not_what_a_call_is_about(
    verb: str, params: dict[str, Any], result: Any, target: str
) -> None:
    assert about(verb, params, result) == target


def test_a_form_of_the_desktop_client_leaves_no_command_behind(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        client.ask("add_task", form(HUSH, need_gpus="99"))
        in_loop(master, lambda: told(master))
        audit = tmp_path / "task_info" / "audit" / NAME
        assert HUSH not in audit.read_text()

    with_client(tmp_path, story)


def test_a_password_that_was_typed_for_a_name_is_not_written_down_and_a_users_name_is(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            await peer.call("user.add", name="wang", role="admin")
            for name in ("wang", "gullkettle7orchard"):  # it might be a name
                await peer.refusal("auth.login", name=name, password=HUSH)
            assert [(verb, target) for _, verb, target, _ in told(master)][1:] == [
                ("auth.login", "wang"),
                ("auth.login", ""),
            ]

    run(story())


def test_what_the_disk_did_not_take_is_not_told_as_done(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            await peer.call("task.submit", command="true", hold=True)
            (tmp_path / "task_info" / "reserve").unlink()
            master.disk.fill()
            code, _ = await peer.refusal("task.submit", command="true", hold=True)
            master.disk.refuse = None
            results = [result for _, verb, _, result in told(master) if verb == "task.submit"]
            assert results == ["ok", code]
            assert code == "store_unavailable"

    run(story())
