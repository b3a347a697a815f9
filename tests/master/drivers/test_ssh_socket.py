"""TCP to a node: by number, by name, through a SOCKS proxy that may want a password."""

from __future__ import annotations

import select
import socket
import struct
import threading
from contextlib import suppress

import pytest

from master.drivers import ssh_socket
from master.nodes.driver import CannotConnectError
from master.nodes.registry import NodeConfig
from tests.faults import part
from tests.master.drivers.real_sshd import RealSshd
from tests.master.drivers.ssh_story import Site, mute, nothing_left, run
from tests.ports import free_ports
from wire.message import Message

SECRET = "gehe:im@"  # noqa: S105  (a test's)


class Proxy:
    """A SOCKS5 proxy that knows one user, if any, and goes where it is told. `asked`: the addresses, by kind."""

    def __init__(self, *, password: str = "") -> None:
        self.asked: list[tuple[str, str]] = []
        self._password = password
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._serve)]
        self._threads[0].start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(60)

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self._threads.append(threading.Thread(target=self._handle, args=(peer,)))
                self._threads[-1].start()

    def _handle(self, peer: socket.socket) -> None:
        with peer, suppress(OSError, EOFError):
            if self._welcome(peer):
                self._go(peer)

    def _welcome(self, peer: socket.socket) -> bool:
        read(peer, read(peer, 2)[1])
        if not self._password:
            peer.sendall(b"\5\0")
            return True
        peer.sendall(b"\5\2")
        user = read(peer, read(peer, 2)[1])
        good = (user, read(peer, read(peer, 1)[0])) == (b"lab", self._password.encode())
        peer.sendall(b"\1\0" if good else b"\1\1")
        return good

    def _go(self, peer: socket.socket) -> None:
        kind = read(peer, 4)[3]
        host = socket.inet_ntoa(read(peer, 4)) if kind == 1 else read(peer, read(peer, 1)[0]).decode()
        (port,) = struct.unpack(">H", read(peer, 2))
        self.asked.append(("name" if kind == 3 else "number", host))
        try:
            target = socket.create_connection((host, port), 5)
        except OSError:
            peer.sendall(b"\5\5\0\1" + bytes(6))
            return
        with target:
            peer.sendall(b"\5\0\0\1" + bytes(6))
            other = {peer: target, target: peer}
            while True:
                for one in select.select(list(other), [], [])[0]:
                    data = one.recv(65536)
                    if not data:
                        return
                    other[one].sendall(data)


def read(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = peer.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


@pytest.fixture
def site(site: Site, server: RealSshd) -> Site:
    """It knows the server's key, by number and by name."""
    site.trust(server)
    site.keys.pin("localhost", server.port, server.host_key)
    return site


def node(port: int, proxy: str | None = None, ip: str = "127.0.0.1") -> NodeConfig:
    return NodeConfig(name="n", gpu_count=0, ip=ip, port=port, user_name="lab", proxy=proxy)


@pytest.mark.parametrize(("scheme", "password"), [("socks5", ""), ("socks5", SECRET), ("socks5h", SECRET)])
def test_an_agent_is_reached_through_a_proxy(scheme: str, password: str, server: RealSshd, site: Site) -> None:
    proxy = Proxy(password=password)
    credentials = "lab:gehe%3Aim%40@" if password else ""
    url = f"{scheme}://{credentials}127.0.0.1:{proxy.port}"

    async def story() -> None:
        for ip in ("127.0.0.1", "localhost"):
            line = await site.connected(server.node(ip=ip, proxy=url))
            line.transport.abort()
            await line.end()

    try:
        run(story())
    finally:
        proxy.close()
    # With `socks5h` the proxy looks names up; with `socks5` we do.
    assert proxy.asked == [
        ("number", "127.0.0.1"),
        ("name", "localhost") if scheme[-1] == "h" else ("number", "127.0.0.1"),
    ]


def test_what_a_proxy_cannot_do_is_told_without_its_password(site: Site) -> None:
    proxy = Proxy(password=SECRET)
    nobody = free_ports(1)[0]
    address, there = f"127.0.0.1:{proxy.port}", f"127.0.0.1:{nobody}"
    cases = {
        f"socks5://lab:gehe%3Aim%40@{address}": Message("proxy_not_through", proxy=address, where=there),
        f"socks5://lab:wrong-secret@{address}": Message("proxy_log_in", proxy=address),
        f"socks5://{address}": Message("proxy_log_in", proxy=address),
        f"socks5://x:y@{there}": Message("proxy_refuses", peer=Message("by_proxy", proxy=there)),
    }
    try:
        for url, why in cases.items():
            with nothing_left():
                refusal = run(site.refusal(node(nobody, url)))
            assert part(refusal.why, why) == why
            assert "gehe" not in str(refusal)
            assert "wrong-secret" not in str(refusal)
    finally:
        proxy.close()


def test_a_proxy_that_says_nothing_is_given_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_socket, "CONNECT_S", 0.3)
    nobody = free_ports(1)[0]
    with mute() as port, nothing_left():
        refusal = run(site.refusal(node(nobody, f"socks5://127.0.0.1:{port}")))
    asked = Message("proxy_asked", proxy=f"127.0.0.1:{port}", where=f"127.0.0.1:{nobody}")
    why = Message("no_answer_in_time", peer=asked)
    assert part(refusal.why, why) == why


def test_a_node_may_have_a_name_and_a_wrong_one_is_told(server: RealSshd, site: Site) -> None:
    async def story() -> None:
        line = await site.connected(server.node(ip="localhost"))
        line.transport.abort()
        await line.end()
        for name in ("no-such-machine.invalid", "a..b"):  # the second, Python itself refuses
            refusal = await site.refusal(node(22, ip=name))
            assert refusal.why.key in ("name_not_found", "name_impossible")
            assert refusal.why.args["name"] == name
            assert refusal.patience == "short"

    with nothing_left():
        run(story())


def test_a_name_that_we_cannot_look_up_is_not_said_to_be_the_proxys_fault(site: Site) -> None:
    proxy = Proxy()
    url = f"socks5://127.0.0.1:{proxy.port}"
    try:
        with nothing_left():
            refusal = run(site.refusal(node(22, url, ip="no-such-machine.invalid")))
            assert refusal.why.key == "name_for_the_proxy"
            looked_up = refusal.why.args["why"]
            assert isinstance(looked_up, Message)
            assert (looked_up.key, looked_up.args["name"]) == ("name_not_found", "no-such-machine.invalid")
            for scheme in ("socks5", "socks5h"):
                refusal = run(site.refusal(node(22, url.replace("socks5", scheme), ip="a..b")))
                assert "a..b" in str(refusal)
    finally:
        proxy.close()


def test_only_names_and_proxies_need_a_thread() -> None:
    assert [ssh_socket.needs_thread(node(22, ip=ip)) for ip in ("10.0.0.1", "fe80::1", "gpu1.lab")] == [
        False,
        False,
        True,
    ]
    assert ssh_socket.needs_thread(node(22, "socks5://p:1"))


def test_the_sockets_options_are_set_before_anything_is_sent() -> None:
    async def story() -> None:
        with mute() as port, await ssh_socket.connect(node(port)) as sock:
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 10_000
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1

    run(story())


def test_an_ipv6_address_is_told_apart_from_its_port() -> None:
    assert ssh_socket.where(node(2222, ip="::1")) == "[::1]:2222"

    async def story() -> None:
        await ssh_socket.connect(node(free_ports(1)[0], ip="::1"))

    with pytest.raises(CannotConnectError, match=r"^\[::1\]:\d+ "):
        run(story())
