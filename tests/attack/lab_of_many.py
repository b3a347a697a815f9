"""A master with one of each who may call it, and things of theirs; and the ways in which each may come in.

`vision` is the group of all but bob: its members are vic, ann, amy and gus, mia looks after them and is no member.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from master.callers.peer import Peer as KernelPeer
from master.callers.peer import Person
from master.config.conf_file import DesktopClient as Access
from master.core.people.people import Scope
from master.core.tasks.task import ArrayPlace, Task, TaskState
from master.desktop.clients import DesktopClients
from master.edited_files.ownership import user_name
from master.files import log_search
from master.files.owners import Owners
from master.files.service import Files
from master.ports import local_accounts, port_server
from tests.attack.rules import Caller, Object
from tests.desktop.arrivals import TERMINATOR
from tests.desktop.client import request
from tests.desktop.place import DesktopPlace
from tests.master.in_process import DATA, Peer
from tests.master.verbs.test_people import PASSWORD, People
from tests.waiting import PATIENCE_S, settled

OWNER = user_name(os.geteuid())
NAMES = {"viewer": "vic", "user": "ann", "mentor": "mia", "admin": "amy"}
MEMBER, OUTSIDER = "gus", "bob"
UIDS = {name: uid for uid, name in enumerate(NAMES.values(), 2001)}
ADDRESSES = {f"127.0.0.{last}": name for last, name in enumerate(NAMES.values(), 11)}
FILES = {"data": "all", "data/{user}": "own", "data/groups/{group}": "group"}
SECRET = "what bob found out"  # noqa: S105  (no password: what nobody else should read)
"""Stands in every file and every log."""
FOLDERS = {"group's": ("groups/vision",), "another's": (OUTSIDER, MEMBER, "groups/nlp")}


class LabOfMany:
    """`owner`: a connection of whoever runs the master."""

    def __init__(self, master: DesktopPlace, people: People) -> None:
        self.master = master
        self.people = people
        self.owner = people.owner
        self.desktop: list[DesktopPeer] = []
        self._numbers = itertools.count(1)
        self._holders: dict[str, Task] = {}

    def name(self, caller: Caller) -> str:
        """What he is called."""
        return {"kernel": OWNER, "service": "metrics", "unknown": ""}.get(caller.kind) or NAMES.get(caller.who, "")

    # -- things -----------------------------------------------------------------------------------------------

    def whose(self, caller: Caller, thing: Object) -> str:
        """The name of the user whose the thing is."""
        return {"own": self.name(caller), "group's": MEMBER, "another's": OUTSIDER}[thing]

    def task(self, owner: str) -> int:
        """A new task of this owner's, held, that has written a log in an earlier life."""
        core = self.master.core
        draft = Task(id=0, owner=owner, command="true", cwd="/", state=TaskState.HELD)
        task = self.master.engine.client_change(lambda: core.submit([draft], 1.0)[0])
        log = self.master.folder / "logs" / f"{task.id}.log"
        log.write_text(SECRET, encoding="utf-8")
        task.log_path = str(log)
        return task.id

    def allocation(self, owner: str) -> int:
        """An allocation of this owner's, held for somebody to release the task."""
        core = self.master.core
        name = f"exp-{core.next_id}"
        draft = Task(
            id=0, owner=owner, command="true", cwd="/", state=TaskState.HELD, gpus=1, name=name, is_allocation=True
        )
        return self.master.engine.client_change(lambda: core.submit([draft], 1.0)[0]).id

    def array(self, owner: str) -> int:
        """An array of one such task."""
        core = self.master.core
        place = ArrayPlace(core.next_id, 0)
        draft = Task(id=0, owner=owner, command="true", cwd="/", state=TaskState.HELD, array=place)
        return self.master.engine.client_change(lambda: core.submit_array([draft], 1.0)[0]).id

    def folders(self, caller: Caller, thing: Object) -> list[str]:
        """Where files lie of whose they are."""
        return [f"data/{name}" for name in FOLDERS.get(thing, (self.name(caller),)) if name]

    def file(self, folder: str) -> str:
        """A new file in a folder; its path."""
        path = f"{folder}/x{next(self._numbers)}"
        place = self.master.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(SECRET, encoding="utf-8")
        return path

    async def state(self) -> str:
        """All that a call could change: tasks, people, what gives access, files. No call before changes it any more."""
        core, engine = self.master.core, self.master.engine
        await settled(lambda: engine.is_saved and not core.plan_needed, "what was asked before is planned and saved")
        kept: list[Any] = [
            list(core.tasks.values()),
            list(core.people.users.values()),
            list(core.people.groups.values()),
            sorted(core.people.tokens),
        ]
        files = [line for name in ("data", "envs") for line in _beneath(str(self.master.folder / name))]
        return msgspec.json.encode([kept, files]).decode()

    # -- who comes in -----------------------------------------------------------------------------------------

    async def come_in(self, caller: Caller, port: str = DATA) -> Peer:
        """A connection of his, over JSON-RPC."""
        if caller.kind == "kernel":
            return await self.master.peer(port)
        if caller.kind == "account":
            return await self._by_account(NAMES[caller.who], port)
        peer = await self.people.stranger(port)
        if caller.kind == "password":
            await peer.call("auth.login", name=NAMES[caller.who], password=PASSWORD)
        elif caller.kind != "unknown":
            await peer.call("auth.token", token=await self.token(caller))
        return peer

    async def _by_account(self, name: str, port: str) -> Peer:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(
                port_server, "identify", lambda _sock: KernelPeer("127.0.0.1", is_here=True, uid=UIDS[name])
            )
            patched.setattr(local_accounts, "person", {uid: Person(name) for name, uid in UIDS.items()}.get)
            peer = await self.master.peer(port)
            await peer.call("auth.whoami")
        return peer

    def _holder(self, launch_id: str) -> Task | None:
        return self._holders.get(launch_id)

    async def token(self, caller: Caller) -> str:
        """What he shows."""
        if caller.kind == "service":
            return (self.master.folder / "task_info" / "services" / "metrics").read_text(encoding="ascii").strip()
        name = NAMES[caller.who]
        scopes: list[Scope] | None = None if caller.scopes is None else sorted(caller.scopes)  # type: ignore[arg-type]
        if caller.kind == "token":
            made = await self.owner.call("token.new", name=name, scopes=scopes)
            return str(made["token"])
        # No task of the queue's: what he calls may well end those.
        launch_id = f"{next(self._numbers)}.1.ab"
        self._holders[launch_id] = Task(id=900, owner=name, command="true", token="submit")  # noqa: S106
        self.master.core.token_holder = self._holder
        return self.master.place.task_tokens.make(launch_id)


