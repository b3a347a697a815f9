"""A refusal tells nobody whether there is a user, nor whether a password is kept here or in the lab's directory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from master.verbs import auth
from tests.master.people.slapd import Slapd
from tests.master.verbs.test_directory_log_in import DIRECTORYS, Asked, slapd, with_directory
from tests.master.verbs.test_people import OTHER, PASSWORD, Lab, People, lab

__all__ = ["lab", "slapd"]
NAMES = ("ann", "bob", "cy", "nobody")
"""A user of the directory; one with a password here, whom the directory does not know; one of the directory who is no
user; nobody."""
SILENT = "ldaps://127.0.0.1:1"


class Clock:
    """The loop's, as far as a log-in asks it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def time(self) -> float:
        """In seconds."""
        return self.now


@pytest.mark.parametrize("url", ["answers", "silent"])
def test_with_a_directory_each_refusal_waits_for_one_of_few_moments_whoever_is_named(
    lab: Lab, slapd: Slapd, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    took = iter((0.0, 0.125, 0.625, 3.25))  # seconds by the clock below, which stands still in between
    clock = Clock()
    waits: list[float] = []
    ends: list[float] = []
    real = auth._confirm

    async def confirm(*words: object) -> None:
        began = clock.now
        try:
            await real(*words)  # type: ignore[arg-type]
        finally:
            clock.now += next(took)
            ends.append(clock.now - began)

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(auth, "_confirm", confirm)
    monkeypatch.setattr(auth, "sleep", wait)
    monkeypatch.setattr(auth, "asyncio", SimpleNamespace(get_running_loop=lambda: clock))

    async def story(here: People, directory: Asked) -> None:
        for name in NAMES:
            await (await here.stranger()).refusal("auth.login", name=name, password=OTHER)
        assert directory.names == list(NAMES), "the same work for each"
        assert len(waits) == len(NAMES), "the same wait for each"
        moments = [(end + wait) / auth.REFUSED_S for end, wait in zip(ends, waits, strict=True)]
        assert moments == [1, 1, 2, 7]

    with_directory(lab, slapd.ldaps if url == "answers" else SILENT, slapd.ca, story)


def test_who_is_right_does_not_wait(lab: Lab, slapd: Slapd, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_seconds: float) -> None:
        raise AssertionError

    monkeypatch.setattr(auth, "sleep", never)

    async def story(here: People, _directory: Asked) -> None:
        for name, password in (("ann", DIRECTORYS), ("bob", PASSWORD)):
            assert (await (await here.stranger()).call("auth.login", name=name, password=password))["user"] == name

    with_directory(lab, slapd.ldaps, slapd.ca, story)


def test_while_the_directory_is_down_nobody_guesses_without_end(
    lab: Lab, slapd: Slapd, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(_seconds: float) -> None:
        return

    monkeypatch.setattr(auth, "sleep", at_once, raising=False)

    async def story(here: People, _directory: Asked) -> None:
        found = set()
        for name in NAMES:
            stranger = await here.stranger()
            told = [(await stranger.refusal("auth.login", name=name, password=OTHER))[0] for _ in range(6)]
            found.add(tuple(told))
        assert len(found) == 1
        assert next(iter(found))[-1] == "limit"

    with_directory(lab, SILENT, slapd.ca, story)


def test_a_user_who_sets_anothers_password_is_told_alike_whether_there_is_one(lab: Lab) -> None:
    async def story(here: People) -> None:
        await here.user("ann")
        bob = await here.user("bob")
        viewer = await here.user("vi", role="viewer")
        made = await here.owner.call("token.new", name="bob", scopes=["account"])
        confined = await here.stranger()
        await confined.call("auth.token", token=made["token"])
        calls: list[tuple[str, dict[str, Any]]] = [
            *(("user.password", {"password": password}) for password in (OTHER, "short", None)),
            ("user.password", {"password": OTHER, "old": ""}),
            ("token.list", {}),
            ("token.new", {}),
            ("token.revoke", {"all": True}),
        ]
        for peer in (bob, viewer, confined):
            for verb, params in calls:
                told = [await peer.refusal(verb, name=name, **params) for name in ("ann", "ghost")]
                assert told[0] == (told[1][0], told[1][1].replace("ghost", "ann")), verb

    lab(story)
