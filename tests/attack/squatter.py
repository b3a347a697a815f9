"""Somebody who takes a port of this machine, in each way that an account without rights has: a real process of theirs.
It tells what it heard."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.rights import need_users
from tests.waiting import PATIENCE_S

WAYS = ("takes", "takes later", "hands on", "behind root's listener", "root of a user namespace")
ROOTS = "behind root's listener"
_PROGRAM = """
import ctypes, os, select, socket, sys
uid, host, port, way = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]

def become():
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)

if way != "behind root's listener":
    become()
if way == "root of a user namespace":
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(4, 1)  # its own files in /proc are its own again
    if libc.unshare(0x10000000):
        sys.exit("no user namespaces for ordinary accounts")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {uid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    assert os.geteuid() == 0
server = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if port == 0:
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
server.bind((host, port))
server.listen()
if way == "behind root's listener":
    become()
print(server.getsockname()[1], flush=True)
heard = b""
try:
    waits_for = [sys.stdin] if way == "takes later" else [sys.stdin, server]
    while True:
        ready = select.select(waits_for, [], [])[0] if waits_for else select.select([server], [], [], 0)[0]
        if sys.stdin in ready:
            waits_for = []
        elif not ready:
            break
        if server not in ready:
            continue
        caller = server.accept()[0]
        if way == "hands on":
            reader, writer = os.pipe()
            if os.fork() == 0:
                while data := caller.recv(65536):
                    os.write(writer, data)
                os._exit(0)
            caller.close()
            os.close(writer)
            while data := os.read(reader, 65536):
                heard += data
        else:
            caller.settimeout(60)
            while data := caller.recv(65536):
                heard += data
                if data[:1] == b"\\x16":
                    caller.sendall(b"in plain text\\n")
        caller.close()
except (BrokenPipeError, ConnectionResetError):
    pass
print(heard.decode(errors="replace"), flush=True)
"""
"""Takes connections one after the other, and hears all of each; once it is told to, only those that came by then. TLS
is answered in plain text."""


def as_account(uid: int) -> list[str]:
    """What a command line begins with whose process is this account's. It may read everything, for the interpreter may
    lie in a folder of root's; the kernel calls it by its uid all the same."""
    may_read = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *may_read]


class Squatter:
    """The process; `port` is where it listens."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said, "it could not take the port"
        self.port = int(said)

    def heard(self) -> str:
        """All that somebody said to it, whose connections are over by now."""
        return self.process.communicate("\n", timeout=PATIENCE_S)[0].strip()


@contextmanager
def squatting(uid: int, host: str = "127.0.0.1", way: str = "takes", port: int = 0) -> Iterator[Squatter]:
    """While it has the port (0: one that is free)."""
    need_users()
    words = [sys.executable, "-c", _PROGRAM, str(uid), host, str(port), way]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Squatter(process)
        finally:
            process.kill()
