"""A helper: begins as root, becomes one account for good, and then touches files and logs for the users of that
account.

It starts with the account's name, the accounts of the system that are allowed, and the path to the master; it reads
nothing else before all rights of root are dropped, and that is verified. All code that it needs is loaded by then, for
the account may have no right to read it. Each call comes with a connection of its own and has a thread of its own: a
storage that hangs blocks no other call. It ends with the master, and when it has had nothing to do for a while.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from master.files.beneath import kernel_can
from master.files.drafts import Drafts
from master.files.jail import Jail
from master.files.owners import Owners
from master.files.service import Seen
from master.files.upload import Uploads
from master.helpers.frames import (
    CALL,
    READY,
    Answer,
    Begins,
    BrokenError,
    Call,
    Done,
    Failed,
    Over,
    Setup,
    Tick,
    receive,
    send,
)
from master.helpers.operations import Bench, Logs, perform
from wire import (
    account,
    english,  # noqa: F401  (what is loaded late may lie where only root can read)
)
from wire.errors import MusterError

IDLE_S = 30.0
TICK_S = 1.0
"""So often at most it says that a call goes on."""
SETUP_BYTES = 128 << 10
_SET_DUMPABLE = 4


def main(words: list[str]) -> int:
    """`words`: the account, the accounts of the system's that may be meant (JSON), the umask (octal), and the number of
    the open connection to the master, or the path of its socket and the uid that it must have."""
    name, allowed, umask, *way = words
    control = _control(way)
    try:
        account.become(account.find(name, json.loads(allowed), elsewhere=""))
    except account.AccountError as error:
        control.send(str(error).encode("utf-8", "replace"))
        return 1
    _close_to_its_account()
    os.umask(int(umask, 8))
    os.chdir("/")
    control.send(READY)
    _Helper(control, msgspec.json.decode(control.recv(SETUP_BYTES), type=Setup)).serve()
    return 0


def _close_to_its_account() -> None:
    """Keep other processes of the same account from reading the master's messages here, which are about others' tasks,
    too. The kernel does so where a process gives up root's rights, unless the machine is set up otherwise."""
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def show(way: list[str]) -> int:
    """Show the master that what its agent starts is root's, on its machine."""
    _control(way).close()
    return 0


def _control(way: list[str]) -> socket.socket:
    if len(way) == 1:
        return socket.socket(fileno=int(way[0]))
    path, uid = way
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)  # noqa: PTH120
    try:
        control.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")  # noqa: PTH119  (a socket's name is short)
    finally:
        os.close(folder)
    if peer_of(control) != int(uid):
        raise PermissionError(1, "somebody else listens there")
    return control


def peer_of(connection: socket.socket) -> int:
    """The uid at the other end of a socket of the file system, as it was when that was opened."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(found[4:8], sys.byteorder)


class _Helper:
    """`_open`: how many calls are under way."""

    def __init__(self, control: socket.socket, setup: Setup) -> None:
        self._control = control
        self._setup = setup
        self._root = Path(setup.root)
        self._needed = tuple(place.needed() for place in setup.needed)
        self._owners = Owners(setup.files)
        self._by_kernel = kernel_can()
        self._open = 0
        self._lock = threading.Lock()

    def serve(self) -> None:
        """Until nobody needs it any more."""
        poller = select.poll()
        poller.register(self._control, select.POLLIN)
        is_asked = True
        while is_asked:
            if not poller.poll(IDLE_S * 1000):
                if not self._is_idle():
                    continue
                # From here on the master cannot ask; what it asked a moment ago is still heard.
                self._control.shutdown(socket.SHUT_RD)
            is_asked = self._take()
        poller.modify(self._control, 0)  # it is told all the same when the master is gone
        while not self._is_idle() and not poller.poll(TICK_S * 1000):
            pass

    def _take(self) -> bool:
        """The next call; False: there is none any more."""
        data, fds, _, _ = socket.recv_fds(self._control, len(CALL), 1)
        if data and fds:
            self._begin(socket.socket(fileno=fds[0]))
        return bool(data)

    def _begin(self, connection: socket.socket) -> None:
        with self._lock:
            self._open += 1
        try:
            threading.Thread(target=self._run, args=(connection,), daemon=True).start()
        except RuntimeError:  # the account may have no more processes; the master hears that nobody answers
            connection.close()
            self._ended()

    def _run(self, connection: socket.socket) -> None:
        try:
            with connection, suppress(BrokenError, OSError):  # the master is gone, and all with it
                self._answer(receive(connection, Call), _Saying(connection))
        finally:
            self._ended()

    def _is_idle(self) -> bool:
        with self._lock:
            return not self._open

    def _ended(self) -> None:
        with self._lock:
            self._open -= 1

    def _answer(self, call: Call, say: _Saying) -> None:
        say(Tick())  # a master that does not receive this knows that nothing was begun
        try:
            needed = [place.needed() for place in call.needed]
            result = perform(self._bench(call, say), call.op, call.args, say.tick, needed)
        except MusterError as error:
            say(Failed.of(error))
        except Exception as error:  # noqa: BLE001  (it is told to who waits)
            say(Failed(MusterError.code, None, {}, f"{call.op}: {error!r}"))
        else:
            say(Done(msgspec.Raw(msgspec.msgpack.encode(result))))

    def _bench(self, call: Call, say: _Saying) -> Bench:
        who, drafts = call.who, _ToldDrafts(say, call.upload_bytes)
        jail = Jail(self._root, self._setup.visible, by_kernel=self._by_kernel, drafts=drafts, needed=self._needed)
        sight = self._owners.sight(who)
        seen = jail if sight is None else jail.seen_by(sight)
        logs = Logs(self._owners, who, self._setup.root, self._setup.log_folder)
        return Bench(Seen(seen, Uploads(seen, drafts)), logs)


class _Saying:
    """One call's way back."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._next_tick = time.monotonic() + TICK_S

    def __call__(self, answer: Answer) -> None:
        send(self._connection, answer)

    def tick(self) -> None:
        """It goes on."""
        now = time.monotonic()
        if now >= self._next_tick:
            self._next_tick = now + TICK_S
            self(Tick())


class _ToldDrafts(Drafts):
    """The list of drafts is the master's, which says how many bytes this call's upload may have."""

    def __init__(self, say: _Saying, upload_bytes: int) -> None:
        super().__init__(None, lambda: upload_bytes)
        self._say = say

    def note(self, path: str, name: bytes, account: str = "", user: str = "") -> None:  # noqa: ARG002
        """A draft is about to be made."""
        self._say(Begins(path, name.decode(), working=False))

    def forget(self, name: bytes) -> None:
        """A draft is in its place, or gone."""
        self._say(Over(name.decode()))

    @contextmanager
    def noted(self, path: str, name: bytes, account: str = "", user: str = "") -> Iterator[None]:  # noqa: ARG002
        """A draft that lives as long as the body, however long that is."""
        self._say(Begins(path, name.decode(), working=True))
        yield
