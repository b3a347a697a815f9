"""Log-ins, tokens, users and groups over real connections: who comes in, as whom, and when that ends."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from master.callers.peer import Peer as KernelPeer
from master.config.conf_file import DesktopClient
from master.core.people.people import Role
from master.loop.stalls import LoopTimes, Stall
from master.ports import port_server
from master.ports.port_server import TASKS
from tests.master.in_process import DATA, InProcess, Peer, run
from tests.waiting import settled
from wire.message import Message

PASSWORD = "gull kettle 七 orchard"  # noqa: S105
OTHER = "seven slow lanterns hum"
WEAK = "short"
AWAY = "10.0.0.9"


class People:
    """A master and its owner's connection; others come from elsewhere, and are nobody until they say who they are."""

    def __init__(self, master: InProcess, owner: Peer, patched: pytest.MonkeyPatch) -> None:
        self.master = master
        self.owner = owner
        self._patched = patched

    async def stranger(self, port: str = DATA) -> Peer:
        """Somebody at another machine."""
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(port_server, "identify", lambda _sock: KernelPeer(AWAY))
            patched.setattr("master.ports.connection.is_loopback", lambda _address: True)  # as if he spoke TLS
            peer = await self.master.peer(port)
            await peer.call("auth.whoami")
        return peer

    async def user(self, name: str, role: Role = "user", port: str = DATA, **keys: Any) -> Peer:
        """A user who has logged in; he is added if he is not there."""
        if self.master.core.people.named(name) is None:
            await self.owner.call("user.add", name=name, role=role, password=PASSWORD, **keys)
        made = await self.owner.call("token.new", name=name)
        peer = await self.stranger(port)
        await peer.call("auth.token", token=made["token"])
        return peer


@asynccontextmanager
async def people(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[People]:
    async with InProcess(folder) as master:
        yield People(master, await master.peer(), monkeypatch)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[People], Awaitable[None]]], None]:
    """Run a story in a lab."""

    def told(story: Callable[[People], Awaitable[None]]) -> None:
        async def whole() -> None:
            async with people(tmp_path, monkeypatch) as here:
                await story(here)

        run(whole())

    return told


async def cut_off(peer: Peer) -> None:
    """Wait until it is closed from the other side."""
    while await peer.reader.readline():
        pass


Lab = Callable[[Callable[[People], Awaitable[None]]], None]


def test_who_has_a_password_comes_in_with_it_and_again_with_the_token_he_got(lab: Lab) -> None:
    async def story(here: People) -> None:
        await here.owner.call("user.add", name="ann", display="安", password=PASSWORD)
        ann = await here.stranger()
        assert (await ann.refusal("task.list"))[0] == "unauthenticated"
        came = await ann.call("auth.login", name="ann", password=PASSWORD, label="laptop")
        assert (came["user"], came["role"]) == ("ann", "user")
        assert (await ann.call("task.submit", command="true", hold=True))["id"] == 1
        assert here.master.core.tasks[1].owner == "ann"
        again = await here.stranger()
        who = await again.call("auth.token", token=came["token"])
        assert (who["user"], who["display"], who["via"], who["scopes"]) == (
            "ann", "安", "session", ["account", "files", "read", "submit"],
        )  # fmt: skip
        [kept] = await again.call("token.list")
        assert (kept["kind"], kept["label"], kept["from"], kept["is_this"]) == ("session", "laptop", AWAY, True)

    lab(story)


def test_a_wrong_password_of_a_user_of_a_disabled_one_and_of_nobody_are_told_alike(lab: Lab) -> None:
    async def story(here: People) -> None:
        for name in ("ann", "bob", "cy"):
            await here.owner.call("user.add", name=name, password=None if name == "cy" else PASSWORD)
        await here.owner.call("user.disable", name="bob")
        stranger = await here.stranger()
        told = {
            await stranger.refusal("auth.login", name=name, password=password)
            for name, password in (
                ("ann", OTHER),
                ("nobody", PASSWORD),
                ("bob", OTHER),
                ("cy", PASSWORD),
                ("cy", ""),
            )
        }
        assert [code for code, _ in told] == ["unauthenticated"]
        assert (await stranger.call("auth.whoami"))["user"] is None

    lab(story)


