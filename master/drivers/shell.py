"""`muster shell NODE`: a shell on a node, by the way the master itself goes there: host keys, log-in, proxy.

Owns the terminal while the shell runs: its raw mode, its size, and that it is restored however the shell ends. Without
a terminal it is a pipe. It needs no running master.
"""

from __future__ import annotations

import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import paramiko

from master.config.config import Config
from master.drivers import host_keys
from master.drivers.passwords import Passwords
from master.drivers.ssh_channel import BROKEN
from master.drivers.ssh_login import CHANNEL_S, close, log_in
from master.drivers.ssh_socket import connect_blocking
from master.nodes.driver import CannotConnectError
from master.nodes.registry import NodeConfig, load_registry
from wire.errors import BadRequestError, NodeUnreachableError, NotFoundError
from wire.message import Message

KEEP_ALIVE_S = 15
ENDING_S = 2.0
CHUNK = 32 << 10
CONNECTION_LOST = 255
"""The exit status of ssh itself when the connection fails."""


def main(config: Config, node: str) -> int:
    """Run the shell to its end and give its exit status. Raises MusterError if there is none."""
    nodes = {entry.name: entry for entry in load_registry(config.registry)}
    found = nodes.get(node)
    if found is None:
        raise NotFoundError(Message("no_such_node_in", node=node, path=str(config.registry), nodes=tuple(nodes)))
    if found.traits.is_this_machine:
        return _local()
    if not found.traits.is_over_ssh:
        raise BadRequestError(Message("no_shell_there", node=node, driver=found.driver))
    return _remote(config, found)


def _local() -> int:
    account = pwd.getpwuid(os.getuid())
    shell = os.environ.get("SHELL") or account.pw_shell or "/bin/sh"
    with suppress(OSError):
        os.chdir(account.pw_dir)
    process = subprocess.Popen([shell])
    while True:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            continue
        return 128 - code if code < 0 else code


def _remote(config: Config, node: NodeConfig) -> int:
    transport: paramiko.Transport | None = None
    sock = None
    try:
        sock = connect_blocking(node)
        transport = log_in(sock, node, host_keys.of_lab(config.task_info), Passwords(config.psw))
        transport.set_keepalive(KEEP_ALIVE_S)
        return _Session(transport).run()
    except CannotConnectError as error:
        raise NodeUnreachableError(Message("node_said", node=node.name, said=error.why)) from None
    except BROKEN as error:
        broke = Message("link_broke", said=str(error))
        raise NodeUnreachableError(Message("node_said", node=node.name, said=broke)) from None
    finally:
        if sock is not None:
            close(transport, sock)


class _Session:
    """The shell's channel between our three standard streams."""

    def __init__(self, transport: paramiko.Transport) -> None:
        self._terminal = os.isatty(0)
        self._channel = transport.open_session(timeout=CHANNEL_S)
        if self._terminal:
            size = shutil.get_terminal_size()
            self._channel.get_pty(os.environ.get("TERM") or "vt100", size.columns, size.lines)
        self._channel.invoke_shell()

    def run(self) -> int:
        """Copy until the shell ends; its exit status."""
        with _raw_terminal() if self._terminal else nullcontext(), _wake_ups() as signals:
            errors = threading.Thread(target=self._copy, args=(self._channel.recv_stderr, 2), daemon=True)
            errors.start()
            # Signals arrive in the main thread, which may hold paramiko's locks: the size is sent by another one.
            threading.Thread(target=self._send, args=(signals,), daemon=True).start()
            self._copy(self._channel.recv, 1)
            errors.join(ENDING_S)
        return self._status()

    def _status(self) -> int:
        transport = self._channel.get_transport()
        while not self._channel.status_event.wait(1.0) and transport.is_active():
            pass
        status = self._channel.exit_status
        if status < 0 and not transport.is_active():
            sys.stderr.write("the connection is lost\n")
        return status if status >= 0 else CONNECTION_LOST

    def _copy(self, receive: Any, fd: int) -> None:
        while data := receive(CHUNK):
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]

    def _send(self, signals: int) -> None:
        sources = [0, signals]
        with suppress(*BROKEN):
            while True:
                ready, _, _ = select.select(sources, [], [])
                if signals in ready and os.read(signals, 512):
                    size = shutil.get_terminal_size()
                    self._channel.resize_pty(size.columns, size.lines)
                if 0 in ready:
                    data = os.read(0, CHUNK)
                    if not data:
                        self._channel.shutdown_write()
                        sources.remove(0)
                    self._channel.sendall(data)


@contextmanager
def _raw_terminal() -> Iterator[None]:
    """Each key to the other side as it is. The terminal is as before afterwards, also after TERM and HUP."""
    before = termios.tcgetattr(0)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        tty.setraw(0, termios.TCSADRAIN)  # what was typed already is kept
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


@contextmanager
def _wake_ups() -> Iterator[int]:
    """A descriptor from which a byte can be read for each change of the terminal's size."""
    reader, writer = os.pipe()
    for fd in (reader, writer):
        os.set_blocking(fd, False)
    signal.signal(signal.SIGWINCH, lambda *_: None)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(before)
        os.close(writer)
