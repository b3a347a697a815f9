"""Each key of `scheduler` and `limits` takes effect while the master runs: what comes after a change meets the new
value, and what was there before goes on as it was."""

from __future__ import annotations

import base64
import re
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from master.app import launch_settings
from master.callers.peer import Peer as KernelPeer
from master.config.conf_file import ConfFile
from master.config.config import config_of
from master.config.settings import ROWS, SECTIONS
from master.core.attempts.launching import LaunchSettings
from master.core.core import Core
from master.core.effects import SeekCheckpoint
from master.core.nodes.inventory import NodeState
from master.ports import port_server
from tests.faults import says
from tests.master.core.planning.test_elastic import FOUR, effects, small_one_that_runs
from tests.master.core.small_core import core_with, launch_of, submit
from tests.master.core.small_core import run as run_task
from tests.master.drivers.report_story import Reporting
from tests.master.in_process import InProcess, Peer, eof, run
from tests.master.ports.test_connection_counts import Guest
from tests.master.verbs.test_people import People
from tests.trees import ROOT
from tests.waiting import settled

KIB, MIB = 1 << 10, 1 << 20


class Here(People):
    """A running master, its owner, and others."""

    async def set(self, name: str, value: float) -> None:
        """As an admin does it."""
        told = await self.owner.call("setting.set", name=name, value=value)
        assert told["value"] == value

    async def long_request(self, peer: Peer, size: int) -> str:
        """Ask for something with so many bytes; how it went."""
        padded = b'{"jsonrpc":"2.0","id":1,"method":"auth.whoami"' + b" " * size + b"}\n"
        peer.send(padded)
        return await _outcome(peer)

    async def come(self) -> Peer:
        """Somebody at another machine, who has said nothing; they may be refused."""
        with pytest.MonkeyPatch.context() as patched:
            seen: list[socket.socket] = []

            def identify(sock: socket.socket) -> KernelPeer:
                seen.append(sock)
                return KernelPeer("10.0.0.8")

            patched.setattr(port_server, "identify", identify)
            patched.setattr("master.ports.connection.is_loopback", lambda _address: True)
            peer = await self.master.peer()
            await settled(lambda: bool(seen))
        return peer

    async def log_in(self, password: str) -> str:
        """Try to, over a connection of its own; how it went."""
        peer = await self.stranger()
        _, said = await peer.told("auth.login", name="ann", password=password)
        return said.key

    async def come_as_ann(self) -> str:
        """Try to, with a token; how it went."""
        made = await self.owner.call("token.new", name="ann")
        peer = await self.stranger()
        peer.ask("auth.token", token=made["token"])
        return await _outcome(peer)

    async def refused(self, verb: str, **params: Any) -> str:
        """Ask for something that nobody can have; the code."""
        return (await self.owner.refusal(verb, **params))[0]


async def _outcome(peer: Peer) -> str:
    """The code of the next answer; "ok" for a result."""
    try:
        message = await peer.read()
    except (EOFError, ConnectionError):
        return "closed"
    return "ok" if "result" in message else str(message["error"]["data"]["code"])


# -- what each does -------------------------------------------------------------------------------------------------


async def frame_bytes(here: Here) -> None:
    """A frame that has begun may have what it might have then; the next one of the same connection may not."""
    before = await here.master.peer()
    assert await here.long_request(before, 100 * KIB) == "ok"
    before.send(b'{"jsonrpc":"2.0","id":1,"method":"auth.whoami"' + b" " * 100 * KIB)
    await settled(lambda: any(one.keeps() > 100 * KIB for one in here.master.sessions()))
    await here.set("limits.frame_bytes", 64 * KIB)
    before.send(b"}\n")
    assert await _outcome(before) == "ok"
    assert await here.long_request(before, 100 * KIB) == "protocol"
    assert await here.long_request(await here.master.peer(), 100 * KIB) == "protocol"
    assert await here.long_request(here.owner, 60 * KIB) == "ok"
    await here.set("limits.frame_bytes", 256 * KIB)
    assert await here.long_request(here.owner, 100 * KIB) == "ok", "of a connection that was there before"