def test_the_desktop_clients_user_is_listed_where_that_client_comes_in_or_owns_a_task(lab: Lab) -> None:
    async def story(here: People) -> None:
        async def listed() -> list[str]:
            return [user["name"] for user in await here.owner.call("user.list")]

        place, core = here.master.place, here.master.core
        loopback = place.config
        place.config = msgspec.structs.replace(loopback, desktop_client=DesktopClient(users={"127.0.0.9": "corner"}))
        await here.owner.call("user.add", name="ann")
        assert core.people.named("desktop") is not None
        assert await listed() == ["ann"], "it is there in case such a client comes"
        place.config = msgspec.structs.replace(loopback, desktop_client=DesktopClient(networks=("10.0.0.0/8",)))
        assert await listed() == ["ann", "corner", "desktop"]
        place.config = msgspec.structs.replace(loopback, desktop_client=DesktopClient(users={"127.0.0.9": "corner"}))
        await here.owner.call("user.disable", name="corner")
        assert await listed() == ["ann", "corner"], "somebody did something with it"
        task = (await here.owner.call("task.submit", command="true", hold=True))["id"]
        await here.owner.call("task.edit", id=task, changes={"owner": "desktop"})
        assert await listed() == ["ann", "corner", "desktop"]

    lab(story)


Bar = Callable[[People], Awaitable[Any]]
BARS: dict[str, tuple[Bar, str]] = {
    "disabled": (lambda here: here.owner.call("user.disable", name="bob"), "user_disabled"),
    "expired": (lambda here: here.owner.call("user.edit", name="bob", changes={"expires_at": 1.0}), "user_expired"),
}


@pytest.mark.parametrize("why", BARS)
def test_a_user_who_cannot_log_in_is_told_why_once_they_prove_who_they_are(lab: Lab, why: str) -> None:
    bar, key = BARS[why]

    async def story(here: People) -> None:
        bob = await here.user("bob")
        link = (await here.owner.call("user.link", name="bob"))["link"]
        token = (await here.owner.call("token.new", name="bob"))["token"]
        await bar(here)
        lines = [msgspec.json.decode(line) async for line in bob.reader]
        assert [line["error"]["data"]["key"] for line in lines] == [key], "the open connection"
        stranger = await here.stranger()
        shown: list[tuple[str, dict[str, str]]] = [("auth.login", {"name": "bob", "password": PASSWORD})]
        if why == "expired":  # to disable a user removes the links and tokens
            shown += [("auth.redeem", {"link": link, "password": OTHER}), ("auth.token", {"token": token})]
        for verb, params in shown:
            error = (await stranger.answer(stranger.ask(verb, **params)))["error"]
            assert (error["data"]["code"], error["data"]["key"]) == ("unauthenticated", key), verb
        assert (await stranger.call("auth.whoami"))["user"] is None

    lab(story)


def test_to_guess_the_password_of_a_disabled_user_is_slowed_down_though_the_guess_is_right(lab: Lab) -> None:
    async def story(here: People) -> None:
        await here.owner.call("user.add", name="bob", password=PASSWORD)
        await here.owner.call("user.disable", name="bob")
        stranger = await here.stranger()
        codes = [(await stranger.refusal("auth.login", name="bob", password=PASSWORD))[0] for _ in range(6)]
        assert codes == [*["unauthenticated"] * 5, "limit"]

    lab(story)


