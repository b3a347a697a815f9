"""Whoever lost his right is told nothing more and changes nothing more, whatever of his was under way."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import msgspec
import pytest

from master.ports.port_server import TASKS
from master.verbs.table import VERBS
from tests.leaps import Leap
from tests.master.in_process import Peer
from tests.master.verbs.test_people import OTHER, PASSWORD, Lab, People, cut_off, lab
from tests.waiting import PATIENCE_S, settled

__all__ = ["lab"]


def burst(*calls: tuple[str, dict[str, Any]]) -> bytes:
    """Requests that lie in the socket together."""
    frames = [
        {"jsonrpc": "2.0", "id": f"burst{place}", "method": verb, "params": params}
        for place, (verb, params) in enumerate(calls)
    ]
    return b"".join(json.dumps(frame).encode() + b"\n" for frame in frames)


async def listener(here: People, name: str, **keys: Any) -> tuple[Peer, str]:
    """Somebody who is told of tasks; the id of the token that he came in with."""
    if here.master.core.people.named(name) is None:
        await here.owner.call("user.add", name=name, password=PASSWORD)
    made = await here.owner.call("token.new", name=name, **keys)
    peer = await here.stranger(TASKS)
    await peer.call("auth.token", token=made["token"])
    await peer.call("subscribe")
    return peer, made["id"]


class Gate:
    """A verb that takes until it is opened."""

    def __init__(self, patched: pytest.MonkeyPatch, verb: str, result: Any) -> None:
        self.begun = 0
        self._open = asyncio.Event()
        self._result = result
        patched.setitem(
            VERBS.of(verb.partition(".")[0]), verb, msgspec.structs.replace(VERBS[verb], handle=self._handle)
        )

    async def _handle(self, _context: Any, _params: Any) -> Any:
        self.begun += 1
        await self._open.wait()
        return self._result

    def open(self) -> None:
        self._open.set()


class SlowHashes:
    """Passwords are hashed when this is called. `asked`: how many are to be."""

    def __init__(self, here: People, patched: pytest.MonkeyPatch) -> None:
        self._gate, self._real = asyncio.Event(), here.master.place.passwords.hash
        self.asked = 0
        patched.setattr(here.master.place.passwords, "hash", self._later)

    def __call__(self) -> None:
        self._gate.set()

    async def _later(self, password: str) -> str:
        self.asked += 1
        await self._gate.wait()
        return await self._real(password)


def test_an_expiry_that_is_brought_forward_ends_a_stream_that_is_open(lab: Lab) -> None:
    async def story(here: People) -> None:
        peer, _ = await listener(here, "ann")
        await here.owner.call("user.edit", name="ann", changes={"expires_at": time.time() + 0.2})
        await cut_off(peer)

    lab(story)


def test_a_stream_ends_in_time_though_the_clocks_differ(lab: Lab, monkeypatch: pytest.MonkeyPatch, leap: Leap) -> None:
    async def story(here: People) -> None:
        await here.user("ann")
        loop = asyncio.get_running_loop()
        real = loop.call_later
        monkeypatch.setattr(loop, "call_later", lambda delay, *args: real(delay * 0.9, *args))
        peer, _ = await listener(here, "ann", expires_at=time.time() + PATIENCE_S)
        leap(PATIENCE_S * 0.9)
        await here.owner.call("auth.whoami")  # the timer that came too soon has been by then
        leap(PATIENCE_S * 0.1)
        await cut_off(peer)

    lab(story)


def test_who_asks_at_the_very_moment_at_which_his_token_is_over_keeps_no_stream(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(here: People) -> None:
        end = time.time() + 3600
        peer, _ = await listener(here, "ann", expires_at=end)
        with monkeypatch.context() as patched:
            patched.setattr(time, "time", lambda: end)
            peer.ask("task.list")
            await cut_off(peer)

    lab(story)


def test_who_keeps_asking_while_his_token_is_revoked_keeps_no_stream(lab: Lab) -> None:
    async def story(here: People) -> None:
        peer, token = await listener(here, "ann")
        # Both are read in one turn of the loop, the owner's first: before anybody is looked at again.
        here.owner.send(burst(("token.revoke", {"tokens": [token]})))
        peer.send(burst(("task.list", {})))
        await cut_off(peer)

    lab(story)


def test_a_stream_begun_with_one_token_does_not_go_on_with_another(lab: Lab) -> None:
    async def story(here: People) -> None:
        peer, _ = await listener(here, "ann")
        bob = await here.user("bob")
        blind = await bob.call("token.new", scopes=["files"])
        await peer.call("auth.token", token=blind["token"])
        await here.owner.call("task.submit", command="true", hold=True)
        assert not here.master.port_server.streams.subscribers["tasks"]
        await peer.call("auth.whoami")
        assert peer.pushed == []

    lab(story)


@pytest.mark.parametrize("end", ["token.revoke", "user.disable"])
def test_an_answer_that_took_long_is_not_told_to_who_came_in_with_what_has_ended(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    async def story(here: People) -> None:
        gate = Gate(monkeypatch, "env.list", {})
        peer, token = await listener(here, "ann")
        number = peer.ask("env.list")
        await settled(lambda: gate.begun == 1)
        bob = await here.user("bob")
        mine = await bob.call("token.new")
        second = peer.ask("auth.token", token=mine["token"])
        assert (await peer.answer(second))["result"]["user"] == "bob"
        await here.owner.call(end, **({"tokens": [token]} if end == "token.revoke" else {"name": "ann"}))
        gate.open()
        assert (await peer.answer(number))["error"]["data"]["code"] == "unauthenticated"
        assert (await peer.call("auth.whoami"))["user"] == "bob"

    lab(story)


def test_an_answer_that_took_longer_than_the_token_is_not_told(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(here: People) -> None:
        gate = Gate(monkeypatch, "env.list", {})
        end = time.time() + 3600
        peer, _ = await listener(here, "ann", expires_at=end)
        number = peer.ask("env.list")
        await settled(lambda: gate.begun == 1)
        with monkeypatch.context() as patched:
            patched.setattr(time, "time", lambda: end)
            gate.open()
            assert (await peer.answer(number))["error"]["data"]["code"] == "unauthenticated"

    lab(story)


@pytest.mark.parametrize(
    ("verb", "params"),
    [
        ("user.add", {"name": "eve", "role": "admin", "password": PASSWORD}),
        ("user.password", {"name": "bob", "password": OTHER}),
    ],
)
def test_what_an_admin_began_does_not_happen_once_he_is_none(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, verb: str, params: dict[str, Any]
) -> None:
    async def story(here: People) -> None:
        amy, _bob = await here.user("amy", "admin"), await here.user("bob")
        go_on = SlowHashes(here, monkeypatch)
        number = amy.ask(verb, **params)
        await settled(lambda: bool(jobs(here)))
        await here.owner.call("user.edit", name="amy", changes={"role": "viewer"})
        go_on()
        assert (await amy.answer(number))["error"]["data"]["code"] == "forbidden"
        assert here.master.core.people.named("eve") is None
        stranger = await here.stranger()
        assert (await stranger.call("auth.login", name="bob", password=PASSWORD))["user"] == "bob"

    lab(story)


def jobs(here: People) -> list[asyncio.Task[None]]:
    """What is awaited of all connections."""
    return [job for one in here.master.sessions() for job in getattr(one, "_jobs", ())]


def test_a_password_is_not_set_for_who_got_the_name_meanwhile(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(here: People) -> None:
        await here.owner.call("user.add", name="ann")
        amy = await here.user("amy", "admin")
        with monkeypatch.context() as patched:
            go_on = SlowHashes(here, patched)
            number = amy.ask("user.password", name="ann", password=PASSWORD)
            await settled(lambda: bool(jobs(here)))
            await here.owner.call("user.remove", name="ann")
            await here.owner.call("user.add", name="ann")
            go_on()
            assert (await amy.answer(number))["error"]["data"]["code"] == "conflict"
        assert here.master.core.people.find("ann").password == ""

    lab(story)


def test_a_thief_does_not_set_the_password_anew_behind_an_admin_who_sets_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(here: People) -> None:
        thief = await here.user("ann")
        with monkeypatch.context() as patched:
            go_on = SlowHashes(here, patched)
            number = thief.ask("user.password", password="eels under tin roofs", old=PASSWORD)  # noqa: S106
            await settled(lambda: go_on.asked == 1)
            here.master.engine.client_change(lambda: here.master.core.people.edit("ann", password="set"))  # noqa: S106
            go_on()
            assert (await thief.answer(number))["error"]["data"]["code"] == "conflict"
        assert here.master.core.people.find("ann").password == "set"  # noqa: S105

    lab(story)


@pytest.mark.parametrize("what", ["user.remove", "user.disable", "password"])
def test_who_logs_in_while_his_right_is_taken_does_not_come_in(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    async def story(here: People) -> None:
        await here.owner.call("user.add", name="ann", password=PASSWORD)
        ann, gate, real = await here.stranger(), asyncio.Event(), here.master.place.passwords.check
        begun = asyncio.Event()

        async def check_later(password: str, phc: str | None) -> Any:
            checked = await real(password, phc)
            begun.set()
            await gate.wait()
            return checked

        monkeypatch.setattr(here.master.place.passwords, "check", check_later)
        number = ann.ask("auth.login", name="ann", password=PASSWORD)
        await begun.wait()
        if what == "password":
            await here.owner.call("user.password", name="ann", password=OTHER)
        else:
            await here.owner.call(what, name="ann")
        gate.set()
        assert (await ann.answer(number))["error"]["data"]["code"] == "unauthenticated"
        assert (await ann.call("auth.whoami"))["user"] is None

    lab(story)


def test_what_lies_behind_a_log_in_is_done_by_who_he_was_when_it_was_read(lab: Lab) -> None:
    async def story(here: People) -> None:
        await here.owner.call("user.add", name="amy", role="admin", password=PASSWORD)
        stranger = await here.stranger()
        stranger.send(burst(("auth.login", {"name": "amy", "password": OTHER}), ("user.add", {"name": "eve"})))
        codes = {(await stranger.read())["error"]["data"]["code"] for _ in range(2)}
        assert codes == {"unauthenticated"}
        assert here.master.core.people.named("eve") is None

    lab(story)


def test_a_role_that_is_taken_away_is_gone_on_the_connection_that_is_open(lab: Lab) -> None:
    async def story(here: People) -> None:
        amy = await here.user("amy", "admin")
        assert await amy.call("user.list")
        await here.owner.call("user.edit", name="amy", changes={"role": "viewer"})
        for verb, params in (("user.list", {}), ("server.stop", {}), ("task.submit", {"command": "true"})):
            assert (await amy.refusal(verb, **params))[0] == "forbidden"

    lab(story)


def test_a_link_ends_what_a_thief_logged_in_with(lab: Lab) -> None:
    async def story(here: People) -> None:
        await here.owner.call("user.add", name="ann", password=PASSWORD)
        thief = await here.stranger()
        await thief.call("auth.login", name="ann", password=PASSWORD)
        link = (await here.owner.call("user.link", name="ann"))["link"]
        ann = await here.stranger()
        await ann.call("auth.redeem", link=link, password=OTHER)
        await cut_off(thief)
        assert (await ann.call("auth.whoami"))["user"] == "ann"

    lab(story)


def test_a_link_of_before_he_was_disabled_does_not_work_when_he_is_enabled(lab: Lab) -> None:
    async def story(here: People) -> None:
        await here.owner.call("user.add", name="ann")
        link = (await here.owner.call("user.link", name="ann"))["link"]
        await here.owner.call("user.disable", name="ann")
        await here.owner.call("user.enable", name="ann")
        stranger = await here.stranger()
        assert (await stranger.refusal("auth.redeem", link=link, password=PASSWORD))[0] == "unauthenticated"

    lab(story)