async def frame_bytes_unidentified(here: Here) -> None:
    assert await here.long_request(await here.stranger(), 2 * KIB) == "ok"
    await here.set("limits.frame_bytes_unidentified", KIB)
    assert await here.long_request(await here.stranger(), 2 * KIB) == "protocol"


async def outbox_bytes(here: Here) -> None:
    """Of a reader who does not read: so much may lie unsent, also for a connection that was there before."""
    sock = here.master.raw(receive=4096)
    sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"auth.whoami"}\n')
    await settled(lambda: bool(here.master.sessions()))
    buffer = here.master.connection_of(sock).buffer
    buffer.unsent += 100 * KIB
    assert buffer.is_full
    await here.set("limits.outbox_bytes", MIB)
    assert not buffer.is_full
    buffer.unsent -= 100 * KIB
    sock.sendall(b'{"jsonrpc":"2.0","id":2,"method":"auth.whoami"}\n')
    transport: Any = here.master.connection_of(sock).transport
    await settled(lambda: transport.get_write_buffer_limits()[1] == MIB)


async def handshake_s(here: Here) -> None:
    before = await here.stranger()
    await here.set("limits.handshake_s", 0.1)
    assert b"log_in_in_time" in await eof(await here.stranger())
    assert (await before.refusal("server.info"))[0] == "unauthenticated", "it has the time that it had when it came"


async def connections(here: Here) -> None:
    """The owner can still come in to raise it, however many there are."""
    ann = [await here.user("ann") for _ in range(3)]
    await here.set("limits.connections", 1)
    refused = await here.come()
    refused.ask("auth.whoami")
    assert await _outcome(refused) == "limit"
    for peer in ann:
        assert (await peer.call("auth.whoami"))["user"] == "ann"
    here.owner = await here.master.peer()
    await here.set("limits.connections", 4096)
    assert (await (await here.user("ann")).call("auth.whoami"))["user"] == "ann"


async def connections_unidentified(here: Here) -> None:
    before = [await here.stranger() for _ in range(3)]
    await here.set("limits.connections_unidentified", 2)
    later = await here.stranger()
    assert await eof(before[0]) == b"", "the oldest makes room, as ever"
    for peer in (*before[1:], later):
        assert (await peer.refusal("server.info"))[0] == "unauthenticated"


async def connections_per_address(here: Here) -> None:
    """Those of desktop clients, by what counts them."""
    places = here.master.port_server.places
    guests = [Guest(places, KernelPeer("10.0.0.1")) for _ in range(4)]
    told = [places.enter(guest) or places.settle(guest) for guest in guests[:3]]
    assert told == [None, None, None]
    await here.set("limits.connections_per_address", 2)
    assert places.enter(guests[3]) is None
    assert says(places.settle(guests[3]), "no_more_of_this_address")
    assert [guest.why for guest in guests] == [None] * 4


async def connections_per_user(here: Here) -> None:
    ann = [await here.user("ann") for _ in range(2)]
    await here.set("limits.connections_per_user", 1)
    assert await here.come_as_ann() == "limit"
    for peer in ann:
        assert (await peer.call("auth.whoami"))["user"] == "ann"


async def held_bytes(here: Here) -> None:
    """Whose request has begun may finish it; then the new limit is theirs, too."""
    ann = await here.user("ann")
    begun = b'{"jsonrpc":"2.0","id":1,"method":"auth.whoami"' + b" " * 2 * MIB
    ann.send(begun)
    await settled(lambda: any(one.keeps() >= 2 * MIB for one in here.master.sessions()))
    await here.set("limits.held_bytes", MIB)
    ann.send(b" " * 100 * KIB + b"}\n")
    assert await _outcome(ann) == "ok"
    ann.send(begun)
    assert await _outcome(ann) == "closed"


async def upload_bytes(here: Here) -> None:
    (here.master.folder / "data").mkdir()
    begun = await here.owner.call("file.upload_begin", path="data/x", size=100)
    await here.set("limits.upload_bytes", 50)
    assert (await here.owner.refusal("file.upload_begin", path="data/y", size=100))[0] == "limit"
    which = {"path": "data/x", "upload": begun["upload"]}
    content = base64.b64encode(b"x" * 100).decode()
    assert await here.owner.call("file.upload_piece", **which, offset=0, content=content) == {"received": 100}
    assert (await here.owner.call("file.upload_begin", **which, size=100))["received"] == 100
    await here.owner.call("file.upload_commit", **which, size=100)
    assert (here.master.folder / "data/x").stat().st_size == 100


