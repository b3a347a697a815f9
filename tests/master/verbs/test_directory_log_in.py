"""Logging in where the lab has a directory: a real OpenLDAP server, which the dispatcher asks."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from master.config.conf_file import Ldap
from master.config.settings import Caps
from master.people.directory import Directory
from tests.certificates import authority, made
from tests.master.people.slapd import BIND, Slapd
from tests.master.verbs.test_people import OTHER, PASSWORD, Lab, People, lab
from tests.waiting import settled
from wire.errors import LimitError
from wire.message import Message

__all__ = ["lab"]
DIRECTORYS = "otter-kettle-purple"
MOST_A_MINUTE = Caps().failed_logins_per_minute


@pytest.fixture(scope="module")
def slapd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    ca = authority()
    folder = tmp_path_factory.mktemp("slapd")
    server = Slapd(folder, dict.fromkeys(("ann", "bob", "cy"), DIRECTORYS), made("directory", ca, ["127.0.0.1"]), ca)
    server.start()
    try:
        yield server
    finally:
        server.stop()


class Asked(Directory):
    """A directory that remembers for whom it was asked, and how many of these questions have ended."""

    names: list[str]
    ended = 0

    async def check(self, name: str, password: str) -> bool:
        self.names.append(name)
        try:
            return await super().check(name, password)
        finally:
            self.ended += 1


def with_directory(
    lab: Lab, url: str, ca: Path, story: Callable[[People, Asked], Awaitable[None]], kind: type[Asked] = Asked
) -> None:
    async def told(here: People) -> None:
        directory = kind(Ldap(url, BIND), ca, Path("conf.json"))
        directory.names = []
        here.master.place.directory = directory
        for name in ("ann", "bob"):
            await here.owner.call("user.add", name=name, password=PASSWORD if name == "bob" else None)
        try:
            await story(here, directory)
        finally:
            directory.close()

    lab(told)


def test_who_has_no_password_here_comes_in_with_the_directorys_and_nobody_else_does(lab: Lab, slapd: Slapd) -> None:
    async def story(here: People, directory: Asked) -> None:
        stranger = await here.stranger()
        for name, password in (("ann", OTHER), ("ann", ""), ("bob", DIRECTORYS), ("bob", OTHER), ("cy", DIRECTORYS)):
            assert (await stranger.refusal("auth.login", name=name, password=password))[0] == "unauthenticated"
        assert (await stranger.call("auth.whoami"))["user"] is None
        assert (await stranger.call("auth.login", name="ann", password=DIRECTORYS))["user"] == "ann"
        assert (await (await here.stranger()).call("auth.login", name="bob", password=PASSWORD))["user"] == "bob"
        assert directory.names == ["ann", "ann", "bob", "bob", "cy", "ann"]  # and not for the right one of who has one
        await here.owner.call("user.disable", name="ann")
        refused = await (await here.stranger()).refusal("auth.login", name="ann", password=DIRECTORYS)
        assert refused[0] == "unauthenticated"

    with_directory(lab, slapd.ldaps, slapd.ca, story)


def test_a_directory_that_is_silent_tells_nobody_who_has_a_password_here(lab: Lab, slapd: Slapd) -> None:
    async def story(here: People, directory: Asked) -> None:
        stranger = await here.stranger()
        names = ["ann", "bob", "cy", "nobody"]
        told = {await stranger.refusal("auth.login", name=name, password=OTHER) for name in names}
        assert len(told) == 1
        assert directory.names == names
        assert (await stranger.call("auth.login", name="bob", password=PASSWORD))["user"] == "bob"

    with_directory(lab, "ldaps://127.0.0.1:1", slapd.ca, story)


class Failing(Asked):
    """One that cannot be asked, for a reason that nobody thought of."""

    why: Callable[[], Exception] = RuntimeError

    async def check(self, name: str, password: str) -> bool:
        self.names.append(f"{name}: {password}")
        raise self.why()


class Full(Failing):
    """One that is asked by too many."""

    why = partial(LimitError, Message("log_ins_busy", seconds=1))


@pytest.mark.parametrize("kind", [Failing, Full])
def test_a_guess_counts_though_the_directory_cannot_be_asked(lab: Lab, slapd: Slapd, kind: type[Asked]) -> None:
    async def story(here: People, _directory: Asked) -> None:
        stranger = await here.stranger()
        for name in ("ann", "bob", "nobody"):
            told = [await stranger.told("auth.login", name=name, password=OTHER) for _ in range(MOST_A_MINUTE + 1)]
            assert [message.key == "log_ins_failed" for _, message in told] == [False] * MOST_A_MINUTE + [True]

    with_directory(lab, slapd.ldaps, slapd.ca, story, kind)


def test_a_guess_counts_though_who_made_it_leaves_while_the_directory_is_asked(lab: Lab, slapd: Slapd) -> None:
    async def story(here: People, directory: Asked) -> None:
        for name in ("ann", "bob", "nobody"):
            for _ in range(MOST_A_MINUTE):
                before = len(directory.names)
                stranger = await here.stranger()
                stranger.ask("auth.login", name=name, password=OTHER)
                await settled(lambda asked=before: len(directory.names) > asked)  # type: ignore[misc]
                stranger.writer.transport.abort()
                await settled(lambda: directory.ended == len(directory.names))
            _, refused = await (await here.stranger()).told("auth.login", name=name, password=OTHER)
            assert refused.key == "log_ins_failed"

    with socket.create_server(("127.0.0.1", 0)) as silent:
        with_directory(lab, f"ldaps://127.0.0.1:{silent.getsockname()[1]}", slapd.ca, story)
