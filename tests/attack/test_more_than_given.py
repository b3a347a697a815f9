"""Somebody who may do little tries to make more of it: with a confined token, another's task, by guessing, by coming in
many times."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path
from typing import Any

import msgspec
import pytest

from master.callers import peer as peer_of
from master.callers.peer import Peer as KernelPeer
from master.core.people.people import Scope
from master.people import passwords
from master.ports import port_server
from master.verbs.access import whence_of
from tests.master.in_process import DATA, LIMITS, InProcess, Peer, run
from tests.master.verbs.test_people import OTHER, PASSWORD, Lab, People, cut_off, lab, people

__all__ = ["lab"]

WRONG = "mst_{}_" + "A" * 43


async def confined(here: People, name: str, *scopes: Scope, role: Any = "user", **keys: Any) -> Peer:
    """A connection with a token of this user's that is confined."""
    if here.master.core.people.named(name) is None:
        await here.owner.call("user.add", name=name, role=role)
    made = await here.owner.call("token.new", name=name, scopes=list(scopes) or None, **keys)
    peer = await here.stranger()
    await peer.call("auth.token", token=made["token"])
    return peer


async def local(here: People, uid: int, address: str = "127.0.0.1") -> Peer:
    """Another account of the master's machine."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(port_server, "identify", lambda _sock: KernelPeer(address, is_here=True, uid=uid))
        found = await here.master.peer(DATA)
        await found.call("auth.whoami")
    return found


# -- tokens that are confined -----------------------------------------------------------------------------------------


def test_an_admins_token_for_his_account_reaches_nobody_elses(lab: Lab) -> None:
    async def story(here: People) -> None:
        await here.user("ann")
        [token] = await here.owner.call("token.list", name="ann")
        thief = await confined(here, "amy", "account", role="admin")
        for verb, params in (
            ("user.password", {"name": "ann", "password": OTHER}),
            ("token.list", {"name": "ann"}),
            ("token.list", {"all": True}),
            ("token.new", {"name": "ann"}),
            ("token.revoke", {"name": "ann", "all": True}),
        ):
            assert (await thief.refusal(verb, **params))[0] == "forbidden", verb
        assert (await thief.refusal("token.revoke", tokens=[token["id"]]))[0] == "not_found"
        assert here.master.core.people.find("ann").password != ""
        stranger = await here.stranger()
        assert (await stranger.refusal("auth.login", name="ann", password=OTHER))[0] == "unauthenticated"

    lab(story)


@pytest.mark.parametrize("scopes", [["account"], []])
def test_a_token_that_is_confined_or_ends_is_made_no_password(lab: Lab, scopes: list[Scope]) -> None:
    async def story(here: People) -> None:
        thief = await confined(here, "ann", *scopes, **({} if scopes else {"expires_at": 4e9}))
        assert (await thief.refusal("user.password", password=PASSWORD))[0] == "forbidden"
        assert here.master.core.people.find("ann").password == ""

    lab(story)


# -- what others have -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["user", "admin"])
@pytest.mark.parametrize(
    "changes",
    [
        {"command": "muster users add mia --admin"},
        {"setup": "evil"},
        {"env": "evil"},
        {"cwd": "/srv"},
        {"variables": {"LD_PRELOAD": "/srv/evil.so"}},
        {"log": "/srv/evil"},
        {"priority": 1, "command": "evil"},
    ],
    ids="+".join,
)
def test_a_mentor_says_not_what_runs_with_the_rights_of_a_member(lab: Lab, role: Any, changes: dict[str, Any]) -> None:
    async def story(here: People) -> None:
        ann, mia = await here.user("ann", role), await here.user("mia")
        await here.owner.call("group.add", name="vision")
        await here.owner.call("group.edit", name="vision", add=["ann"], add_mentors=["mia"])
        task = (await ann.call("task.submit", command="true", hold=True))["id"]
        before = msgspec.json.encode(here.master.core.tasks[task])
        assert (await mia.refusal("task.edit", id=task, changes=changes))[0] == "forbidden"
        assert msgspec.json.encode(here.master.core.tasks[task]) == before
        assert (await mia.call("task.edit", id=task, changes={"priority": 2}))["priority"] == 2
        await ann.call("task.cancel", ids=[task])
        assert (await mia.refusal("task.edit", id=task, changes={"priority": 3}))[0] == "forbidden"

    lab(story)


# -- guessing ---------------------------------------------------------------------------------------------------------


def test_an_account_of_this_machine_is_the_same_guesser_from_each_of_its_addresses(lab: Lab) -> None:
    async def story(here: People) -> None:
        await here.owner.call("user.add", name="ann", password=PASSWORD)
        codes = []
        for last in range(1, 8):
            peer = await local(here, 1001, f"127.0.{last}.1")
            codes.append((await peer.refusal("auth.login", name="ann", password=OTHER))[0])
        assert codes == [*["unauthenticated"] * 5, "limit", "limit"]
        other = await local(here, 1002)
        assert (await other.call("auth.login", name="ann", password=PASSWORD))["user"] == "ann"

    lab(story)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (KernelPeer("2001:db8:1:2::7"), KernelPeer("2001:db8:1:2:ffff::1"), True),
        (KernelPeer("2001:db8:1:2::7"), KernelPeer("2001:db8:1:3::7"), False),
        (KernelPeer("127.0.0.1", is_here=True, uid=1001), KernelPeer("127.9.9.9", is_here=True, uid=1001), True),
        (KernelPeer("127.0.0.1", is_here=True, uid=1001), KernelPeer("10.0.0.1", is_here=True, uid=1001), True),
        (KernelPeer("127.0.0.1", is_here=True, uid=1001), KernelPeer("127.0.0.1", is_here=True, uid=1002), False),
        (KernelPeer("127.0.0.1", is_here=True), KernelPeer("127.0.0.2", is_here=True), True),
    ],
)
def test_who_may_come_from_many_places_is_counted_as_one(one: KernelPeer, other: KernelPeer, *, same: bool) -> None:
    assert (whence_of(one) == whence_of(other)) is same


def test_nobody_keeps_the_programs_of_others_out_by_showing_wrong_tokens(lab: Lab) -> None:
    async def story(here: People) -> None:
        await here.owner.call("user.add", name="ann")
        made = await here.owner.call("token.new", name="ann")
        thief = await here.stranger()
        codes = [
            (await thief.refusal("auth.token", token=WRONG.format(number if number < 51 else made["id"])))[0]
            for number in range(60)
        ]
        assert codes[:50] == ["unauthenticated"] * 50
        assert codes[-1] == "limit"
        program = await here.stranger()
        assert (await program.call("auth.token", token=made["token"]))["user"] == "ann"

    lab(story)


def test_guesses_over_many_connections_and_all_at_once_are_as_few(lab: Lab) -> None:
    async def story(here: People) -> None:
        await here.owner.call("user.add", name="ann", password=PASSWORD)
        peers = [await here.stranger() for _ in range(4)]
        for peer in peers:
            for _ in range(5):
                peer.ask("auth.login", name="ann", password=OTHER)
        codes = [(await peer.read())["error"]["data"]["code"] for peer in peers for _ in range(5)]
        assert (codes.count("unauthenticated"), codes.count("limit")) == (5, 15)

    lab(story)


def test_the_old_password_is_guarded_as_the_one_of_a_log_in(lab: Lab) -> None:
    async def story(here: People) -> None:
        ann = await here.user("ann")
        codes = [(await ann.refusal("user.password", password=OTHER, old=OTHER))[0] for _ in range(6)]
        assert codes == [*["unauthenticated"] * 5, "limit"]
        assert (await ann.refusal("user.password", password=OTHER, old=PASSWORD))[0] == "limit"

    lab(story)


def test_guessed_links_keep_no_user_out(lab: Lab) -> None:
    async def story(here: People) -> None:
        await here.owner.call("user.add", name="link", password=PASSWORD)
        thief = await here.stranger()
        codes = [(await thief.refusal("auth.redeem", link=f"x{n}", password=OTHER))[0] for n in range(6)]
        assert codes == [*["unauthenticated"] * 5, "limit"]
        assert (await thief.call("auth.login", name="link", password=PASSWORD))["user"] == "link"

    lab(story)


@pytest.mark.parametrize("name", ["nobody", "off", "link", "owner"])
def test_every_name_costs_one_hash_whoever_has_it(lab: Lab, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    async def story(here: People) -> None:
        await here.owner.call("task.submit", command="true", hold=True)
        here.master.core.tasks[1].owner = "owner"
        for user in ("off", "link"):
            await here.owner.call("user.add", name=user, password=PASSWORD if user == "off" else None)
        await here.owner.call("user.disable", name="off")
        hashed: list[str] = []

        def fits(secret: bytes, phc: str) -> bool:
            hashed.append(phc)
            return real(secret, phc)

        real = passwords.fits
        monkeypatch.setattr(passwords, "fits", fits)
        stranger = await here.stranger()
        assert (await stranger.refusal("auth.login", name=name, password=PASSWORD))[0] == "unauthenticated"
        assert len(hashed) == 1

    lab(story)


# -- passwords and names that are none --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "password", ["x" * (60 << 10), "x" * 4096, "gull\0kettle orchard", "", "\x1b[2J", "e\u0301" * 2000]
)
def test_a_password_that_is_none_is_refused_and_not_told(lab: Lab, password: str) -> None:
    async def story(here: People) -> None:
        await here.owner.call("user.add", name="ann", password=PASSWORD)
        stranger = await here.stranger()
        code, said = await stranger.refusal("auth.login", name="ann", password=password)
        assert code in ("unauthenticated", "bad_request")
        assert not password or password[:20] not in said
        assert len(said) < 300

    lab(story)


def test_half_of_a_character_in_a_password_is_no_frame_and_breaks_nothing(lab: Lab) -> None:
    async def story(here: People) -> None:
        stranger = await here.stranger()
        stranger.send(
            b'{"jsonrpc":"2.0","id":9,"method":"auth.login","params":{"name":"ann","password":"\\ud800 gull"}}\n'
        )
        answer = await stranger.read()
        assert "gull" not in str(answer)
        assert answer["error"]["data"]["code"] != "internal"
        assert (await stranger.call("auth.whoami"))["user"] is None

    lab(story)


def test_one_password_is_the_same_however_its_characters_are_composed(lab: Lab) -> None:
    async def story(here: People) -> None:
        await here.owner.call("user.add", name="ann", password="caf\u00e9 gull kettle")  # noqa: S106
        stranger = await here.stranger()
        assert (await stranger.call("auth.login", name="ann", password="cafe\u0301 gull kettle"))["user"] == "ann"  # noqa: S106

    lab(story)


@pytest.mark.parametrize("name", ["Ann", "ANN", "ann ", " ann", "ann\0", "\u0430nn", "ann\x1b[2J", "../ann", "a" * 33])
def test_no_name_is_taken_for_another_and_none_can_be_made_that_looks_so(lab: Lab, name: str) -> None:
    async def story(here: People) -> None:
        await here.owner.call("user.add", name="ann", password=PASSWORD)
        assert (await here.owner.refusal("user.add", name=name))[0] == "bad_request"
        stranger = await here.stranger()
        assert (await stranger.refusal("auth.login", name=name, password=PASSWORD))[0] == "unauthenticated"

    lab(story)


# -- what is written down ---------------------------------------------------------------------------------------------


def test_a_token_that_is_pasted_where_its_id_belongs_is_not_in_the_audit_log(lab: Lab) -> None:
    async def story(here: People) -> None:
        made = await here.owner.call("token.new", name=(await here.owner.call("user.add", name="ann"))["name"])
        secret = made["token"].split("_", 2)[2]
        await here.owner.refusal("token.revoke", tokens=[made["token"]])
        await here.owner.refusal("user.link", name=made["token"][:64])
        await here.owner.refusal("auth.login", name=made["token"][:64], password=PASSWORD)
        page = await here.owner.call("audit.read")
        assert any(entry["verb"] == "token.revoke" for entry in page["entries"])
        written = (here.master.folder / "task_info" / "audit" / "audit.jsonl").read_text(encoding="utf-8")
        assert secret[:20] not in written + str(page)

    lab(story)


# -- the kernel's word ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uid", [0, 1, 999, 65534, 65535])
def test_no_account_of_the_system_is_a_person(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    monkeypatch.setattr(pwd, "getpwuid", lambda _uid: pwd.struct_passwd(("ann", "x", uid, 4712, "", "/", "/bin/sh")))
    monkeypatch.setattr(os, "getgrouplist", lambda _name, gid: [gid])
    assert peer_of.person(uid).name == ""
    assert peer_of.person(4713).name == "ann"


@pytest.mark.parametrize(
    ("uid", "group", "key"),
    [
        (999, "users", "account_of_the_system"),
        (4713, "docker", "account_could_be_anybody"),
        (4711, "users", ""),
        (65534, "users", ""),
    ],
)
def test_an_account_that_is_no_proof_is_told_why_unless_it_is_nobodys_or_the_masters(
    monkeypatch: pytest.MonkeyPatch, uid: int, group: str, key: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    monkeypatch.setattr(pwd, "getpwuid", lambda _uid: pwd.struct_passwd(("ann", "x", uid, 4712, "", "/", "/bin/sh")))
    monkeypatch.setattr(os, "getgrouplist", lambda _name, gid: [gid])
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group((group, "x", gid, [])))
    found = peer_of.person(uid)
    assert (found.name, "" if found.refused is None else found.refused.key) == ("", key)


# -- coming in many times ---------------------------------------------------------------------------------------------


def test_who_says_not_who_he_is_takes_no_place_of_those_who_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = msgspec.structs.replace(LIMITS, connections_unidentified=4, connections_per_user=3)

    async def story() -> None:
        async with InProcess(tmp_path, limits=limits) as master:
            here = People(master, await master.peer(), monkeypatch)
            await here.owner.call("user.add", name="ann", password=PASSWORD)
            first = await here.stranger()
            crowd = [await here.stranger() for _ in range(6)]
            await cut_off(first)
            ann = await here.stranger()
            assert (await ann.call("auth.login", name="ann", password=PASSWORD))["user"] == "ann"
            crowd += [await here.stranger() for _ in range(6)]
            assert (await ann.call("auth.whoami"))["user"] == "ann"
            await (await here.stranger()).call("auth.login", name="ann", password=PASSWORD)
            await (await here.stranger()).call("auth.login", name="ann", password=PASSWORD)
            late = await here.stranger()
            late.ask("auth.login", name="ann", password=PASSWORD)
            told = (await late.read())["error"]["data"]
            assert (told["code"], told["key"]) == ("limit", "no_more_of_this_user")
            await cut_off(late)

    run(story())


def test_the_frame_of_who_is_nobody_has_an_end_until_he_is_somebody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with people(tmp_path, monkeypatch) as here:
            await here.owner.call("user.add", name="ann", password=PASSWORD)
            stranger, ann = await here.stranger(), await here.stranger()
            stranger.send(b'{"jsonrpc": "2.0", "id": 1, "method": "' + b"a" * (70 << 10))
            assert (await stranger.read())["error"]["data"]["code"] == "protocol"
            await cut_off(stranger)
            await ann.call("auth.login", name="ann", password=PASSWORD)
            assert (await ann.call("task.submit", command="true", hold=True, variables={"X": "a" * (70 << 10)}))["id"]

    run(story())