async def failed_logins_per_minute(here: Here) -> None:
    await here.user("ann")
    assert await here.log_in("wrong password") == "wrong_password"
    await here.set("limits.failed_logins_per_minute", 1)
    assert await here.log_in("wrong password") == "log_ins_failed"


async def auth_requests_per_minute(here: Here) -> None:
    assert await here.log_in("wrong password") == "wrong_password"
    await here.set("limits.auth_requests_per_minute", 1)
    assert await here.log_in("wrong password") == "too_many_requests"
    await here.set("limits.auth_requests_per_minute", 60)
    assert await here.log_in("wrong password") == "wrong_password"


async def env_requests_per_minute(here: Here) -> None:
    first = await here.refused("env.python", env="x", node="a")
    assert first != "limit"
    await here.set("limits.env_requests_per_minute", 1)
    assert await here.refused("env.python", env="x", node="a") == "limit"
    await here.set("limits.env_requests_per_minute", 60)
    assert await here.refused("env.python", env="x", node="a") == first


Effect = Callable[[Here], Awaitable[None]]
LIMITS: dict[str, Effect] = {
    f"limits.{effect.__name__}": effect
    for effect in (
        frame_bytes, frame_bytes_unidentified, outbox_bytes, handshake_s, connections, connections_unidentified,
        connections_per_address, connections_per_user, held_bytes, upload_bytes, failed_logins_per_minute,
        auth_requests_per_minute, env_requests_per_minute,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_that_changes_holds_for_what_comes_then(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            await LIMITS[name](Here(master, await master.peer(), monkeypatch))

    run(story())


def test_a_node_that_dials_in_is_waited_for_as_long_as_the_setting_says_now(tmp_path: Path) -> None:
    async def story() -> None:
        async with Reporting(tmp_path, stale_s=3600.0) as far:
            far.new_token()
            assert far.node.state is NodeState.CONNECTING
            owner = await far.master.peer()
            await owner.call("setting.set", name="scheduler.report_stale_s", value=0.2)
            await settled(lambda: far.node.state is NodeState.UNREACHABLE)

    run(story())


def test_who_may_wait_for_a_desktop_client_has_more_time_to_log_in_than_that(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            owner = await master.peer()
            said = frozenset({"desktop_client.silent_s"})
            master.place.config = msgspec.structs.replace(master.place.config, said=said)
            _, why = await owner.told("setting.set", name="limits.handshake_s", value=1.5)
            assert (why.key, why.args) == ("handshake_too_short", {"seconds": 1.5})
            await owner.call("setting.set", name="limits.handshake_s", value=1.6)

    run(story())


# -- what the scheduler does: with a value that was set while it ran --------------------------------------------------


# -- what the scheduler does, with a value that was set while it ran --------------------------------------------------


def reserve_after(core: Core) -> int:
    """For how many a place is kept."""
    small = submit(core, gpus=1)
    core.plan(1.0)
    core.started("a", launch_of(small), 1.0, 1.0)
    submit(core, gpus=4)
    core.plan(2.0)
    core.plan(500.0)
    return len(core.reservations)


def resize_after(core: Core) -> bool:
    """Whether it grows."""
    small_one_that_runs(core, 3)
    core.plan(500.0)
    return bool(effects(core, SeekCheckpoint))


def keep_memory(core: Core) -> int:
    """How many run."""
    submit(core, memory_mib=800)
    core.plan(1.0)
    return len(list(core.active()))


def keep_history(core: Core) -> int:
    """How many would move to the monthly files."""
    run_task(core, submit(core))
    return len(core.oldest_ended(core.settings.scheduler.keep_history))


def grace_s(core: Core) -> float:
    return _launched(core).grace_s


def log_bytes(core: Core) -> int:
    return _launched(core).log_bytes


def _launched(core: Core) -> LaunchSettings:
    """What the launch of an attempt is told."""
    ports = {"socket_info": {"monitor_port": 1, "data_port": 2, "train_state_port": 3}}
    return launch_settings(config_of(ports, ROOT / "conf.json"), core)


Observed = Callable[[Core], Any]
SCHEDULER: dict[str, tuple[Observed, dict[float, Any]]] = {
    "scheduler.reserve_after": (reserve_after, {100: 1, 1000: 0}),
    "scheduler.resize_after": (resize_after, {100: True, 1000: False}),
    "scheduler.keep_memory": (keep_memory, {0.1: 1, 0.5: 0}),
    "scheduler.keep_history": (keep_history, {0: 1, 1: 0}),
    "scheduler.grace_s": (grace_s, {3: 3.0, 4: 4.0}),
    "scheduler.log_bytes": (log_bytes, {MIB: MIB, 2 * MIB: 2 * MIB}),
}
"""What is observed of a core, by the value that was set."""


@pytest.mark.parametrize("name", SCHEDULER)
def test_a_setting_of_the_scheduler_does_what_was_set(name: str) -> None:
    observe, expected = SCHEDULER[name]
    for value, seen in expected.items():
        core = core_with(FOUR)
        core.tuning.set(name, value, "ann", 1.0)
        assert observe(core) == seen, value


ELSEWHERE = {
    "scheduler.report_stale_s": "tests/master/test_settings_at_run_time.py",
    "scheduler.reservations": "tests/master/core/planning/test_reservations.py",
    "scheduler.retry_after_s": "tests/master/core/tasks/test_waiting.py",
    "scheduler.time_limit": "tests/master/verbs/test_again.py",
    "scheduler.time_limit_max": "tests/master/verbs/test_again.py",
    "scheduler.keep_gpu_memory": "tests/master/core/test_sharing.py",
    "scheduler.max_running": "tests/master/core/people/test_quotas.py",
    "scheduler.max_tasks_per_gpu": "tests/master/core/test_sharing.py",
    "scheduler.end_outgrown_after_s": "tests/master/core/test_sharing.py",
    "scheduler.stray_tasks": "tests/master/core/nodes/test_strays.py",
    "scheduler.urgent": "tests/master/verbs/test_priority_rights.py",
    "scheduler.user_priority_max": "tests/master/verbs/test_settings.py",
    "scheduler.idle_after_s": "tests/master/watchers/test_idle_watcher.py",
    "scheduler.idle_action": "tests/master/watchers/test_idle_watcher.py",
    "scheduler.sample_s": "tests/master/nodes/test_heartbeat.py",
    "scheduler.heartbeat_s": "tests/master/nodes/test_heartbeat.py",
    "scheduler.keep_history_bytes": "tests/master/durable/test_portions.py",
    "limits.waiting_tasks": "tests/master/core/test_settings.py",
    "limits.task_bytes": "tests/master/core/people/test_shares.py",
    "limits.user_share": "tests/master/core/people/test_shares.py",
}
"""Where a test sets it while the core or the master runs, and sees what that does."""


def test_every_key_of_scheduler_and_limits_is_a_setting_and_its_effect_is_tested() -> None:
    in_conf = {f"{section}.{key}" for section in SECTIONS for key in _keys(section)}
    assert in_conf == set(ROWS), "each key of the two is a setting"
    assert sorted([*LIMITS, *SCHEDULER, *ELSEWHERE]) == sorted(ROWS), "a new setting has a test of what it does"
    for name, place in ELSEWHERE.items():
        text = (ROOT / place).read_text(encoding="utf-8")
        field = name.partition(".")[2]
        sets = re.compile(rf"""(tuning\.set\(|setting\.set|here\.set\(|for name, value in).*["'.]{field}["']""")
        assert sets.search(text), f"{place} does not set {name} while the master runs"


def _keys(section: str) -> tuple[str, ...]:
    """The keys of an object of conf.json."""
    [found] = [field for field in msgspec.structs.fields(ConfFile) if field.name == section]
    return tuple(field.name for field in msgspec.structs.fields(found.type))
