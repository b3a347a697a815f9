"""The driver `ssh`, a real sshd and a real agent: found again after every break, each refusal in one clear line."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from master.drivers import ssh, ssh_login
from master.drivers.host_keys import offered
from master.nodes.driver import UnknownHostKeyError
from tests.master.drivers.real_sshd import RealSshd, make_key
from tests.master.drivers.ssh_story import Line, Site, mute, nothing_left, run, who_sends
from tests.waiting import settled
from wire.errors import ConflictError
from wire.message import Message


def test_the_agent_is_sent_started_and_found_again_with_what_it_runs(
    server: RealSshd, site: Site, tmp_path: Path
) -> None:
    site.trust(server)
    go = tmp_path / "go"

    async def story() -> None:
        first = await site.connected(server.node())
        pid = (await first.hear("welcome"))["pid"]
        first.launch("1.1.a", f"echo hello; until [ -e {go} ]; do sleep 0.1; done; exit 7", tmp_path)
        await first.hear("started", launch_id="1.1.a")
        server.end_connections()
        assert await first.end() is not None

        second = await site.connected(server.node())
        assert (await second.hear("welcome"))["pid"] == pid
        (attempt,) = (await second.hear("inventory"))["attempts"]
        assert (attempt["launch_id"], attempt["state"]) == ("1.1.a", "running")
        go.touch()
        exited = await second.hear("exit", launch_id="1.1.a")
        assert (exited["code"], exited["cause"]) == (7, "exited")
        assert (tmp_path / "1.1.a.log").read_text(encoding="utf-8").startswith("hello\n")
        second.transport.abort()
        assert await second.end() is None
        assert first.lost == first.lost[:1]

    with nothing_left():
        run(story())


def test_a_password_opens_as_well_as_a_key_of_each_kind(server: RealSshd, site: Site, tmp_path: Path) -> None:
    site.trust(server)
    kinds = {kind: make_key(tmp_path / kind, kind) for kind in ("rsa", "ecdsa")}
    allowed = server.folder / "authorized_keys"
    public = [path.with_suffix(".pub").read_text(encoding="utf-8") for path in kinds.values()]
    allowed.write_text(allowed.read_text(encoding="utf-8") + "".join(public), encoding="utf-8")

    async def story() -> None:
        for key_file in (None, *map(str, kinds.values())):
            line = await site.connected(server.node(key_file=key_file))
            line.transport.abort()
            await line.end()

    with nothing_left():
        run(story())


def test_the_version_is_that_of_the_archive_and_of_the_agent(server: RealSshd, site: Site) -> None:
    site.trust(server)

    async def story() -> None:
        line = await site.connected(server.node())
        assert (await line.hear("welcome"))["version"] == site.driver(server.node()).version == site.archive.version
        line.transport.abort()
        await line.end()

    run(story())


# -- host keys ------------------------------------------------------------------------------------------------


def test_an_unknown_host_key_is_refused_until_somebody_trusts_it(server: RealSshd, site: Site) -> None:
    async def story() -> None:
        driver = site.driver(server.node())
        refusal = await site.refusal(server.node())
        assert isinstance(refusal, UnknownHostKeyError)
        assert refusal.patience == "long"
        key = f"{server.host_key.type} {server.host_key.fingerprint}"
        where, cure = f"127.0.0.1:{server.port}", Message("trust_host_key", name="n")
        assert refusal.why == Message("host_key_unknown", where=where, key=key, cure=cure)
        other = await site.refusal(server.node("the loud one"))
        assert other.why.args["cure"] == Message("trust_host_key", name="the loud one")
        assert driver.known_key() is None

        shown = await driver.offered_key()
        assert shown == server.host_key
        driver.pin(shown)
        assert driver.known_key() == shown.fingerprint
        line = await site.connected(server.node())
        line.transport.abort()
        await line.end()

    with nothing_left():
        run(story())


def test_a_changed_host_key_is_told_with_both_fingerprints_and_gets_no_password(server: RealSshd, site: Site) -> None:
    site.trust(server)
    known = server.host_key
    server.stop()
    server.new_host_key()
    server.start()
    assert server.host_key != known

    refusal = run(site.refusal(server.node(key_file=None)))
    assert isinstance(refusal, UnknownHostKeyError)
    why = refusal.why
    assert (why.key, why.args["known"]) == ("host_key_changed", known.fingerprint)
    assert why.args["key"] == f"{server.host_key.type} {server.host_key.fingerprint}"
    assert why.args["cure"] == Message("trust_host_key", name="n")
    assert "password" not in server.log()


def test_the_registry_may_pin_a_key_and_then_no_file_counts(server: RealSshd, site: Site) -> None:
    key = server.host_key

    async def story() -> None:
        for pinned in (key.fingerprint, f"{key.type} {key.base64} a comment"):
            line = await site.connected(server.node(host_key=pinned))
            line.transport.abort()
            await line.end()
        site.trust(server)
        other = server.node(host_key="SHA256:" + "x" * 43)
        refusal = await site.refusal(other)
        assert isinstance(refusal, UnknownHostKeyError)
        assert refusal.why.args["cure"] == Message("correct_host_key")
        with pytest.raises(ConflictError, match="`host_key`"):
            site.driver(other).pin(key)
        strange = await site.refusal(server.node(host_key="what is this"))
        assert strange.why == Message("host_key_wrong", found="what is this")

    run(story())


def test_a_machine_with_several_keys_is_asked_for_the_one_that_we_know(server: RealSshd, site: Site) -> None:
    public = make_key(server.folder / "second_host_key", "rsa").with_suffix(".pub").read_text(encoding="ascii")
    kind, text = public.split()[:2]
    rsa = offered(base64.b64decode(text))
    server.more_config += f"HostKey {server.folder}/second_host_key\n"
    server.stop()
    server.start()

    async def story() -> None:
        line = await site.connected(server.node(host_key=f"{kind} {text}"))
        line.transport.abort()
        await line.end()
        # As ssh-keyscan lists them: whoever looks at the key is told that it is known, not that it changed.
        known = "".join(f"[127.0.0.1]:{server.port} {key.type} {key.base64}\n" for key in (rsa, server.host_key))
        (site.folder / "known_hosts").write_text(known, encoding="ascii")
        driver = site.driver(server.node())
        assert (await driver.offered_key()).fingerprint == driver.known_key() == rsa.fingerprint

    run(story())


# -- the end ---------------------------------------------------------------------------------------------------


def test_giving_up_in_the_middle_leaves_nothing(site: Site, server: RealSshd) -> None:
    async def story() -> None:
        with mute() as port, nothing_left() as more_threads:
            job = asyncio.create_task(site.driver(server.node(port=port)).connect(Line()))
            await settled(lambda: more_threads() == 2)  # ours and paramiko's wait for the banner
            job.cancel()
            with pytest.raises(asyncio.CancelledError):
                await job
            await settled(lambda: not more_threads())

    run(story())


def test_a_connection_that_gets_no_thread_leaves_nothing(
    site: Site, server: RealSshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_to_be_had(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def story() -> None:
        driver = site.driver(server.node())
        monkeypatch.setattr(threading.Thread, "start", none_to_be_had)
        with pytest.raises(RuntimeError, match="new thread"):
            await driver.connect(Line())
        assert not driver._connections

    with nothing_left():
        run(story())


def test_closing_the_driver_ends_its_connection_and_tells_the_protocol(site: Site, server: RealSshd) -> None:
    site.trust(server)

    async def story() -> None:
        driver, line = site.driver(server.node()), Line()
        with nothing_left() as more_threads:
            await driver.connect(line)
            await driver.close()
            await settled(lambda: not more_threads())
            await line.end()

    run(story())


# -- breaks ---------------------------------------------------------------------------------------------------


def test_a_connection_cut_with_a_mebibyte_in_flight_is_lost_once_and_the_next_finds_the_agent_sane(
    site: Site, server: RealSshd
) -> None:
    site.trust(server)

    async def story() -> None:
        line = await site.connected(server.node())
        pid = (await line.hear("welcome"))["pid"]
        line.send(op="probe", probe_id="p", argv=["cat"], stdin="x" * (1 << 20), cwd=None, env={}, timeout_s=5.0)
        server.end_connections()
        await line.end()
        line.send(op="ping")  # dropped, not an error
        again = await site.connected(server.node())
        assert (await again.hear("welcome"))["pid"] == pid
        again.send(op="ping")
        await again.hear("pong")
        again.transport.abort()
        await again.end()
        assert len(line.lost) == len(again.lost) == 1

    with nothing_left():
        run(story())


def test_a_frozen_machine_blocks_neither_the_loop_nor_the_end(
    site: Site, server: RealSshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is blocked by it is so as long as it is frozen, which is until all that is awaited here has come."""
    site.trust(server)
    senders = who_sends(monkeypatch)

    async def sent_what_is_taken(transport: asyncio.Transport, written: int) -> None:
        left = written
        while (size := transport.get_write_buffer_size()) == written or size != left:
            left = size
            await asyncio.sleep(0.05)

    async def story(more_threads: Callable[[], int]) -> None:
        line = await site.connected(server.node())
        with server.frozen():
            for _ in range(64):
                line.transport.write(b"x" * (256 << 10))
                await asyncio.sleep(0)
            await sent_what_is_taken(line.transport, 64 * (256 << 10))
            assert line.lost == []
            assert line.transport.get_write_buffer_size() > 0
            line.transport.abort()
            await line.end()
            await settled(lambda: not more_threads())
        assert senders
        assert threading.get_ident() not in senders, "the loop would be blocked"

    with nothing_left() as more_threads:
        run(story(more_threads))


