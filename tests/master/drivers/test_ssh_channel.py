"""The bridge between paramiko's channel and asyncio, with small programs at the other end of a real sshd."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from master.drivers import ssh_channel, ssh_login
from master.drivers.ssh_channel import ChannelTransport, Pipe
from tests.master.drivers.real_sshd import RealSshd
from tests.master.drivers.ssh_story import Site, nothing_left, pipe_to, run, who_sends
from tests.waiting import settled, until


@pytest.fixture
def site(site: Site, server: RealSshd) -> Site:
    """It knows the server's key."""
    site.trust(server)
    return site


WINDOW = 2 << 20
"""Bytes that paramiko lets the other side send before we have taken any."""
TOLD_LATE = WINDOW // 10
"""What paramiko lets be taken before it tells the other side."""


class Ear(asyncio.Protocol):
    """Keeps what it is told; `on_data` may look at it."""

    def __init__(self) -> None:
        self.heard = bytearray()
        self.lost: list[Exception | None] = []
        self.after_loss = 0

    def data_received(self, data: bytes) -> None:
        self.after_loss += len(self.lost)
        self.heard += data

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.append(error)


def test_ten_mebibytes_go_both_ways_whole_and_in_order(server: RealSshd, site: Site) -> None:
    sent = b"".join(b"%09d\n" % number for number in range(1 << 20))

    async def story() -> None:
        with pipe_to("exec cat", server, site) as pipe:
            ear = Ear()
            transport = ChannelTransport(pipe, ear)
            transport.begin()
            for start in range(0, len(sent), 1 << 20):
                transport.write(sent[start : start + (1 << 20)])
            await settled(lambda: len(ear.heard) == len(sent))
            assert bytes(ear.heard) == sent
            assert transport.get_write_buffer_size() == 0
            transport.abort()
            await settled(lambda: ear.lost)

    with nothing_left():
        run(story())


def test_close_sends_what_waits_and_then_tells_the_end_once(server: RealSshd, site: Site, tmp_path: Path) -> None:
    target = tmp_path / "received"

    async def story() -> None:
        with pipe_to(f"cat > {target}", server, site) as pipe:
            ear = Ear()
            transport = ChannelTransport(pipe, ear)
            transport.begin()
            transport.write(b"x" * 3_000_000)
            transport.close()
            assert transport.is_closing()
            transport.write(b"too late")
            await settled(lambda: ear.lost)
            transport.close()
            transport.abort()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert ear.lost == [None]

    with nothing_left():
        run(story())
        until("all is there", lambda: target.stat().st_size == 3_000_000)


def test_the_other_sides_end_comes_after_all_that_it_said(server: RealSshd, site: Site) -> None:
    async def story(command: str) -> Ear:
        with pipe_to(command, server, site) as pipe:
            ear = Ear()
            ChannelTransport(pipe, ear).begin()
            await settled(lambda: ear.lost)
        return ear

    with nothing_left():
        ear = run(story("head -c 4000000 /dev/zero; echo last words >&2; exit 3"))
        assert (len(ear.heard), ear.after_loss) == (4_000_000, 0)
        assert [str(error) for error in ear.lost] == ["last words"]
        assert run(story("true")).lost == [None]


def test_while_reading_is_paused_the_other_side_waits_and_nothing_is_lost(server: RealSshd, site: Site) -> None:
    sent = b"".join(b"%09d\n" % number for number in range(1 << 20))

    async def story(path: Path) -> None:
        with pipe_to(f"cat {path}; echo last words >&2; exit 3", server, site) as pipe:
            ear = Ear()
            transport = ChannelTransport(pipe, ear)
            transport.begin()
            transport.pause_reading()
            await settled(lambda: transport.held == WINDOW)
            assert (len(ear.heard), ear.lost) == (0, [])
            while not ear.lost:
                transport.resume_reading()
                before = len(ear.heard)
                await settled(lambda before=before: bool(ear.lost) or len(ear.heard) > before)  # type: ignore[misc]
                transport.pause_reading()
                await asyncio.sleep(0)
            assert bytes(ear.heard) == sent
            assert [str(error) for error in ear.lost] == ["last words"]

    with nothing_left():
        path = site.psw.with_name("sent")
        path.write_bytes(sent)
        run(story(path))


def test_a_flood_on_stderr_stops_nothing_and_only_its_end_is_kept(server: RealSshd, site: Site) -> None:
    async def story() -> None:
        with pipe_to("head -c 5000000 /dev/zero >&2; echo the end >&2; echo done; cat", server, site) as pipe:
            ear = Ear()
            transport = ChannelTransport(pipe, ear)
            transport.begin()
            await settled(lambda: bytes(ear.heard) == b"done\n")
            await settled(lambda: pipe.errors.endswith("the end\n"))  # two streams, no order between them
            assert len(pipe.errors) <= ssh_channel.ERRORS_KEPT
            transport.abort()
            await settled(lambda: ear.lost)

    with nothing_left():
        run(story())


