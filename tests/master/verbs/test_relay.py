"""The console calls for whoever sits before it: by its own word for nobody, from whose address, and for how long."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from master.config.settings import Caps
from master.people.guesses import ADDRESS_FACTOR
from master.verbs.auth import IDLE_S
from tests.master.in_process import InProcess, Peer, run
from tests.master.verbs.test_people import PASSWORD, cut_off

FROM = {"from": "10.0.0.7"}
Story = Callable[[InProcess, Peer], Awaitable[None]]


@asynccontextmanager
async def lab(folder: Path) -> AsyncIterator[tuple[InProcess, Peer]]:
    async with InProcess(folder) as master:
        owner = await master.peer()
        await owner.call("user.add", name="ann", role="admin", password=PASSWORD)
        yield master, owner


async def console(master: InProcess) -> Peer:
    """A connection of the console's."""
    peer = await master.peer()
    token = (master.folder / "task_info" / "services" / "web").read_text(encoding="ascii").strip()
    assert (await peer.call("auth.token", token=token))["user"] == "web"
    return peer


async def before(master: InProcess) -> Peer:
    """Somebody who sits before the console, and has not said who he is."""
    peer = await console(master)
    await peer.call("auth.relay", **FROM)
    return peer


def told(folder: Path, story: Story) -> None:
    async def whole() -> None:
        async with lab(folder) as (master, owner):
            await story(master, owner)

    run(whole())


def test_the_console_itself_looks_on_and_may_nothing_that_its_account_may(tmp_path: Path) -> None:
    async def story(master: InProcess, _owner: Peer) -> None:
        peer = await console(master)
        assert (await peer.call("server.info"))["privacy"] == "open"
        for verb in ("task.list", "user.list", "server.stop", "file.roots"):
            assert (await peer.refusal(verb))[0] == "forbidden"

    told(tmp_path, story)


def test_only_the_console_calls_for_others_and_of_an_address(tmp_path: Path) -> None:
    async def story(master: InProcess, owner: Peer) -> None:
        assert (await owner.refusal("auth.relay", **FROM))[0] == "forbidden"
        peer = await console(master)
        assert (await peer.refusal("auth.relay", **{"from": "not an address"}))[0] == "bad_request"
        await peer.call("auth.relay", **FROM)
        assert (await peer.refusal("auth.relay", **FROM))[0] == "forbidden"

    told(tmp_path, story)


def test_who_has_not_said_who_he_is_may_nothing_and_is_not_cut_off_by_what_others_do(tmp_path: Path) -> None:
    async def story(master: InProcess, owner: Peer) -> None:
        peer = await before(master)
        assert (await peer.refusal("task.list"))[0] == "unauthenticated"
        await owner.call("user.add", name="bob")  # whoever is nobody is cut off now
        made = await peer.call("auth.login", name="ann", password=PASSWORD)
        assert (await peer.call("auth.whoami"))["user"] == "ann"
        [session] = [one for one in await peer.call("token.list") if one["id"] == made["id"]]
        assert (session["from"], session["kind"]) == ("10.0.0.7", "session")

    told(tmp_path, story)


def test_what_one_account_of_this_machine_fails_at_before_the_console_keeps_no_other_out(tmp_path: Path) -> None:
    async def story(master: InProcess, _owner: Peer) -> None:
        async def from_account(uid: int | None) -> Peer:
            peer = await console(master)
            await peer.call("auth.relay", **{"from": "127.0.0.1"}, **({} if uid is None else {"account": uid}))
            return peer

        for number in range(ADDRESS_FACTOR):
            for _ in range(Caps().failed_logins_per_minute):
                await (await from_account(4301)).refusal("auth.login", name=f"nobody{number}", password=PASSWORD)
        assert (await (await from_account(4301)).refusal("auth.login", name="ann", password=PASSWORD))[0] == "limit"
        for uid in (4302, 0, None):
            assert (await (await from_account(uid)).call("auth.login", name="ann", password=PASSWORD))["user"] == "ann"

    told(tmp_path, story)


def test_a_program_beside_the_master_is_none_before_the_console(tmp_path: Path) -> None:
    async def story(master: InProcess, _owner: Peer) -> None:
        for name in ("web", "metrics"):
            secret = (master.folder / "task_info" / "services" / name).read_text(encoding="ascii").strip()
            assert (await (await before(master)).refusal("auth.token", token=secret))[0] == "unauthenticated"

    told(tmp_path, story)


def test_a_browsers_log_in_ends_when_nobody_used_it_for_half_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(master: InProcess, _owner: Peer) -> None:
        made = await (await before(master)).call("auth.login", name="ann", password=PASSWORD)
        kept = await (await master.peer()).call("auth.login", name="ann", password=PASSWORD)
        began = time.time()
        monkeypatch.setattr(time, "time", lambda: began + IDLE_S - 60)
        assert (await (await before(master)).call("auth.token", token=made["token"]))["user"] == "ann"
        monkeypatch.setattr(time, "time", lambda: began + 2 * IDLE_S - 120)
        watching = await before(master)
        assert (await watching.call("auth.token", token=made["token"]))["user"] == "ann"
        monkeypatch.setattr(time, "time", lambda: began + 4 * IDLE_S)
        watching.ask("task.list")
        await cut_off(watching)
        assert (await (await before(master)).refusal("auth.token", token=made["token"]))[0] == "unauthenticated"
        assert (await (await master.peer()).call("auth.token", token=kept["token"]))["user"] == "ann"

    told(tmp_path, story)


def test_a_screen_on_a_wall_stays_though_nobody_touches_it_as_long_as_its_token_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(master: InProcess, owner: Peer) -> None:
        token = await owner.call("token.new", name="ann", scopes=["wall"])
        peer = await before(master)
        await peer.call("auth.token", token=token["token"])
        made = await peer.call("auth.session", label="a screen")
        began = time.time()
        monkeypatch.setattr(time, "time", lambda: began + 390 * 86400.0)
        assert (await (await before(master)).call("auth.token", token=made["token"]))["scopes"] == ["wall"]
        await owner.call("token.revoke", tokens=[token["id"]])
        assert (await (await before(master)).refusal("auth.token", token=made["token"]))[0] == "unauthenticated"

    told(tmp_path, story)


def test_what_a_browser_makes_of_a_token_is_confined_like_it_and_ends_with_it(tmp_path: Path) -> None:
    async def story(master: InProcess, owner: Peer) -> None:
        expires_at = time.time() + 1000
        token = await owner.call("token.new", name="ann", scopes=["read"], expires_at=expires_at)
        peer = await before(master)
        await peer.call("auth.token", token=token["token"])
        made = await peer.call("auth.session", label="a browser")
        assert made["until"] == expires_at
        assert (await peer.refusal("auth.session"))[0] == "conflict"  # nothing is made of what was made of a token
        watching = await before(master)
        assert (await watching.call("auth.token", token=made["token"]))["scopes"] == ["read"]
        assert (await watching.refusal("token.new"))[0] == "forbidden"
        await owner.call("token.revoke", tokens=[token["id"]])
        await cut_off(watching)
        assert made["id"] not in master.core.people.tokens

    told(tmp_path, story)


def test_of_what_nobody_showed_the_console_nothing_is_made(tmp_path: Path) -> None:
    async def story(master: InProcess, owner: Peer) -> None:
        assert (await owner.refusal("auth.session"))[0] == "conflict"
        assert (await (await before(master)).refusal("auth.session"))[0] == "conflict"

    told(tmp_path, story)
