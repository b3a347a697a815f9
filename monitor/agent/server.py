"""The agent's loop: the socket, the pipe of reports, the forks' pipes, signals and time; and who may command.

It owns the waiting, in one thread; what a launch or a kill means is `keeper`'s, whom to obey is `authority`'s.
"""

from __future__ import annotations

import errno
import gc
import os
import select
import signal
import socket
import sys
import time
from typing import Any, Callable, Dict, Optional

from wire.agent import DEFAULT_GRACE_S, HEARTBEAT_S, IDLE_EXIT_S, PROTOCOL

from . import tree
from .authority import Authority
from .daemon import Log
from .folder import Folder
from .host import MIB, read_memory
from .keeper import Keeper
from .peer import FrameError, Peer
from .probes import Probes
from .sample import Sampler, sampling_of

SILENCE_S = 3 * HEARTBEAT_S
TICK_S = 1.0
HURRY_S = 0.05
QUIET_S = 0.005
"""Nothing happened for so long: time to prepare the next launch."""
HELLO_S = 10.0
"""A connection that has not said whose it is by then is given up."""
FULL_S = 1.0
"""How long nobody is accepted when descriptors or memory have run out."""
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Server:
    """`version`: the digest of the archive that runs."""

    def __init__(self, folder: Folder, version: str) -> None:
        self._folder = folder
        self._version = version
        self._log = Log(folder.log)
        self._boot_id = boot_id()
        self._idle_s = float(os.environ.get("MUSTER_AGENT_IDLE_S", IDLE_EXIT_S))
        self._authority = Authority(folder)
        self._state_id = folder.state_id()
        self._reports = os.open(folder.reports, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._keeper = Keeper(
            folder, self._boot_id, self._reports, emit=self._emit, flush=self._flush, complain=self._log.say
        )
        self._sampler = Sampler(folder.attempts)
        self._poller = select.poll()
        self._probes = Probes(self._poller, emit=self._emit, emit_line=self._emit_line, complain=self._log.say)
        self._listener: Optional[socket.socket] = None
        self._deaf_until = 0.0
        self._peers: Dict[int, Peer] = {}
        self._master: Optional[Peer] = None
        self._stop = False
        self._busy_at = time.monotonic()
        self._ops: Dict[str, Callable[[Dict[str, Any]], None]] = {
            "launch": self._keeper.launch,
            "kill": lambda message: self._keeper.kill(message["launch_id"], message.get("grace_s", DEFAULT_GRACE_S)),
            "ack": lambda message: self._keeper.ack(message["launch_ids"]),
            "ping": lambda _message: self._emit({"op": "pong"}),
            "probe": lambda message: self._probes.ask(message, time.monotonic()),
            "retire": self._retire,
        }

    def run(self, ready: Callable[[], None]) -> None:
        """Serve until SIGTERM, or until there is neither a master nor anything alive for long."""
        tree.become_subreaper()
        wake = self._hear_signals()
        self._keeper.load()
        listener = self._listener = self._folder.listen()
        for fd in (wake, listener.fileno(), self._reports):
            self._poller.register(fd, select.POLLIN)
        freeze = getattr(gc, "freeze", None)
        if freeze is not None:
            freeze()  # so that forks share what is there already
        self._log.say(f"serving {self._folder.path}, version {self._version}, pid {os.getpid()}")
        ready()
        while not self._stop:
            woken = self._poller.poll(self._timeout_ms())
            for fd, events in woken:
                if fd == wake:
                    self._reap(wake)
                elif fd == self._reports:
                    self._keeper.hear_all()
                elif fd == listener.fileno():
                    self._accept(listener)
                elif fd == self._sampler.fd:
                    self._on_sample()
                elif self._probes.owns(fd):
                    self._probes.on_ready(fd)
                else:
                    self._on_peer(fd, events)
            now = time.monotonic()
            self._tick(now)
            self._flush()
            if not woken and self._master is not None:
                self._keeper.forks.prepare(now)
        self._end()

    def _hear_signals(self) -> int:
        wake, write = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.signal(signal.SIGTERM, self._on_term)
        return wake

    def _end(self) -> None:
        """Leave everything to the shims. Who sees the connection end may start the next agent: the lock goes first."""
        self._sampler.stop()
        self._probes.drop()
        self._keeper.forks.dismiss()
        self._log.say("ended")
        self._folder.unlock()

    def _retire(self, _message: Dict[str, Any]) -> None:
        self._log.say("retired: the agent that is started next takes over")
        self._stop = True

    def _on_term(self, _number: int, _frame: object) -> None:
        self._stop = True

    def _timeout_ms(self) -> int:
        if self._master is not None and self._keeper.forks.wants_spare(time.monotonic()):
            return int(QUIET_S * 1000)
        return int((HURRY_S if self._keeper.hurried else TICK_S) * 1000)

    def _tick(self, now: float) -> None:
        self._keeper.look(now)
        self._probes.look(now)
        self._give_up_silent(now)
        self._keep_sampling(now)
        self._listen_again(now)
        if self._master is not None or not self._keeper.idle:
            self._busy_at = now
        elif now - self._busy_at > self._idle_s:
            self._stop = True

    def _reap(self, wake: int) -> None:
        try:
            os.read(wake, 4096)
        except BlockingIOError:
            return
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._sampler.pid:
                self._sampler.pid = 0
                self._drop_sampler()
            elif not self._keeper.reap(pid):
                self._probes.reap(pid)

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError as error:
            self._log.say(f"a connection was not accepted: {error.strerror}")
            if error.errno in _FULL:
                self._stop_listening(time.monotonic())
            return
        self._peers[sock.fileno()] = Peer(sock, time.monotonic())
        self._poller.register(sock, select.POLLIN)

    def _stop_listening(self, now: float) -> None:
        """Whoever waits would wake us without end. What strangers hold is given back."""
        for peer in list(self._peers.values()):
            if peer is not self._master:
                self._drop(peer)
        if self._listener is not None:
            self._poller.unregister(self._listener)
            self._deaf_until = now + FULL_S

    def _listen_again(self, now: float) -> None:
        if self._listener is not None and self._deaf_until and now >= self._deaf_until:
            self._poller.register(self._listener, select.POLLIN)
            self._deaf_until = 0.0

    def _on_peer(self, fd: int, events: int) -> None:
        peer = self._peers.get(fd)
        if peer is None:
            return
        if events & ~select.POLLOUT:
            try:
                for message in peer.read(time.monotonic()):
                    self._on_message(peer, message)
            except FrameError as error:
                self._log.say(f"a connection is given up: {error}")
                peer.closed = True
        if peer.closed:
            self._drop(peer)

    def _on_message(self, peer: Peer, message: Any) -> None:
        if not isinstance(message, dict) or peer.closed:
            return
        if message.get("op") == "hello" and peer is not self._master:
            self._on_hello(peer, message)
            return
        action = self._ops.get(str(message.get("op")))
        if peer is not self._master or action is None:
            return  # commands of a connection that was not welcomed, or of a newer protocol
        try:
            action(message)
        except (KeyError, TypeError, ValueError) as error:
            self._log.say(f"a message that cannot be obeyed: {message.get('op')} ({error!r})")

    def _on_hello(self, peer: Peer, message: Dict[str, Any]) -> None:
        try:
            epoch, incarnation = int(message["epoch"]), str(message["incarnation"])
            objection = self._authority.objection(epoch, incarnation, message.get("lineage") or [])
        except (KeyError, TypeError, ValueError, IndexError) as error:
            self._log.say(f"a hello that cannot be read: {error!r}")
            peer.closed = True
            return
        if objection is not None:
            self._refuse(peer, "fenced", objection)
        elif self._is_taken(incarnation):
            self._refuse(peer, "busy", "another master's connection to this agent is alive")
        else:
            self._welcome(peer, epoch, incarnation)
            self._sample_for(message)

    def _is_taken(self, incarnation: str) -> bool:
        master = self._master
        if master is None or master.closed or master.incarnation == incarnation:
            return False
        return time.monotonic() - master.heard < SILENCE_S

    def _refuse(self, peer: Peer, code: str, text: str) -> None:
        self._log.say(f"refused ({code}): {text}")
        known = {"epoch": self._authority.epoch, "incarnation": self._authority.incarnation}
        peer.send({"op": "refused", "code": code, "message": text, **known})
        peer.flush()
        peer.closed = True

    def _welcome(self, peer: Peer, epoch: int, incarnation: str) -> None:
        try:
            self._authority.obey(epoch, incarnation)
        except OSError as error:
            self._log.say(f"the master cannot be remembered, so it is not welcomed: {error.strerror}")
            peer.closed = True
            return
        if self._master is not None:
            self._drop(self._master)
        self._master = peer
        peer.incarnation = incarnation
        peer.send(self._greeting())
        peer.send({"op": "inventory", "attempts": self._keeper.inventory()})
        self._keeper.repeat_exits()

    def _greeting(self) -> Dict[str, Any]:
        return {
            "op": "welcome",
            "protocol": PROTOCOL,
            "version": self._version,
            "pid": os.getpid(),
            "boot_id": self._boot_id,
            "state_id": self._state_id,
            "hostname": socket.gethostname(),
            "python": ".".join(str(part) for part in sys.version_info[:3]),
            "cpus": os.cpu_count() or 1,
            "memory_mib": int(read_memory()["total"]) // MIB,
            "now": time.time(),
        }

    def _emit(self, message: Dict[str, Any]) -> None:
        if self._master is not None:
            self._master.send(message)

    def _emit_line(self, line: bytes) -> None:
        if self._master is not None:
            self._master.send_line(line)

    def _flush(self) -> None:
        for peer in list(self._peers.values()):
            if peer.wants_to_write:
                peer.flush()
            if peer.closed:
                self._drop(peer)
            else:
                interest = select.POLLIN | (select.POLLOUT if peer.wants_to_write else 0)
                self._poller.modify(peer.sock, interest)

    def _drop(self, peer: Peer) -> None:
        if self._peers.pop(peer.sock.fileno(), None) is not None:
            self._poller.unregister(peer.sock)
        peer.close()
        if peer is self._master:
            self._master = None
            self._probes.drop()
            self._keeper.forks.dismiss()

    def _give_up_silent(self, now: float) -> None:
        for peer in list(self._peers.values()):
            if now - peer.heard > SILENCE_S or (peer is not self._master and now - peer.since > HELLO_S):
                self._drop(peer)

    def _keep_sampling(self, now: float) -> None:
        """A child while a master listens."""
        wanted = self._master is not None
        if self._sampler.fd >= 0 and (not wanted or self._sampler.is_silent(now)):
            self._drop_sampler()
        if wanted and self._sampler.fd < 0 and not self._sampler.pid:
            try:
                self._sampler.start(now)
            except OSError as error:
                self._log.say(f"no sampling: {error.strerror}")
                return
            self._poller.register(self._sampler.fd, select.POLLIN)

    def _sample_for(self, hello: Dict[str, Any]) -> None:
        """Sample what this master asks for."""
        wanted = sampling_of(hello)
        if wanted != self._sampler.sampling:
            self._sampler.sampling = wanted
            self._drop_sampler()

    def _drop_sampler(self) -> None:
        if self._sampler.fd >= 0:
            self._poller.unregister(self._sampler.fd)
        self._sampler.stop()

    def _on_sample(self) -> None:
        try:
            line = self._sampler.read(time.monotonic())
        except EOFError:
            self._drop_sampler()
            return
        if line is not None and self._master is not None and not self._master.crowded:
            self._master.send_line(line)


def boot_id() -> str:
    """The kernel's name for this run of the machine (MUSTER_BOOT_ID overrides it)."""
    given = os.environ.get("MUSTER_BOOT_ID")
    if given:
        return given
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
