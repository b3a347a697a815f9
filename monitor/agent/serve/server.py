"""The agent's loop: signals, the pipe of reports, the descriptors of all parts, and time.

It owns the waiting, in one thread, and hands each word of the master to whom it concerns: what a launch or a kill means
is `keeper`'s, who may command `admission`'s, what a connection is `connections`'.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import time
from contextlib import suppress
from typing import Any, Callable, Dict

from wire.account import Door
from wire.agent import DEFAULT_GRACE_S, IDLE_EXIT_S, TELLS_DOUBT

from .. import fork
from ..attempt.keeper import Keeper
from ..folder import Folder
from ..log import Log
from ..machine import boot_id
from ..probe.login import Login
from ..probe.logins import Logins
from ..probe.probes import Probes
from ..sample.sampler import Sampler
from .admission import Admission
from .connection import Connection
from .connections import Connections

TICK_S = 1.0
HURRY_S = 0.05
QUIET_S = 0.005
"""Nothing happened for so long: time to prepare the next launch."""


class Server:
    """`version`: the digest of the archive that runs."""

    def __init__(self, folder: Folder, version: str) -> None:
        self._folder = folder
        self._version = version
        self._log = Log(folder.log)
        boot = boot_id()
        self._idle_s = float(os.environ.get("MUSTER_AGENT_IDLE_S", IDLE_EXIT_S))
        door = Door()
        self._admission = Admission(folder, version, boot, door, self._log.say)
        self._reports = os.open(folder.reports, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._environment: Dict[str, str] = {}
        self._poller = select.poll()
        self._connections = connections = Connections(
            self._poller, on_message=self._on_message, on_lost=self._on_lost, complain=self._log.say
        )
        self._logins = Logins(self._poller, door, self._log.say)
        self._keeper = Keeper(
            *(folder, boot, self._reports, self._environment),
            logins=self._logins, emit=connections.emit, flush=connections.flush, complain=self._log.say,
        )  # fmt: skip
        self._sampler = Sampler(folder.attempts, self._poller, emit=self._emit_sample, complain=self._log.say)
        self._probes = Probes(
            *(self._poller, self._environment),
            logins=self._logins, emit=connections.emit, emit_line=connections.emit_line, complain=self._log.say,
        )  # fmt: skip
        self._stop = False
        self._guard_at = self._lost_at = self._busy_at = 0.0
        self._ops: Dict[str, Callable[[Dict[str, Any]], None]] = {
            "launch": self._keeper.launch,
            "kill": lambda message: self._keeper.kill(message["launch_id"], message.get("grace_s", DEFAULT_GRACE_S)),
            "pause": lambda message: self._keeper.pause(message["launch_id"]),
            "resume": lambda message: self._keeper.resume(message["launch_id"]),
            "ack": lambda message: self._keeper.ack(message["launch_ids"]),
            "ping": lambda _message: connections.emit({"op": "pong"}),
            "pace": self._pace,
            "probe": self._probes.ask,
            "retire": self._retire,
            "adopt": self._adopt,
        }

    def run(self, ready: Callable[[], None]) -> None:
        """Serve until SIGTERM, or until there is neither a master nor anything alive for long."""
        fork.become_subreaper()
        login = Login()
        wake = self._hear_signals()
        self._keeper.load()
        self._connections.listen(self._folder.listen())
        for fd in (wake, self._reports):
            self._poller.register(fd, select.POLLIN)
        self._folder.remember()
        self._take_environment(login)
        freeze = getattr(gc, "freeze", None)
        if freeze is not None:
            freeze()  # so that forks share these objects
        self._log.say(f"serving {self._folder.path}, version {self._version}, pid {os.getpid()}")
        ready()
        self._busy_at = time.monotonic()  # a log-in shell may have taken its time: whoever wants us comes only now
        while not self._stop:
            woken = self._poller.poll(self._timeout_ms())
            if any(fd == wake for fd, _ in woken):
                _drain(wake)
            self._reap()  # before all else: who asks something of a tree may have seen its shim die
            for fd, events in woken:
                if fd != wake:
                    self._on_ready(fd, events)
            now = time.monotonic()
            self._tick(now)
            self._connections.flush()
            if not woken and self._connections.master is not None:
                self._keeper.forks.prepare(now)
        self._end()

    def _take_environment(self, login: Login) -> None:
        """Take what a log-in gives over: the variables, and the umask. All files of the agent's own have a mode that no
        umask changes."""
        found = login.finish()
        self._environment.update(found.variables)
        self._admission.login_fault = found.fault
        if found.fault:
            self._log.say(found.fault)
        else:
            os.umask(found.umask)

    def _hear_signals(self) -> int:
        wake, write = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.signal(signal.SIGTERM, self._on_term)
        return wake

    def _on_term(self, _number: int, _frame: object) -> None:
        self._stop = True

    def _end(self) -> None:
        """Leave everything to the shims. A master that sees the connection end may start the next agent: the lock goes
        first."""
        self._sampler.stop()
        self._probes.drop()
        self._keeper.forks.dismiss_all()
        self._log.say("ended")
        self._folder.unlock()

    def _on_ready(self, fd: int, events: int) -> None:
        if fd == self._reports:
            self._keeper.hear_all()
        elif self._sampler.owns(fd):
            self._sampler.on_ready()
        elif self._probes.owns(fd):
            self._probes.on_ready(fd)
        elif self._logins.owns(fd):
            self._logins.on_ready(fd)
        else:
            self._connections.on_ready(fd, events)

    def _reap(self) -> None:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if not (self._sampler.reap(pid) or self._keeper.reap(pid) or self._logins.reap(pid)):
                self._probes.reap(pid)

    def _timeout_ms(self) -> int:
        now = time.monotonic()
        if self._connections.master is not None and self._keeper.forks.wants_spare(now):
            return int(QUIET_S * 1000)
        return int((HURRY_S if self._keeper.hurried(now) else TICK_S) * 1000)

    def _tick(self, now: float) -> None:
        self._keeper.look(now)
        self._probes.look(now)
        self._logins.look(now)
        self._connections.look(now)
        self._sampler.keep(now, wanted=self._connections.master is not None)
        self._guard_folder(now)
        if self._connections.master is not None or not self._keeper.idle:
            self._busy_at = now
        elif now - self._busy_at > self._idle_s:
            self._stop = True

    def _guard_folder(self, now: float) -> None:
        """Nobody can find us, and nothing can be started, once the folder is not ours: the next agent makes another,
        and the master tells it what runs here. Shims live on. The end of each finished attempt is told first, if a
        master is connected."""
        if now < self._guard_at:
            return
        self._guard_at = now + TICK_S
        if not self._folder.is_another():
            self._lost_at = now
            return
        is_heard = self._connections.master is not None and now - self._lost_at <= self._connections.silence_s
        if not is_heard or not self._keeper.waits_for_ack:
            self._log.say("the state folder is gone, or another one: this agent ends")
            self._stop = True

    def _on_message(self, connection: Connection, message: Any) -> None:
        if not isinstance(message, dict):
            return
        is_master = connection is self._connections.master
        if message.get("op") == "hello" and not is_master:
            self._on_hello(connection, message)
            return
        action = self._ops.get(str(message.get("op")))
        if not is_master or action is None:
            return  # commands of a connection that was not welcomed, or of a newer protocol
        try:
            action(message)
        except (KeyError, TypeError, ValueError) as error:
            self._log.say(f"a message that cannot be obeyed: {message.get('op')} ({error!r})")

    def _on_hello(self, connection: Connection, hello: Dict[str, Any]) -> None:
        incarnation = self._admission.admit(connection, hello, self._connections.living_master(time.monotonic()))
        if incarnation is None:
            return
        if not knows_doubt(hello):
            self._keeper.heard_all()
            self._keeper.look(time.monotonic())  # before it is welcomed, so that ends are told after its inventory
        self._connections.welcome(connection, incarnation)
        connection.send(self._admission.welcome())
        connection.send({"op": "inventory", "attempts": self._keeper.inventory()})
        self._keeper.repeat_exits()
        self._sampler.sample_for(hello)

    def _on_lost(self) -> None:
        """The master's connection is gone, and with it whoever waits for an answer."""
        self._probes.drop()
        self._keeper.forks.dismiss_all()

    def _pace(self, message: Dict[str, Any]) -> None:
        self._sampler.sample_every(float(message["sample_s"]))
        self._connections.expect(float(message["heartbeat_s"]))

    def _retire(self, _message: Dict[str, Any]) -> None:
        self._log.say("retired: the agent that is started next takes over")
        self._stop = True

    def _adopt(self, message: Dict[str, Any]) -> None:
        self._keeper.adopt(message["attempts"])
        self._connections.emit({"op": "inventory", "attempts": self._keeper.inventory()})

    def _emit_sample(self, line: bytes) -> None:
        master = self._connections.master
        if master is not None and not master.crowded:
            master.send_line(line)


def knows_doubt(hello: Dict[str, Any]) -> bool:
    """Whether this master tells what it knows of attempts whose records say too little."""
    protocol = hello.get("protocol")
    return isinstance(protocol, int) and protocol >= TELLS_DOUBT


def _drain(wake: int) -> None:
    with suppress(BlockingIOError):
        os.read(wake, 4096)
