"""What a task may do with its token, over real connections: as its owner, no more, and as long as its attempt goes
on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from master.core.attempts.exits import Exit
from master.verbs.table import VERBS
from tests.master.in_process import Peer
from tests.master.verbs.test_people import Lab, People, cut_off, lab
from tests.waiting import settled

__all__ = ["lab"]

LEFT_OUT = ("server.stop", "auth.logout")


async def begun(here: People, owner: Peer, **spec: Any) -> tuple[int, str]:
    """A task that was sent to its node; its id and its token."""
    here.master.online()
    number = (await owner.call("task.submit", **{"command": "true", "token": "submit", **spec}))["id"]
    await settled(lambda: here.master.core.tasks[number].allocation)
    launch_id = here.master.core.tasks[number].allocation[0].launch_id
    return number, here.master.place.task_tokens.make(launch_id)


async def comes_with(here: People, token: str) -> Peer:
    """Somebody on the task's node."""
    peer = await here.stranger()
    await peer.call("auth.token", token=token)
    return peer


def end(here: People, task: int) -> None:
    core = here.master.core
    ended = Exit(core.tasks[task].allocation[0].launch_id, "exited", 3.0, 0)
    here.master.engine.event(lambda: core.exited("a", ended, 3.0))


def test_a_task_submits_as_its_owner_and_the_audit_log_names_it(lab: Lab) -> None:
    async def story(here: People) -> None:
        ann = await here.user("ann")
        task, token = await begun(here, ann)
        peer = await comes_with(here, token)
        who = await peer.call("auth.whoami")
        assert (who["user"], who["via"], who["role"], who["scopes"]) == ("ann", "task", "user", ["read", "submit"])
        number = (await peer.call("task.submit", command="true", request_id="r"))["id"]
        assert (await peer.call("task.submit", command="true", request_id="r"))["id"] == number
        assert here.master.core.tasks[number].owner == "ann"
        assert not here.master.core.tasks[number].token, "it says so itself if its own are to submit"
        entries = (await here.owner.call("audit.read", verb="task.submit"))["entries"]
        assert [(one["target"], one["user"], one["via"], one.get("task")) for one in entries][:2] == [
            (f"{number}, {number}", "ann", "task", task),
            (str(task), "ann", "token", None),
        ]

    lab(story)


@pytest.mark.parametrize("role", ["admin", "user", "viewer"])
def test_it_opens_what_a_user_may_do_with_his_tasks_and_nothing_else_whatever_its_owner_is(lab: Lab, role: Any) -> None:
    async def story(here: People) -> None:
        ann = await here.user("ann")
        await here.user("bob")
        await here.owner.call("group.add", name="lab")
        await here.owner.call("group.edit", name="lab", add=["bob"], add_mentors=["ann"])
        _, token = await begun(here, ann)
        await here.owner.call("user.edit", name="ann", changes={"role": role})
        peer = await comes_with(here, token)
        asked = {name: verb for name, verb in VERBS.items() if verb.role != "anyone" and name not in LEFT_OUT}
        allowed = {name for name in asked if await opens(peer, name)}
        roles, scopes = (("viewer",), ("read",)) if role == "viewer" else (("viewer", "user"), ("read", "submit"))
        assert allowed == {name for name, verb in asked.items() if verb.role in roles and verb.scope in scopes}
        bobs = (await (await here.user("bob")).call("task.submit", command="true", hold=True))["id"]
        if role != "viewer":
            refused = (await peer.call("task.cancel", ids=[bobs]))["refused"]
            assert "bob" in refused[str(bobs)], "a mentor's rights are not a task's"
            assert (await peer.refusal("task.submit", command="true", priority=1))[0] == "forbidden"

    lab(story)


async def opens(peer: Peer, name: str) -> bool:
    """May he call the verb at all, with parameters that lead nowhere?"""
    answer = await peer.answer(peer.ask(name, nothing=1))
    return answer.get("error", {}).get("data", {}).get("code", "") not in ("forbidden", "unauthenticated")


