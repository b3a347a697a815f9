"""A real sshd for a test: on a port of 127.0.0.1, with an account of its own whose home and password are the test's.

It runs in a mount namespace that is thrown away: passwd, shadow and /run are covered there, nothing on the machine is
changed. The account `lab` is another name for whoever runs the test, or has a uid of its own. Owns starting, stopping,
freezing and cleaning up.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from master.drivers.host_keys import offered
from master.nodes.driver import OfferedKey
from master.nodes.registry import NodeConfig
from tests import rights
from tests.ports import free_ports
from tests.waiting import until

PASSWORD = "öpen:sesame 1"  # noqa: S105  (a test's)
USER = "lab"

_CONFIG = """Port {port}
ListenAddress 127.0.0.1
HostKey {key}
AuthorizedKeysFile {folder}/authorized_keys
PasswordAuthentication {passwords}
KbdInteractiveAuthentication {questions}
PermitRootLogin yes
UsePAM {questions}
UseDNS no
StrictModes no
PidFile none
PrintMotd no
LogLevel VERBOSE
"""

_INSIDE = """set -e
mount --make-rprivate /
mount --bind "$1/passwd" /etc/passwd
mount --bind "$1/shadow" /etc/shadow
mount -t tmpfs -o size=1m,mode=755 tmpfs /run
mkdir -p -m 755 /run/sshd
if [ -n "$2" ]; then mkdir -p "$1/home/.local/state"; mount -t tmpfs -o size="$2" tmpfs "$1/home/.local/state"; fi
exec /usr/sbin/sshd -D -E "$1/sshd.log" -f "$1/sshd_config"
"""


class RealSshd:
    """`start` it; `close` ends it and every agent that was started through it. `folder` is its own, `uid` the
    account's (None: that of the test). `questions`: PAM asks for the password (`keyboard-interactive`)."""

    def __init__(
        self, folder: Path, *, passwords: bool = True, questions: bool = False, uid: int | None = None
    ) -> None:
        rights.need_users()  # sshd becomes another one before it has read a byte
        rights.need_program("sshd", "openssh-server")
        self.folder = folder
        self.home = folder / "home"
        self.port = free_ports(1)[0]
        self.client_key = folder / "client_key"
        self._key = folder / "host_key"
        self._process: subprocess.Popen[bytes] | None = None
        self._passwords = passwords
        self._questions = questions
        self._namespaces: list[int] = []
        """Held open: the number of one that is gone becomes another's."""
        self.more_config = ""
        self._ids = (os.getuid(), os.getgid()) if uid is None else (uid, uid)
        self.home.mkdir(parents=True)
        os.chown(self.home, *self._ids)
        make_key(self.client_key)
        (folder / "authorized_keys").write_bytes(self.client_key.with_suffix(".pub").read_bytes())
        self.shell("/bin/bash")
        self.new_host_key()

    # -- what it is -------------------------------------------------------------------------------------------

    def shell(self, path: str) -> None:
        """The account's log-in shell, from the next start on."""
        account = f"{USER}:x:{':'.join(map(str, self._ids))}::{self.home}:{path}\n"
        (self.folder / "passwd").write_text(account + Path("/etc/passwd").read_text(encoding="utf-8"), encoding="utf-8")
        hashed = subprocess.run(
            ["openssl", "passwd", "-6", "-stdin"], input=PASSWORD.encode(), capture_output=True, check=True
        )
        shadow = self.folder / "shadow"
        shadow.write_text(f"{USER}:{hashed.stdout.decode().strip()}:19000:0:99999:7:::\n", encoding="utf-8")
        shadow.chmod(0o600)

    def new_host_key(self) -> None:
        """Another host key, from the next start on."""
        make_key(self._key)

    @property
    def host_key(self) -> OfferedKey:
        """The key that it shows."""
        text = self._key.with_suffix(".pub").read_text(encoding="ascii").split()[1]
        return offered(base64.b64decode(text))

    def node(self, name: str = "n", **keys: Any) -> NodeConfig:
        """A registry's entry for it; by key unless `key_file` says otherwise."""
        base = {
            "ip": "127.0.0.1",
            "port": self.port,
            "user_name": USER,
            "gpu_count": 0,
            "key_file": str(self.client_key),
        }
        return NodeConfig(**{"name": name, **base, **keys})

    def log(self) -> str:
        """What sshd wrote."""
        with suppress(FileNotFoundError):
            return (self.folder / "sshd.log").read_text(encoding="utf-8", errors="replace")
        return ""

    # -- life -------------------------------------------------------------------------------------------------

    def start(self, state_size: str = "") -> None:
        """Start it and wait until it listens. `state_size`: of a small disk for the account's state, such as `64k`."""
        config = _CONFIG.format(
            port=self.port,
            key=self._key,
            folder=self.folder,
            passwords="yes" if self._passwords else "no",
            questions="yes" if self._questions else "no",
        )
        (self.folder / "sshd_config").write_text(config + self.more_config, encoding="utf-8")
        self._process = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", _INSIDE, "sh", str(self.folder), state_size],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        until("sshd listens", self._listens)
        self._namespaces.append(os.open(f"/proc/{self._process.pid}/ns/mnt", os.O_RDONLY))

    def _listens(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise AssertionError(f"sshd did not start: {self.log()}")
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as sock:
            return sock.recv(4) == b"SSH-"
        return False

    def stop(self) -> None:
        """End it, its connections with it; agents stay."""
        if self._process is None:
            return
        for pid in (*self._sessions(), self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def end_connections(self) -> None:
        """Cut every connection; it goes on listening."""
        for pid in self._sessions():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stopped, its connections with it: TCP goes on, nobody answers."""
        assert self._process is not None
        pids = (*self._sessions(), self._process.pid)
        for pid in pids:
            with suppress(ProcessLookupError):  # a session that ends by itself answers nobody either
                os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def _sessions(self) -> list[int]:
        return [pid for pid, _ in self.processes(lambda name: name.startswith("sshd"))]

    def processes(self, wanted: Callable[[str], bool] = lambda _: True) -> list[tuple[int, str]]:
        """What lives under it: pid and name. Agents, which left it, are not among them."""
        if self._process is None:
            return []
        children: dict[int, list[tuple[int, str]]] = {}
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
                name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
                children.setdefault(int(rest[1]), []).append((int(entry.name), name))
        found, todo = [], [self._process.pid]
        while todo:
            below = children.get(todo.pop(), [])
            found += [(pid, name) for pid, name in below if wanted(name)]
            todo += [pid for pid, _ in below]
        return found

    # -- what the account left --------------------------------------------------------------------------------

    def _left(self) -> list[int]:
        """The pids of the account's log-in shells, of what they wait for, and of its agents: all that lives in the
        mount namespaces of the servers. A process shows no environment while it becomes another program."""
        ours = {os.fstat(fd).st_ino for fd in self._namespaces}
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (entry / "ns/mnt").stat().st_ino in ours:
                    found.append(int(entry.name))
        return found

    def close(self) -> None:
        """Leave nothing."""
        self.stop()
        until("the account's processes are gone", lambda: not self._kill(), seen=self._left)
        for fd in self._namespaces:
            os.close(fd)
        self._namespaces.clear()

    def _kill(self) -> list[int]:
        left = self._left()
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return left


def make_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    """A private key in a file, the public half beside it; an earlier one is replaced."""
    for old in (path, path.with_suffix(".pub")):
        old.unlink(missing_ok=True)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", str(path)], check=True, timeout=60
    )
    return path


def registry_entry(node: NodeConfig) -> dict[str, Any]:
    """The entry as a registry's file has it."""
    entry: dict[str, Any] = json.loads(msgspec.json.encode(node))
    return {key: value for key, value in entry.items() if value is not None}
