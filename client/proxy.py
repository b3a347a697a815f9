"""A connection to the master through a SOCKS5 proxy, for a PC that does not see it. Loaded only where there is one."""

from __future__ import annotations

import socket

WAY = "socks5://[USER:PASSWORD@]HOST:PORT"
_LOCAL, _REMOTE = "socks5", "socks5h"
"""The scheme says which machine looks up the master's name: this machine, or the proxy."""


def dial(proxy: str, host: str, port: int, timeout: float) -> socket.socket:
    """Connect to HOST:PORT. `timeout` in seconds. Raises OSError, and ConfigError for what is no proxy's address; a
    password in it is never shown."""
    import socks

    from wire.message import Message

    scheme, gate, gate_port, user, password = _parse(proxy)
    try:
        wrapped = socks.create_connection(
            (host, port),
            timeout=timeout,
            proxy_type=socks.SOCKS5,
            proxy_addr=gate,
            proxy_port=gate_port,
            proxy_rdns=scheme == _REMOTE,
            proxy_username=user,
            proxy_password=password,
        )
    except socks.SOCKS5AuthError:
        raise OSError(Message("proxy_refuses_user", proxy=f"{gate}:{gate_port}")) from None
    except socks.ProxyConnectionError as error:
        detail = str(getattr(error.socket_err, "strerror", None) or error.socket_err).lower()
        raise OSError(Message("proxy_away", proxy=f"{gate}:{gate_port}", detail=detail)) from None
    except socks.ProxyError as error:
        raise OSError(Message("proxy_fails", proxy=f"{gate}:{gate_port}", detail=str(error.msg))) from None
    # PySocks wraps each send and receive; a plain socket from here on.
    sock = socket.socket(fileno=wrapped.detach())
    sock.settimeout(timeout)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _parse(proxy: str) -> tuple[str, str, int, str | None, str | None]:
    from urllib.parse import unquote, urlsplit

    try:
        url = urlsplit(proxy)
        scheme, host, port = url.scheme, url.hostname, url.port
    except ValueError:
        scheme, host, port = "", None, None
    if scheme not in (_LOCAL, _REMOTE) or not host or not port:
        from client.refusals import config_error

        raise config_error("proxy_expected", way=WAY, remote=_REMOTE)
    return (
        scheme,
        host,
        port,
        None if url.username is None else unquote(url.username),
        None if url.password is None else unquote(url.password),
    )