@pytest.mark.parametrize("why", BARS)
def test_the_unix_account_of_a_user_who_cannot_log_in_is_told_why(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    bar, key = BARS[why]

    async def story(here: People) -> None:
        config = here.master.place.config
        here.master.place.config = msgspec.structs.replace(config, local_users="same name")
        await here.owner.call("user.add", name="bob")
        await bar(here)
        with monkeypatch.context() as patched:
            patched.setattr(port_server, "identify", lambda _sock: KernelPeer("127.0.0.1", is_here=True, account="bob"))
            bob = await here.master.peer()
            who = await bob.call("auth.whoami")
        assert (who["user"], "bob" in who["barred"]) == (None, True)
        assert (await bob.answer(bob.ask("task.list")))["error"]["data"]["key"] == key

    lab(story)


@pytest.mark.parametrize("first", ["ann", None])
def test_a_unix_account_that_is_no_users_is_told_what_to_do_once_there_are_users(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, first: str | None
) -> None:
    keys = ["no_log_ins", "no_log_ins"] if first is None else ["account_not_added", "account_of_tasks"]

    async def story(here: People) -> None:
        config = here.master.place.config
        here.master.place.config = msgspec.structs.replace(config, local_users="same name")
        if first is not None:
            await here.owner.call("user.add", name=first)
        bob = KernelPeer("127.0.0.1", is_here=True, account="bob")
        refused = KernelPeer("127.0.0.1", is_here=True, refused=Message("account_of_tasks", account="bob"))
        for peer, key in zip([bob, refused], keys, strict=True):
            with monkeypatch.context() as patched:
                patched.setattr(port_server, "identify", lambda _sock, peer=peer: peer)
                nobody = await here.master.peer()
                who = await nobody.call("auth.whoami")
            assert (who["user"], who["barred"] is not None) == (None, first is not None)
            assert (await nobody.answer(nobody.ask("task.list")))["error"]["data"]["key"] == key

    lab(story)


def test_who_guesses_has_to_wait_and_others_come_in_meanwhile(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(here: People) -> None:
        await here.owner.call("user.add", name="ann", password=PASSWORD)
        stranger = await here.stranger()
        codes = [(await stranger.refusal("auth.login", name="ann", password=OTHER))[0] for _ in range(6)]
        assert codes == [*["unauthenticated"] * 5, "limit"]
        assert (await stranger.refusal("auth.login", name="ann", password=PASSWORD))[0] == "limit"
        monkeypatch.setattr("tests.master.verbs.test_people.AWAY", "10.0.0.10")
        assert (await (await here.stranger()).call("auth.login", name="ann", password=PASSWORD))["user"] == "ann"

    lab(story)


@pytest.mark.parametrize("end", ["token.revoke", "user.disable", "user.remove", "auth.logout"])
def test_what_ends_a_token_ends_its_connections_and_streams_at_once(lab: Lab, end: str) -> None:
    async def story(here: People) -> None:
        ann = await here.user("ann")
        token = (await here.owner.call("token.new", name="ann"))["token"]
        listener, other = await here.stranger(TASKS), await here.stranger()
        for peer in (listener, other):
            await peer.call("auth.token", token=token)
        await listener.call("subscribe")
        if end == "token.revoke":
            await ann.call("token.revoke", tokens=[token.split("_")[1]])
        elif end == "auth.logout":
            await other.call("auth.logout")
        else:
            await here.owner.call(end, name="ann")
        await cut_off(listener)
        await cut_off(other)
        assert (await (await here.stranger()).refusal("auth.token", token=token))[0] == "unauthenticated"

    lab(story)


def test_a_link_works_once_and_sets_the_password(lab: Lab) -> None:
    async def story(here: People) -> None:
        await here.owner.call("user.add", name="ann")
        first = (await here.owner.call("user.link", name="ann"))["link"]
        link = (await here.owner.call("user.link", name="ann"))["link"]
        ann = await here.stranger()
        assert (await ann.refusal("auth.redeem", link=first, password=PASSWORD))[0] == "unauthenticated"
        assert (await ann.refusal("auth.redeem", link=link, password=WEAK))[0] == "bad_request"
        assert (await ann.call("auth.redeem", link=link, password=PASSWORD))["user"] == "ann"
        assert (await ann.refusal("auth.redeem", link=link, password=OTHER))[0] == "unauthenticated"
        assert (await (await here.stranger()).call("auth.login", name="ann", password=PASSWORD))["user"] == "ann"

    lab(story)


def test_a_link_can_stand_on_a_command_line_as_it_is(lab: Lab) -> None:
    """One that begins with a dash would be taken for an option."""

    async def story(here: People) -> None:
        await here.owner.call("user.add", name="ann")
        links = [(await here.owner.call("user.link", name="ann"))["link"] for _ in range(20)]
        assert [link for link in links if not link.isalnum()] == []

    lab(story)


def test_who_chooses_a_new_password_with_a_link_ends_the_log_ins_of_whoever_knew_the_old_one(lab: Lab) -> None:
    async def story(here: People) -> None:
        await here.owner.call("user.add", name="ann", password=OTHER)
        thief, ann = await here.stranger(), await here.stranger()
        token = (await thief.call("auth.login", name="ann", password=OTHER))["token"]
        link = (await here.owner.call("user.link", name="ann"))["link"]
        await ann.call("auth.redeem", link=link, password=PASSWORD)
        await cut_off(thief)
        assert (await (await here.stranger()).refusal("auth.token", token=token))[0] == "unauthenticated"
        assert (await ann.call("auth.whoami"))["user"] == "ann"

    lab(story)


def test_ones_own_password_asks_for_the_old_one_and_ends_the_other_log_ins(lab: Lab) -> None:
    async def story(here: People) -> None:
        await here.owner.call("user.add", name="ann", password=PASSWORD)
        ann, elsewhere = await here.stranger(), await here.stranger()
        for peer in (ann, elsewhere):
            await peer.call("auth.login", name="ann", password=PASSWORD)
        assert (await ann.refusal("user.password", password=OTHER))[0] == "unauthenticated"
        assert (await ann.refusal("user.password", password=OTHER, name="bob"))[0] in ("forbidden", "not_found")
        assert await ann.call("user.password", password=OTHER, old=PASSWORD) == {}
        await cut_off(elsewhere)
        assert (await ann.call("auth.whoami"))["user"] == "ann"
        assert (await (await here.stranger()).refusal("auth.login", name="ann", password=PASSWORD))[
            0
        ] == "unauthenticated"

    lab(story)


def test_a_confined_token_does_what_it_is_for_and_makes_no_other(lab: Lab) -> None:
    async def story(here: People) -> None:
        ann = await here.user("ann")
        made = await ann.call("token.new", scopes=["read"], label="the wall")
        reader = await here.stranger()
        await reader.call("auth.token", token=made["token"])
        assert await reader.call("task.list")
        assert (await reader.refusal("task.submit", command="true"))[0] == "forbidden"
        assert (await reader.refusal("token.new"))[0] == "forbidden"
        ending = await ann.call("token.new", expires_at=4e9)
        program = await here.stranger()
        await program.call("auth.token", token=ending["token"])
        assert (await program.refusal("token.new"))[0] == "forbidden"

    lab(story)


def test_nobody_reaches_anothers_tokens_nor_learns_of_them(lab: Lab) -> None:
    async def story(here: People) -> None:
        ann, bob = await here.user("ann"), await here.user("bob")
        [token] = await ann.call("token.list")
        refused = {await bob.refusal("token.revoke", tokens=[number]) for number in (token["id"], "00000000")}
        assert {code for code, _ in refused} == {"not_found"}
        told = {(await bob.refusal("token.list", name=name))[0] for name in ("ann", "nobody")}
        assert told == {"forbidden"}
        for verb, more in (("user.password", {"password": OTHER}), ("token.new", {}), ("token.list", {})):
            said = [await bob.refusal(verb, name=name, **more) for name in ("ann", "nobody")]
            assert said[0] == (said[1][0], said[1][1].replace("nobody", "ann")), verb
        assert (await bob.refusal("token.new", name="ann"))[0] == "forbidden"
        assert (await bob.refusal("user.list"))[0] == "forbidden"

    lab(story)


def test_who_runs_the_master_and_is_no_user_has_an_empty_list_of_tokens(lab: Lab) -> None:
    async def story(here: People) -> None:
        assert await here.owner.call("token.list") == []
        assert (await here.owner.refusal("token.new"))[0] == "bad_request"

    lab(story)


def test_the_same_request_id_of_two_users_is_two_requests(lab: Lab) -> None:
    async def story(here: People) -> None:
        ann, bob = await here.user("ann"), await here.user("bob")
        ids = [
            (await peer.call("task.submit", command="true", hold=True, request_id="x"))["id"]
            for peer in (ann, bob, ann, bob, here.owner)
        ]
        assert ids == [1, 2, 1, 2, 3]

    lab(story)


def test_a_mentor_ends_what_the_group_runs_and_may_not_change_it(lab: Lab) -> None:
    async def story(here: People) -> None:
        ann, bob = await here.user("ann"), await here.user("bob")
        await here.owner.call("group.add", name="vision")
        await here.owner.call("group.edit", name="vision", add=["ann"], add_mentors=["bob"])
        task = (await ann.call("task.submit", command="true", hold=True))["id"]
        assert (await bob.call("auth.whoami"))["groups"] == ["vision"]
        assert (await bob.refusal("task.retry", id=task))[0] == "forbidden"
        assert (await bob.call("task.cancel", ids=[task]))["cancelled"] == [task]
        other = (await bob.call("task.submit", command="true", hold=True))["id"]
        assert other in map(int, (await ann.call("task.cancel", ids=[other]))["refused"])
        await here.owner.call("group.edit", name="vision", remove_mentors=["bob"])
        task = (await ann.call("task.submit", command="true", hold=True))["id"]
        assert (await bob.call("task.cancel", ids=[task]))["cancelled"] == []

    lab(story)


def test_a_cancel_by_name_reaches_ones_own_tasks_alone_even_those_of_a_mentor_and_an_admin(lab: Lab) -> None:
    async def story(here: People) -> None:
        ann, bob = await here.user("ann"), await here.user("bob")
        await here.owner.call("group.add", name="vision")
        await here.owner.call("group.edit", name="vision", add=["ann"], add_mentors=["bob"])
        wish = {"command": "true", "hold": True, "name": "bert"}
        theirs = [(await ann.call("task.submit", **wish))["id"] for _ in range(2)]
        own = (await bob.call("task.submit", **wish))["id"]
        named = {"mine": True, "name": "bert"}
        assert (await here.owner.call("task.cancel", **named))["cancelled"] == []
        answer = await bob.call("task.cancel", **named)
        assert (answer["cancelled"], answer["names"]) == ([own], {str(own): "bert"})
        for which in ({"all": True}, {"ids": theirs}, {}):
            assert (await bob.refusal("task.cancel", name="bert", **which))[0] == "bad_request"
        unnamed = (await bob.call("task.submit", command="true", hold=True))["id"]
        assert (await bob.refusal("task.cancel", mine=True, name=""))[0] == "bad_request"
        assert (await bob.call("task.cancel", ids=[unnamed]))["cancelled"] == [unnamed]
        assert (await ann.call("task.cancel", **named, states=["running"]))["cancelled"] == []
        assert (await ann.call("task.cancel", **named))["cancelled"] == theirs
        gone = await ann.call("task.remove", id=theirs[0])
        assert gone == {"removed": theirs[:1], "names": {str(theirs[0]): "bert"}}

    lab(story)


def test_who_is_added_is_there_after_a_restart_and_so_is_his_log_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with people(tmp_path, monkeypatch) as here:
            await here.owner.call("user.add", name="ann", password=PASSWORD)
            token = (await (await here.stranger()).call("auth.login", name="ann", password=PASSWORD))["token"]
        async with people(tmp_path, monkeypatch) as here:
            assert (await (await here.stranger()).call("auth.token", token=token))["user"] == "ann"
            assert [user["name"] for user in await here.owner.call("user.list")][:1] == ["ann"]

    run(story())


def test_no_secret_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> list[str]:
        async with people(tmp_path, monkeypatch) as here:
            await here.owner.call("user.add", name="ann", password=PASSWORD)
            link = (await here.owner.call("user.link", name="ann"))["link"]
            ann = await here.stranger()
            token: str = (await ann.call("auth.login", name="ann", password=PASSWORD))["token"]
            made: str = (await ann.call("token.new"))["token"]
            return [PASSWORD, link, token.split("_", 2)[2], made.split("_", 2)[2]]

    async def whole() -> None:
        secrets = [text.encode() for text in await story()]
        for path in (tmp_path / "task_info").rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                assert not [secret for secret in secrets if secret in content], path

    run(whole())


def test_who_says_nothing_of_himself_is_cut_off_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            here = People(master, await master.peer(), monkeypatch)
            await here.owner.call("auth.whoami")
            master.limit(handshake_s=0.2)
            stranger = await here.stranger()
            await cut_off(stranger)
            assert (await here.owner.call("auth.whoami"))["role"] == "admin"

    run(story())


def test_a_program_around_the_master_looks_on_and_does_nothing_else(lab: Lab) -> None:
    async def story(here: People) -> None:
        token = (here.master.folder / "task_info" / "services" / "metrics").read_text(encoding="ascii").strip()
        listener, other = await here.master.peer(TASKS), await here.master.peer()
        for peer in (listener, other):
            assert (await peer.call("auth.token", token=token))["via"] == "service"
        assert await listener.call("subscribe")
        assert (await other.call("task.list", limit=1))["total"] == 0
        for verb, params in (("task.submit", {"command": "true"}), ("server.stop", {}), ("file.roots", {})):
            assert (await other.refusal(verb, **params))[0] == "forbidden"
        assert (await other.refusal("auth.token", token=f"{token[:15]}{token[15:].swapcase()}"))[0] == "unauthenticated"

    lab(story)


def test_how_long_others_wait_is_told_to_admins_and_to_the_programs_around_the_master(lab: Lab) -> None:
    stall = Stall(at=1.5, wall=0.5, cpu=0.25, denied=None, garbage=0.0, where="master.engine.engine.Engine._commit")
    measured = LoopTimes(
        since=1.0, turns=3, wall=0.5, cpu=0.3, edges=(0.1,), by_wall=[2, 1], by_cpu=[2, 1], minute_wall=0.5,
        minute_cpu=0.25, longest=[stall],
    )  # fmt: skip

    async def story(here: People) -> None:
        assert "loop" not in await here.owner.call("server.info")  # it is not measured
        here.master.place.measured = measured
        assert (await here.owner.call("server.info"))["loop"] == json.loads(msgspec.json.encode(measured))
        token = (here.master.folder / "task_info" / "services" / "metrics").read_text(encoding="ascii").strip()
        writer = await here.master.peer()
        await writer.call("auth.token", token=token)
        assert (await writer.call("server.info"))["loop"]["longest"][0]["where"] == stall.where
        ann = await here.user("ann")
        assert "loop" not in await ann.call("server.info")

    lab(story)


def test_of_many_who_end_in_a_turn_that_is_old_all_are_cut_off_also_those_who_end_meanwhile(lab: Lab) -> None:
    async def story(here: People) -> None:
        users = [await here.user(name) for name in ("ann", "bob") for _ in range(5)]
        stays = await here.user("cy")
        here.master.port_server.dispatcher.turns.began = lambda: time.monotonic() - 1.0  # one is looked at in each turn
        disable = [here.owner.ask("user.disable", name=name) for name in ("ann", "bob")]
        for user in users:
            await cut_off(user)
        for number in disable:
            assert "error" not in await here.owner.answer(number)
        assert (await stays.call("auth.whoami"))["user"] == "cy"

    lab(story)


class Queue:
    """The loop, as far as it is told whom to hear first."""

    def __init__(self) -> None:
        self.strangers: set[int] = set()
        self.behind = self.strangers.add
        self.before = self.strangers.discard
        self.began = time.monotonic
        self.is_alone = lambda: False


def test_who_has_not_shown_who_he_is_stands_behind_all_others_until_he_does_or_goes(lab: Lab) -> None:
    async def story(here: People) -> None:
        made = await _token(here)
        here.master.port_server.loop = queue = Queue()
        await (await here.master.peer()).call("auth.whoami")  # the kernel knows him
        assert queue.strangers == set()
        ann, other = await here.stranger(), await here.stranger()
        assert len(queue.strangers) == 2
        await ann.call("auth.token", token=made)
        assert len(queue.strangers) == 1
        assert (await other.refusal("task.list"))[0] == "unauthenticated"
        assert len(queue.strangers) == 1
        other.writer.close()
        await settled(lambda: not queue.strangers, "nobody is behind")
        silent = here.master.raw()
        silent.close()
        await settled(lambda: not queue.strangers, "nobody is behind")

    lab(story)


async def _token(here: People) -> str:
    await here.owner.call("user.add", name="ann")
    token: str = (await here.owner.call("token.new", name="ann"))["token"]
    return token


def test_a_log_in_makes_nobody_who_is_there_show_again_who_he_is(lab: Lab) -> None:
    async def story(here: People) -> None:
        ann = await here.user("ann")
        version, seen = here.master.core.people.version, []
        here.master.core.people.listeners.append(lambda: seen.append(1))
        came = await ann.call("auth.login", name="ann", password=PASSWORD)
        assert (here.master.core.people.version, seen) == (version, [])
        await ann.call("token.revoke", tokens=[came["id"]])
        assert seen

    lab(story)