def test_both_sides_may_write_at_once_without_reading(server: RealSshd, site: Site) -> None:
    """A program that reads only after it has written more than the window holds, while more is written to it."""
    program = "head -c 6000000 /dev/zero; head -c 6000000 >/dev/null; echo; echo read"

    async def story() -> None:
        with pipe_to(program, server, site) as pipe:
            ear = Ear()
            transport = ChannelTransport(pipe, ear)
            transport.begin()
            transport.write(b"x" * 6_000_000)
            await settled(lambda: ear.heard.endswith(b"\nread\n"))
            assert len(ear.heard) == 6_000_000 + 6

    with nothing_left():
        run(story())


def test_a_node_that_takes_nothing_is_given_up_at_the_cap_and_never_blocks(
    server: RealSshd, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_channel, "MAX_UNSENT", 8 << 20)
    senders = who_sends(monkeypatch)

    async def story() -> None:
        with pipe_to("sleep 1000", server, site) as pipe:
            ear = Ear()
            transport = ChannelTransport(pipe, ear)
            transport.begin()
            transport.write(b"x" * (1 << 20))
            await settled(lambda: senders)
            while not transport.is_closing():
                transport.write(b"x" * (1 << 20))
                await asyncio.sleep(0)
            await settled(lambda: ear.lost)
            assert transport.get_write_buffer_size() == 0, "it is not kept either"
            assert [str(error) for error in ear.lost] == ["8 MiB wait to be sent and the node does not take them"]
            assert threading.get_ident() not in senders, "nobody reads there: the loop would be blocked for ever"
            assert senders

    with nothing_left():
        run(story())


def count_what_waits(pipe: Pipe, ear: Ear) -> list[int]:
    """Bytes that have come over the connection and that the loop has not taken yet, at each arrival."""
    waiting, arrived, feed = [0], [0], pipe._feed

    def counted(data: bytes) -> None:
        arrived[0] += len(data)
        waiting.append(arrived[0] - len(ear.heard))
        feed(data)

    pipe._channel.in_buffer = ssh_channel._Port(counted, pipe._end)
    return waiting


def test_a_loop_that_is_busy_makes_the_other_side_wait(server: RealSshd, site: Site) -> None:
    """What arrives is not piled up here: beyond the window the program itself is held back."""

    async def story() -> None:
        with pipe_to("cat; head -c 10000000 /dev/zero; echo; echo end", server, site) as pipe:
            ear = Ear()
            waiting = count_what_waits(pipe, ear)
            transport = ChannelTransport(pipe, ear)
            transport.begin()
            pipe._channel.shutdown_write()
            await settled(lambda: bool(ear.heard))
            nearly_full = WINDOW - ssh_channel.GIVE_BACK - ssh_channel.PIECE - TOLD_LATE
            until("the window is full", lambda: waiting[-1] >= nearly_full)  # the loop is busy: that is the point
            await settled(lambda: ear.heard.endswith(b"\nend\n"))
            assert max(waiting) <= WINDOW
            assert len(ear.heard) == 10_000_000 + 5

    with nothing_left():
        run(story())


def test_when_the_network_goes_it_is_told_so(server: RealSshd, site: Site) -> None:
    async def story() -> None:
        with pipe_to("cat", server, site) as pipe:
            ear = Ear()
            transport = ChannelTransport(pipe, ear)
            transport.begin()
            assert transport.get_extra_info("peername") == ("127.0.0.1", server.port)
            server.end_connections()
            await settled(lambda: ear.lost)
            assert str(ear.lost[0]).startswith("the SSH connection ended")

    with nothing_left():
        run(story())


def test_a_message_in_two_pieces_does_not_wait_for_the_next_look(
    server: RealSshd, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_login, "POLL_S", 1000.0)

    async def story() -> None:
        with pipe_to("while read -r line; do echo; done", server, site) as pipe:
            ear = Ear()
            transport = ChannelTransport(pipe, ear)
            transport.begin()
            for number in range(1, 101):
                transport.write(b"x" * 100)
                while pipe.unsent:  # noqa: ASYNC110
                    await asyncio.sleep(0)
                transport.write(b"\n")
                await settled(lambda number=number: len(ear.heard) == number)  # type: ignore[misc]

    with nothing_left():
        run(story())


def test_an_idle_connection_is_looked_at_rarely_and_ends_before_the_next_look(
    server: RealSshd, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_login, "POLL_S", 1000.0)

    async def story() -> None:
        with pipe_to("cat", server, site) as pipe:
            ear = Ear()
            transport = ChannelTransport(pipe, ear)
            transport.begin()
            assert pipe._sock.gettimeout() == 1000.0  # paramiko by itself looks ten times a second
            transport.abort()
            await settled(lambda: ear.lost)

    with nothing_left():
        run(story())
