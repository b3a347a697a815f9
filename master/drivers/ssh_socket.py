"""A TCP connection to a node: to a number without a thread, to a name or through a SOCKS proxy in the caller's.

Owns the socket's options and what each failure means to an admin. It speaks no SSH.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import re
import socket
from urllib.parse import unquote, urlsplit

from master.nodes.driver import CannotConnectError
from master.nodes.registry import NodeConfig, misspelt_address
from wire.message import Message

CONNECT_S = 10.0
SILENT_MS = 10_000
"""After this long without an acknowledgement of what was sent the kernel gives the connection up."""
KEEP_ALIVE_S = (10, 5)
"""Idle this long, the kernel asks; and then again this often."""
_REPLY_CODE = re.compile(r"^0x[0-9a-f]{2}: ")
"""The prefix that PySocks puts before the meaning of a reply code."""


def where(node: NodeConfig) -> str:
    """The node's address, for messages."""
    return f"[{node.ip}]:{node.port}" if ":" in node.ip else f"{node.ip}:{node.port}"


def needs_thread(node: NodeConfig) -> bool:
    """Whether connecting blocks: names are looked up, proxies are talked to."""
    if node.proxy:
        return True
    try:
        ipaddress.ip_address(node.ip)
    except ValueError:
        return True
    return False


async def connect(node: NodeConfig) -> socket.socket:
    """Connect to a node whose `ip` is a number. Raises CannotConnectError."""
    family = socket.AF_INET6 if ipaddress.ip_address(node.ip).version == 6 else socket.AF_INET  # noqa: PLR2004
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        _prepare(sock)
        async with asyncio.timeout(CONNECT_S):
            await asyncio.get_running_loop().sock_connect(sock, (node.ip, node.port))
    except OSError as error:
        sock.close()
        raise CannotConnectError(_meaning(where(node), error)) from None
    except BaseException:
        sock.close()
        raise
    return sock


def connect_blocking(node: NodeConfig) -> socket.socket:
    """Connect to a node however it is named, through its proxy if it has one. Raises CannotConnectError."""
    if (why := misspelt_address(node.ip)) is not None:
        raise CannotConnectError(why, "long")
    if node.proxy:
        return _through_proxy(node, node.proxy)
    try:
        sock = socket.create_connection((node.ip, node.port), CONNECT_S)
    except (socket.gaierror, UnicodeError) as error:
        raise CannotConnectError(_no_such_name(node, error)) from None
    except OSError as error:
        raise CannotConnectError(_meaning(where(node), error)) from None
    _prepare(sock)
    return sock


def _through_proxy(node: NodeConfig, proxy: str) -> socket.socket:
    import socks  # noqa: PLC0415  (only who has a proxy needs PySocks)

    url = urlsplit(proxy)
    by = f"{url.hostname}:{url.port}"
    wrapped = socks.socksocket()
    try:
        wrapped.set_proxy(
            socks.SOCKS5,
            url.hostname,
            url.port,
            rdns=url.scheme == "socks5h",
            username=unquote(url.username) if url.username else None,
            password=unquote(url.password) if url.password else None,
        )
        wrapped.settimeout(CONNECT_S)
        wrapped.connect((node.ip, node.port))
        # PySocks wraps each send and receive; a plain socket from here on.
        sock = socket.socket(fileno=wrapped.detach())
    except socks.ProxyConnectionError as error:
        raise CannotConnectError(_proxy_is_away(by, error.socket_err)) from None
    except socks.ProxyError as error:
        raise _refused(by, node, error.socket_err or error) from None
    except UnicodeError as error:
        raise CannotConnectError(_no_such_name(node, error)) from None
    except OSError as error:
        raise CannotConnectError(_meaning(Message("through_proxy", where=where(node), proxy=by), error)) from None
    finally:
        wrapped.close()
    _prepare(sock)
    return sock


def _refused(proxy: str, node: NodeConfig, error: Exception) -> CannotConnectError:
    if "authentication" in str(error):
        return CannotConnectError(Message("proxy_log_in", proxy=proxy), "long")
    if isinstance(error, socket.gaierror):
        return CannotConnectError(Message("name_for_the_proxy", why=_no_such_name(node, error)))
    if isinstance(error, TimeoutError):
        return CannotConnectError(_meaning(Message("proxy_asked", proxy=proxy, where=where(node)), error))
    said = _REPLY_CODE.sub("", str(getattr(error, "msg", None) or error))
    return CannotConnectError(Message("proxy_not_through", proxy=proxy, where=where(node), said=said))


def _no_such_name(node: NodeConfig, error: Exception) -> Message:
    said = getattr(error, "strerror", None)
    if not said:  # Python refuses some names (`a..b`) before anybody is asked
        return Message("name_impossible", name=node.ip)
    return Message("name_not_found", name=node.ip, said=said)


def _prepare(sock: socket.socket) -> None:
    options = {
        (socket.IPPROTO_TCP, socket.TCP_NODELAY): 1,
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE): 1,
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE): KEEP_ALIVE_S[0],
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL): KEEP_ALIVE_S[1],
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT): SILENT_MS,
    }
    for (level, name), value in options.items():
        sock.setsockopt(level, name, value)


def _meaning(peer: Message | str, error: Exception) -> Message:
    number = errno.ETIMEDOUT if isinstance(error, TimeoutError) else getattr(error, "errno", None)
    if number == errno.ECONNREFUSED:
        return Message("connection_refused", peer=peer)
    if number == errno.EHOSTUNREACH:
        return Message("machine_off", peer=peer)
    if number == errno.ENETUNREACH:
        return Message("no_route", peer=peer)
    if number == errno.ETIMEDOUT:
        return Message("no_answer_in_time", peer=peer, seconds=CONNECT_S)
    return Message("not_reached", peer=peer, said=getattr(error, "strerror", None) or str(error))


def _proxy_is_away(proxy: str, error: Exception) -> Message:
    peer = Message("by_proxy", proxy=proxy)
    refuses = getattr(error, "errno", None) == errno.ECONNREFUSED
    return Message("proxy_refuses", peer=peer) if refuses else _meaning(peer, error)