@pytest.mark.parametrize("how", ["ends", "cancelled", "disabled", "expired", "given up"])
def test_whoever_came_in_with_it_is_cut_off_when_the_attempt_or_its_owner_is_done_with(lab: Lab, how: str) -> None:
    async def story(here: People) -> None:
        ann = await here.user("ann")
        task, token = await begun(here, ann)
        peer = await comes_with(here, token)
        if how == "ends":
            end(here, task)
        elif how == "cancelled":
            await ann.call("task.cancel", ids=[task])
        elif how == "disabled":
            await here.owner.call("user.disable", name="ann")
        elif how == "expired":
            await here.owner.call("user.edit", name="ann", changes={"expires_at": 1.0})
        else:
            here.master.engine.event(lambda: here.master.core.forget_facts("a"))
            await here.owner.call("node.lost", name="a")
        await cut_off(peer)
        code, said = await (await here.stranger()).refusal("auth.token", token=token)
        assert (code, "is over" in said) == ("unauthenticated", True)

    lab(story)


def test_a_forged_one_opens_nothing_and_is_a_guess(lab: Lab) -> None:
    async def story(here: People) -> None:
        ann = await here.user("ann")
        _, token = await begun(here, ann)
        _, other = await begun(here, ann)
        secret = len(token) - 43
        forged = [other[: len(other) - 43] + token[secret:], token[:-2] + ("xx" if token[-2:] != "xx" else "yy")]
        peer = await here.stranger()
        codes = [(await peer.refusal("auth.token", token=forged[number % 2]))[0] for number in range(12)]
        assert codes[:2] == ["unauthenticated"] * 2
        assert "limit" in codes, "whoever guesses is slowed"
        assert (await peer.call("auth.token", token=token))["user"] == "ann", "what is right comes in"

    lab(story)


def test_nobody_gives_a_task_more_than_he_has(lab: Lab) -> None:
    async def story(here: People) -> None:
        ann = await here.user("ann")
        for scopes, allowed in ((["submit"], False), (["read", "submit"], True)):
            made = await ann.call("token.new", scopes=scopes)
            peer = await here.stranger()
            await peer.call("auth.token", token=made["token"])
            plain = (await peer.call("task.submit", command="true", hold=True))["id"]
            if allowed:
                await peer.call("task.submit", command="true", token="submit", hold=True)  # noqa: S106
                await peer.call("task.edit", id=plain, changes={"token": "submit"})
                continue
            for verb, params in (
                ("task.submit", {"command": "true", "token": "submit"}),
                ("task.submit_batch", {"commands": ["true"], "token": "submit"}),
                ("task.edit", {"id": plain, "changes": {"token": "submit"}}),
            ):
                assert (await peer.refusal(verb, **params))[0] == "forbidden"
        assert (await ann.refusal("task.submit", command="true", token="admin"))[0] == "bad_request"  # noqa: S106

    lab(story)


def test_an_admin_neither_gives_anothers_task_a_token_nor_changes_what_one_that_has_it_does(lab: Lab) -> None:
    async def story(here: People) -> None:
        ann, boss = await here.user("ann"), await here.user("boss", "admin")
        spec = {"command": "true", "hold": True}
        plain = (await ann.call("task.submit", **spec))["id"]
        driver = (await ann.call("task.submit", **spec, token="submit"))["id"]  # noqa: S106
        for number, changes in (
            (plain, {"token": "submit"}),
            (driver, {"command": "false"}),
            (driver, {"variables": {"A": "1"}, "priority": 1}),
        ):
            code, said = await boss.refusal("task.edit", id=number, changes=changes)
            assert (code, "in ann's name" in said) == ("forbidden", True)
        await boss.call("task.edit", id=plain, changes={"command": "false"})
        await boss.call("task.edit", id=driver, changes={"priority": 1})
        his = (await boss.call("task.submit", **spec, token="submit"))["id"]  # noqa: S106
        await boss.call("task.edit", id=his, changes={"owner": "ann"})
        assert not here.master.core.tasks[his].token, "ann has not said so"
        assert (await boss.call("task.edit", id=driver, changes={"token": ""}))["token"] == ""
        await boss.call("task.edit", id=driver, changes={"command": "false"})

    lab(story)


def test_it_is_written_down_nowhere(lab: Lab) -> None:
    async def story(here: People) -> None:
        ann = await here.user("ann")
        task, token = await begun(here, ann)
        peer = await comes_with(here, token)
        await peer.call("task.submit", command="true")
        end(here, task)
        await cut_off(peer)
        await (await here.stranger()).refusal("auth.token", token=token)
        await here.master.engine.settled()
        here.master.place.audit.flush()
        shown = msgspec.json.encode(await ann.call("task.show", id=task))
        secret = token[-43:].encode()
        files = [path for path in here.master.folder.rglob("*") if path.is_file()]
        assert [path for path in files if secret in path.read_bytes()] == []
        assert secret not in shown

    lab(story)