def _beneath(folder: str) -> Iterator[str]:
    """All that lies beneath it, files with their content. It is looked at before and after each of thousands of calls,
    so no object is made for a path."""
    there: list[os.DirEntry[str]] = []
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        there = sorted(entries, key=lambda entry: entry.name)
    for entry in there:
        if entry.is_file():
            with suppress(FileNotFoundError), open(entry.path, "rb", buffering=0) as file:  # noqa: PTH123
                yield f"{entry.path} {file.read()!r}"
        else:
            yield entry.path
            if entry.is_dir(follow_symlinks=False):
                yield from _beneath(entry.path)


class DesktopPeer:
    """A desktop client's connection to the port that answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def ask(self, mode: str, info: Any = "") -> tuple[str, Any]:
        """Ask; the mode of the reply, and what it says."""
        self.writer.write(request(mode, info))
        return await self.heard()

    async def heard(self) -> tuple[str, Any]:
        """What comes next. Raises IncompleteReadError."""
        frame = await self._reader.readuntil(TERMINATOR.encode())
        value = json.loads(frame.removesuffix(TERMINATOR.encode()))
        return value["mode"], value["info"]

    async def ended(self) -> None:
        """Wait until it was closed from the other side."""
        with suppress(ConnectionResetError):
            await self._reader.read()


async def desktop_peer_of(lab: LabOfMany, who: str, port: str) -> DesktopPeer:
    """One more connection of the desktop client of this one's PC; on ports that tell things it says nothing."""
    address = next(address for address, name in ADDRESSES.items() if name == NAMES[who])
    streams = await asyncio.open_connection(*lab.master.address(port), limit=64 << 20, local_addr=(address, 0))
    peer = DesktopPeer(*streams)
    lab.desktop.append(peer)
    return peer


@asynccontextmanager
async def desktop_peer(lab: LabOfMany, who: str) -> AsyncIterator[DesktopPeer]:
    """A desktop client that asks for things."""
    peer = await desktop_peer_of(lab, who, DATA)
    await peer.ask("get_root")
    yield peer


@asynccontextmanager
async def lab_of_many(folder: Path, monkeypatch: pytest.MonkeyPatch, *, users: bool = True) -> AsyncIterator[LabOfMany]:
    """Run it, with all of them or before there are `users`. Nothing is too often."""
    async with DesktopPlace(folder) as master:
        place = master.place
        place.config = msgspec.structs.replace(place.config, local_users="same name")
        place.files = Files(folder, ("data", "envs"), book=folder / "drafts.json", owners=Owners(FILES))  # type: ignore[arg-type]
        access_of = Access(networks=("127.0.0.0/8",), users=ADDRESSES)
        master.port_server.desktop = DesktopClients(master.port_server.dispatcher, access_of)
        monkeypatch.setattr(master.port_server.dispatcher.rates, "check", lambda _kind, _who: None)
        monkeypatch.setattr(log_search, "STEP_S", PATIENCE_S)
        lab = LabOfMany(master, People(master, await master.peer(), monkeypatch))
        if users:
            await _add_all(lab)
        try:
            yield lab
        finally:
            for peer in lab.desktop:
                peer.writer.close()
                with suppress(ConnectionError):
                    await peer.writer.wait_closed()


async def _add_all(lab: LabOfMany) -> None:
    lab.task(OWNER)  # who owned tasks before is a user from then on
    roles = {name: "user" if who == "mentor" else who for who, name in NAMES.items()}
    for name, role in {**roles, MEMBER: "user", OUTSIDER: "user"}.items():
        await lab.owner.call("user.add", name=name, role=role, password=PASSWORD)
    for group in ("vision", "nlp"):
        await lab.owner.call("group.add", name=group)
    await lab.owner.call("group.edit", name="vision", add=["vic", "ann", "amy", MEMBER], add_mentors=["mia"])
    await lab.owner.call("group.edit", name="nlp", add=[OUTSIDER])
