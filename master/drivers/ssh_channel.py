"""The bridge between a channel of paramiko, whose calls block, and asyncio, where nothing may.

Three threads meet here: paramiko's own hands over what arrives, one of ours sends, and the loop's does neither. `Pipe`
is what they share; first it serves a dialogue in our thread (`take`, `send`), then it serves `ChannelTransport`
(`serve` sends until the end). It knows nothing of what is said.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import paramiko
from paramiko.buffered_pipe import BufferedPipe

if TYPE_CHECKING:
    _Buffer = BufferedPipe[bytes]
else:
    _Buffer = BufferedPipe

MAX_UNSENT = 32 << 20
"""Bytes that may wait to be sent; a node that takes so much less than it is told is better connected anew."""
GIVE_BACK = 64 << 10
"""So many bytes are consumed before the other side's window is opened again; the window holds 2 MiB."""
PIECE = 32 << 10
STALLED_S = 0.05
STATUS_S = 2.0
FINISH_S = 5.0
ERRORS_KEPT = 4096

BROKEN = (OSError, EOFError, paramiko.SSHException)


class _Port(_Buffer):
    """A buffer that paramiko uses for a channel: it hands bytes on at once. `recv` only does the accounting of the
    window."""

    def __init__(self, arrived: Callable[[bytes], None], ended: Callable[[], None]) -> None:
        super().__init__()
        self._arrived = arrived
        self._on_end = ended

    def feed(self, data: bytes) -> None:
        """Called in paramiko's thread."""
        self._arrived(data)

    def read(self, nbytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002  (paramiko's signature)
        """Called by `Channel.recv`, which then gives so much of the window back."""
        return bytes(nbytes)

    def close(self) -> None:
        """Called in whichever thread learns of the end first."""
        self._on_end()


class Pipe:
    """Both directions of one channel. `sock`: the connection under it, to end it from any thread at once."""

    def __init__(self, channel: paramiko.Channel, sock: socket.socket) -> None:
        self._channel = channel
        self._sock = sock
        self._changed = threading.Condition()
        self._arrived = bytearray()
        self._errors = bytearray()
        self._owed = 0
        self._owed_errors = 0
        self._unsent = bytearray()
        self._ended = False
        self._finishing = False
        self._why = ""
        self._broken = ""
        self._deliver: Callable[[bytes], None] | None = None
        channel.in_buffer = _Port(self._feed, self._end)
        channel.in_stderr_buffer = _Port(self._feed_errors, self._nothing)

    @property
    def errors(self) -> str:
        """The last that came on stderr."""
        with self._changed:
            return self._errors.decode("utf-8", "replace")

    @property
    def peer(self) -> Any:
        """The address of the other end, None when there is none any more."""
        try:
            return self._sock.getpeername()
        except OSError:
            return None

    def why_ended(self) -> str:
        """Return why the connection ended, "" if the other side ended it in order."""
        return self._why or self._broken or self.errors.strip().rpartition("\n")[2]

    # -- the dialogue: in our thread --------------------------------------------------------------------------

    def take(self, deadline: float) -> bytes:
        """Return the bytes that have arrived, b"" after the end. Raises TimeoutError. `deadline`: of the monotonic
        clock."""
        while True:
            with self._changed:
                if not self._changed.wait_for(self._something_came, max(0.0, deadline - time.monotonic())):
                    raise TimeoutError
                data = bytes(self._arrived)
                self._arrived.clear()
                self._owed += len(data)
                ended = self._ended
            with suppress(*BROKEN):  # a closed end needs no window, and its earlier data is here
                self._give_back()
            if data or ended:
                return data

    def send(self, data: bytes) -> None:
        """Send it all, however long that takes. Raises OSError, EOFError, SSHException."""
        self._channel.sendall(data)

    def unread(self, data: bytes) -> None:
        """Put back what was taken too much."""
        with self._changed:
            self._arrived[:0] = data
            self._owed -= len(data)  # it will be consumed once more

    def exit_status(self) -> int | None:
        """How the command ended; None if we are not told within a short time."""
        self._channel.status_event.wait(STATUS_S)
        status = self._channel.exit_status
        return status if status >= 0 else None

    # -- the conversation: from the loop's thread -------------------------------------------------------------

    def start(self, deliver: Callable[[bytes], None]) -> None:
        """From now on what arrives is delivered, in whatever thread, b"" at the end; first what is already here."""
        with self._changed:
            self._deliver = deliver
            if self._arrived:
                deliver(bytes(self._arrived))
                self._arrived.clear()
            if self._ended:
                deliver(b"")

    def consumed(self, size: int) -> None:
        """So much of what was delivered is dealt with."""
        with self._changed:
            self._owed += size
            if self._owed > GIVE_BACK:
                self._changed.notify()

    def write(self, data: bytes) -> bool:
        """Have it sent; False if there is too much already, and nothing is taken."""
        with self._changed:
            if len(self._unsent) + len(data) > MAX_UNSENT:
                return False
            self._unsent += data
            self._changed.notify()
        return True

    @property
    def unsent(self) -> int:
        """Bytes that wait."""
        return len(self._unsent)

    def finish(self) -> None:
        """Send what waits, then end."""
        with self._changed:
            self._finishing = True
            self._changed.notify()

    def abort(self, why: str = "") -> None:
        """End at once; never blocks."""
        with self._changed:
            self._why = self._why or why
            self._end()
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    # -- our thread -------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Send what is written, and give the window back, until the end."""
        with suppress(*BROKEN):
            while (piece := self._next_piece()) is not None:
                self._give_back()
                while piece and not self._ended:
                    if self._channel.send_ready():
                        piece = piece[self._channel.send(piece) :]
                    else:
                        self._stalled()
            self._let_it_end()

    def _let_it_end(self) -> None:
        # Cutting the connection now would take from the other side's program what it has not read yet.
        self._channel.shutdown_write()
        deadline = time.monotonic() + FINISH_S
        while not self._ended and time.monotonic() < deadline:
            self._stalled()
        self._channel.close()

    def _next_piece(self) -> bytes | None:
        with self._changed:
            self._changed.wait_for(self._something_to_do)
            if self._ended or (self._finishing and not self._unsent):
                return None
            piece = bytes(self._unsent[:PIECE])
            del self._unsent[:PIECE]
            return piece

    def _stalled(self) -> None:
        # The other side takes nothing at the moment. It may wait for us to take something first.
        with self._changed:
            self._changed.wait_for(lambda: self._ended, STALLED_S)
        self._give_back()

    def _give_back(self) -> None:
        with self._changed:
            owed = max(self._owed, 0)
            self._owed -= owed
            owed_errors, self._owed_errors = self._owed_errors, 0
        if owed:
            self._channel.recv(owed)
        if owed_errors:
            self._channel.recv_stderr(owed_errors)

    def _something_came(self) -> bool:
        return bool(self._arrived) or self._ended or self._owed_errors > GIVE_BACK

    def _something_to_do(self) -> bool:
        return bool(self._unsent) or self._ended or self._finishing or self._owed + self._owed_errors > GIVE_BACK

    # -- paramiko's thread; it may hold the channel's lock: nothing of the channel may be called here ---------

    def _feed(self, data: bytes) -> None:
        with self._changed:
            if self._deliver is None:
                self._arrived += data
                self._changed.notify()
            else:
                self._deliver(data)

    def _feed_errors(self, data: bytes) -> None:
        with self._changed:
            self._errors += data
            del self._errors[:-ERRORS_KEPT]
            self._owed_errors += len(data)
            self._changed.notify()

    def _end(self) -> None:
        with self._changed:
            if not self._ended:
                self._ended = True
                self._unsent.clear()  # nobody takes it any more, and it may be megabytes
                self._broken = self._how_broken()  # now: our thread closes the connection whatever the reason
                if self._deliver is not None:
                    self._deliver(b"")
            self._changed.notify()

    def _how_broken(self) -> str:
        transport = self._channel.get_transport()
        error = transport.saved_exception
        if self._channel.eof_received or (error is None and transport.is_active()):
            return ""
        return f"the SSH connection ended: {error}" if error and str(error) else "the SSH connection ended"

    def _nothing(self) -> None:
        pass


class ChannelTransport(asyncio.Transport):
    """A pipe as asyncio's protocols know it; everything here runs in the loop's thread. While reading
    is paused, what the other side's window still lets through is kept: 2 MiB at most."""

    def __init__(self, pipe: Pipe, protocol: asyncio.Protocol) -> None:
        super().__init__({"peername": pipe.peer})
        self._pipe = pipe
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._closing = False
        self._lost = False
        self._paused = False
        self._held: list[bytes] = []
        self._end_waits = False

    def begin(self) -> None:
        """Tell the protocol; what arrived before comes right after."""
        self._protocol.connection_made(self)
        self._pipe.start(self._deliver)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Have it sent. Beyond the cap the connection is given up."""
        if self._closing or not data:
            return
        if not self._pipe.write(bytes(data)):
            self._abort(f"{MAX_UNSENT >> 20} MiB wait to be sent and the node does not take them")

    def close(self) -> None:
        """Send what waits, then end."""
        self._closing = True
        self._pipe.finish()

    def abort(self) -> None:
        """End at once."""
        self._abort("")

    def is_closing(self) -> bool:
        """Whether `close` or `abort` were called, or the other side ended it."""
        return self._closing

    def pause_reading(self) -> None:
        """Keep what comes; the other side's window stays as it is, so it soon has to wait."""
        self._paused = True

    def resume_reading(self) -> None:
        """Hand on what came meanwhile, and go on."""
        self._paused = False
        held, self._held = self._held, []
        for data in held:
            self._received(data)
        if self._end_waits and not self._paused:
            self._ended(b"")

    @property
    def held(self) -> int:
        """Bytes that came while reading is paused."""
        return sum(map(len, self._held))

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol that receives the events."""
        return self._protocol

    def get_write_buffer_size(self) -> int:
        """Bytes that wait to be sent."""
        return self._pipe.unsent

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nobody is paused here; there is a cap instead."""

    def _deliver(self, data: bytes) -> None:
        try:
            self._loop.call_soon_threadsafe(self._received if data else self._ended, data)
        except RuntimeError:  # the loop is closed: the master ends, and nobody listens any more
            self._pipe.abort()

    def _received(self, data: bytes) -> None:
        if self._paused and not self._lost:
            self._held.append(data)
            return
        try:
            if not self._lost:
                self._protocol.data_received(data)
        finally:
            self._pipe.consumed(len(data))

    def _ended(self, _data: bytes) -> None:
        self._end_waits = self._paused
        if self._paused:
            return
        self._abort("" if self._closing else self._pipe.why_ended())

    def _abort(self, why: str) -> None:
        self._closing = True
        self._pipe.abort(why)
        self._loop.call_soon(self._tell_lost, ConnectionError(why) if why else None)

    def _tell_lost(self, error: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            self._held.clear()
            self._protocol.connection_lost(error)
