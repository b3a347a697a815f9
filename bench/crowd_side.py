"""The processes of `bench.crowds`: a crowd of slow senders, and a user who calls beside it, as accounts of their own.

`python -m bench.crowd_side crowd` and `… caller` read one JSON object from stdin, then one command per line. They print
one JSON line per command. If root starts them, any uid will do; it need not be in `/etc/passwd`.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401  (for `socket`; another account may not be able to read Python's library)
import json
import os
import resource
import select
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

BYTE_EVERY_S = 1.0
"""Each connection sends one byte in this time."""
BEFORE_LOGIN = b'{"jsonrpc":"2.0","id":2,"method":"auth.whoami","params":{"none of this is ever complete"'
LOGGED_IN = b'{"jsonrpc":"2.0","id":2,"method":"auth.whoami","params":{}}\n'
PATIENCE_S = 60.0
_AT_ONCE = 20
_ROOM = 1 << 16
_PAUSE_S = 0.005


def become(account: int) -> None:
    """Give up root for good and run as `account` (a uid). Without root the process stays what it is."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(account)
        os.setuid(account)


def show_token(sock: socket.socket, token: str) -> bool:
    """Log in with a token. False: the master refused, or closed the connection."""
    request = {"jsonrpc": "2.0", "id": 1, "method": "auth.token", "params": {"token": token}}
    try:
        sock.sendall(json.dumps(request).encode() + b"\n")
        return b'"result"' in read_line(sock)
    except OSError:
        return False


def read_line(sock: socket.socket) -> bytes:
    """Return one line; less of it where the master closes the connection. Raises OSError."""
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = sock.recv(_ROOM)
        if not piece:
            break
        line += piece
    return bytes(line)


class Crowd:
    """Connections of several accounts. Half of them log in; all of them then send a byte now and then."""

    def __init__(self) -> None:
        self._open: dict[socket.socket, bool] = {}

    def connect(self, job: dict[str, Any]) -> None:
        """Open `count` connections to `port` as `account`, and log in with every second one, with `tokens` by turns."""
        tokens = job["tokens"]
        for number in range(job["count"]):
            sock = socket_of(job["account"])
            place = len(self._open)
            try:
                sock.bind((f"127.1.{place // 250 % 250}.{1 + place % 250}", 0))
                sock.settimeout(PATIENCE_S)
                sock.connect(("127.0.0.1", job["port"]))
            except OSError:
                sock.close()
                continue
            is_in = bool(number % 2) and show_token(sock, tokens[number % len(tokens)])
            if number % 2 and not is_in:
                sock.close()
            else:
                sock.settimeout(0)
                self._open[sock] = is_in

    def send_slowly(self) -> None:
        """Send one byte over each connection in BYTE_EVERY_S, for ever."""
        at = 0
        while True:
            pause_s = BYTE_EVERY_S * _AT_ONCE / max(1, len(self._open))
            for place, (sock, is_in) in enumerate(list(self._open.items())):
                if place % _AT_ONCE == 0:  # time during which it was stopped is not made up for
                    time.sleep(min(pause_s, BYTE_EVERY_S))
                self._say(sock, (LOGGED_IN[(at + place) % len(LOGGED_IN) :] if is_in else BEFORE_LOGIN[at:])[:1])
            at += 1

    def _say(self, sock: socket.socket, byte: bytes) -> None:
        try:
            sock.send(byte)
            if sock.recv(_ROOM):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        sock.close()
        del self._open[sock]

    def close(self) -> None:
        """Close all connections."""
        while self._open:
            self._open.popitem()[0].close()

    def held(self) -> dict[str, int]:
        """Return how many connections the master holds. Those that it has closed are noticed only here at once."""
        look, each = select.poll(), {sock.fileno(): is_in for sock, is_in in list(self._open.items())}
        each.pop(-1, None)  # closed meanwhile
        for fd in each:
            look.register(fd, select.POLLRDHUP)
        over = {fd for fd, _ in look.poll(0)}
        here = [is_in for fd, is_in in each.items() if fd not in over]
        return {"before_login": len(here) - sum(here), "logged_in": sum(here)}


def socket_of(account: int) -> socket.socket:
    """Return a socket that the kernel says is this account's; our own where we are not root."""
    if os.geteuid() != 0:
        return socket.socket()
    os.seteuid(account)
    try:
        return socket.socket()
    finally:
        os.seteuid(0)


def crowd(jobs: list[dict[str, Any]]) -> None:
    """Connect for each job, then send. Answers `come` when all connections were tried, and `count`, with how many the
    master holds."""
    one = Crowd()
    for job in jobs:
        one.connect(job)
    threading.Thread(target=one.send_slowly, daemon=True).start()
    _serve({"come": lambda _: one.held(), "count": lambda _: one.held()})


def caller(job: dict[str, Any]) -> None:
    """A user with `tokens` by port, as `account`. Answers `PORT COUNT` with the seconds that each call takes.

    Each call is what a command does: connect, show the token, ask. `null` is a call that the master refused.
    """
    become(job["account"])

    def call(port: int, number: int) -> float | None:
        method = ("task.list", "server.info")[number % 2]
        asked = {"jsonrpc": "2.0", "id": 2, "method": method, "params": {"limit": 50} if number % 2 == 0 else {}}
        begun = time.perf_counter()
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as sock:
            if not show_token(sock, job["tokens"][str(port)]):
                return None
            sock.sendall(json.dumps(asked).encode() + b"\n")
            is_answered = b'"result"' in read_line(sock)
        return time.perf_counter() - begun if is_answered else None

    def calls(words: list[str]) -> list[float | None]:
        times = []
        for number in range(int(words[1])):
            times.append(call(int(words[0]), number))
            time.sleep(_PAUSE_S)
        return times

    _serve({"call": calls})


def _serve(commands: dict[str, Callable[[list[str]], Any]]) -> None:
    for line in sys.stdin:
        name, *words = line.split()
        print(json.dumps(commands[name](words)), flush=True)


def main() -> None:
    """Run one of the two."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    job = json.loads(sys.stdin.readline())
    if sys.argv[1] == "crowd":
        crowd(job)
    else:
        caller(job)


if __name__ == "__main__":
    main()
