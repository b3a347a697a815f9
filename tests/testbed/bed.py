"""A whole testbed: so many hosts, a folder that all of them share, and a proxy to those that nobody sees directly."""

from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Self, TextIO

from tests import rights
from tests.testbed import accounts, leftovers
from tests.testbed.errors import TestbedError
from tests.testbed.host import Host, Room
from tests.testbed.network import Network
from tests.waiting import NeverError, until

SOCKS_PORT = 1080
_NEEDED = {
    "ip": "iproute2",
    "tc": "iproute2",
    "sshd": "openssh-server",
    "ssh-keygen": "openssh-client",
    "unshare": "util-linux",
}
_REPOSITORY = Path(__file__).parents[2]


class Testbed:
    """`count` hosts, numbered from 1; those in `inner` only the proxy reaches. Use it as a context manager.

    `shared` is a folder that all hosts and this machine have at the same path, as with NFS. `key` opens the account of
    every host.
    """

    __test__ = False  # pytest takes every class called Test… for tests

    def __init__(self, count: int, *, inner: Collection[int] = ()) -> None:
        self.hosts: list[Host] = []
        self._count = count
        self._inner = frozenset(inner)
        self._network = Network(secrets.token_hex(3))
        self.folder = leftovers.base() / self._network.run
        self.shared = self.folder / "shared"
        self.key = self.folder / "key"
        self._room = Room(self._network, self.folder / "hosts", self.folder / "etc", self.shared, self.key)
        self._owner: TextIO | None = None
        self._proxy: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        _check_machine()
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        with leftovers.alone():
            leftovers.sweep()
            self.folder.mkdir(mode=0o755)
            self._owner = leftovers.own(self.folder)
            self._network.open()
        self._room.folder.mkdir()
        self.shared.mkdir()
        self.shared.chmod(0o1777)
        accounts.make_key(self.key)
        accounts.copy_etc(self._room.etc)
        if self._inner:
            self._network.open_gateway()
            self.start_proxy()
        self.hosts = [Host(self._room, number, inner=number in self._inner) for number in range(1, self._count + 1)]
        names = "".join(f"{host.address} {host.name}\n" for host in self.hosts)
        (self._room.etc / "hosts").write_text(f"127.0.0.1 localhost\n{names}", encoding="ascii")
        self._boot()

    def _boot(self) -> None:
        for host in self.hosts:
            host.start_booting()
        for host in self.hosts:
            host.await_booted()

    def renew(self) -> None:
        """Every host as new, and nothing in the shared folder."""
        for host in self.hosts:
            host.wipe()
        for path in self.shared.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self._boot()

    def close(self) -> None:
        """End everything and leave nothing."""
        for host in self.hosts:
            if host.is_on:
                host.power_off()
        if self._proxy is not None:
            self.stop_proxy()
        if self._owner is not None:
            with leftovers.alone():
                leftovers.clear(self.folder)
            self._owner.close()
            self._owner = None

    def host(self, name: str) -> Host:
        """The host of that name. Raises TestbedError."""
        for host in self.hosts:
            if host.name == name:
                return host
        raise TestbedError(f"there is no host {name}")

    # -- what is not a host -----------------------------------------------------------------------------------

    @property
    def master_address(self) -> str:
        """This machine's address, as the hosts that are not inner see it."""
        return self._network.master

    @property
    def blackhole(self) -> str:
        """An address that swallows packets: a connection to it is neither taken nor refused."""
        return self._network.swallowed

    @property
    def proxy(self) -> str:
        """The SOCKS5 proxy to the inner hosts, as a registry names it."""
        return f"socks5://{self.proxy_address[0]}:{self.proxy_address[1]}"

    @property
    def proxy_address(self) -> tuple[str, int]:
        """Where the proxy listens."""
        return self._network.gateway_address, SOCKS_PORT

    def start_proxy(self, delay_s: float = 0.0) -> None:
        """Start the proxy; returns when it listens. Bytes take `delay_s` each way. Raises TestbedError."""
        address = self._network.gateway_address
        program = [sys.executable, "-m", "tests.testbed.socks", address, str(SOCKS_PORT), str(delay_s)]
        with (self.folder / "proxy.log").open("ab") as log:
            self._proxy = subprocess.Popen(
                ["ip", "netns", "exec", self._network.gateway, *program],
                cwd=_REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            until("the proxy listens", lambda: _answers(address, SOCKS_PORT) or self._proxy_ended())
        except NeverError as error:
            raise TestbedError(str(error)) from None
        if self._proxy_ended():
            said = (self.folder / "proxy.log").read_text(encoding="utf-8", errors="replace")
            raise TestbedError(f"the proxy does not listen: {said.strip()[-300:]}")

    def _proxy_ended(self) -> bool:
        return self._proxy is not None and self._proxy.poll() is not None

    def stop_proxy(self) -> None:
        """End the proxy with every connection through it."""
        if self._proxy is None:
            raise TestbedError("there is no proxy")
        self._proxy.kill()
        self._proxy.wait()
        self._proxy = None


def _answers(address: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((address, port), 1.0):
        return True
    return False


def _check_machine() -> None:
    """Raises CannotHere when this machine, or this account, cannot have a testbed."""
    rights.need_root()
    rights.need_users()
    for program, package in _NEEDED.items():
        rights.need_program(program, package)