def test_a_machine_frozen_during_the_log_in_is_given_up(
    site: Site, server: RealSshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.trust(server)
    for module, name in ((ssh_login, "BANNER_S"), (ssh_login, "EXCHANGE_S"), (ssh, "MARGIN_S")):
        monkeypatch.setattr(module, name, 0.2)

    with server.frozen(), nothing_left():
        refusal = run(site.refusal(server.node()))
    assert refusal.why == Message("sshd_mute", where=f"127.0.0.1:{server.port}")


def test_the_agent_that_dies_is_started_anew(site: Site, server: RealSshd) -> None:
    site.trust(server)

    async def story() -> None:
        line = await site.connected(server.node())
        pid = (await line.hear("welcome"))["pid"]
        os.kill(pid, signal.SIGKILL)
        await line.end()
        again = await site.connected(server.node())
        assert (await again.hear("welcome"))["pid"] != pid
        again.transport.abort()
        await again.end()

    run(story())


# -- how many at a time ---------------------------------------------------------------------------------------


def test_five_log_ins_at_a_time_go_to_one_address_and_others_do_not_wait_for_them() -> None:
    async def story() -> None:
        gate = ssh.LoginGate()
        inside: list[int] = []
        most: list[int] = []
        leave = asyncio.Event()

        async def log_in(port: int) -> None:
            async with gate.turn("10.0.0.1", port):
                inside.append(port)
                most.append(inside.count(port))
                await leave.wait()
                inside.remove(port)

        jobs = [asyncio.create_task(log_in(port)) for port in [22] * 20 + [23]]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (inside.count(22), inside.count(23)) == (5, 1)
        leave.set()
        await asyncio.gather(*jobs)
        assert max(most) == 5

    run(story())


def test_many_nodes_on_one_machine_connect_with_two_threads_each(site: Site, server: RealSshd) -> None:
    site.trust(server)

    async def story(more_threads: Callable[[], int]) -> None:
        lines = await asyncio.gather(*(site.connected(server.node(f"n{number}")) for number in range(12)))
        assert more_threads() <= 2 * len(lines)
        for line in lines:
            line.transport.abort()
            await line.end()

    with nothing_left() as more_threads:
        run(story(more_threads))
