"""One blocking connection to one port of the master: calls, their replies, and the notifications in between.

Owns the socket, the matching of replies and the reconnect of calls that may be repeated. Knows no verb by name except
`auth.login`. Errors are imported only when there is one: this module is on the path of every command's start.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress

from client.dialling import CONNECT_TIMEOUT_S, Place, places
from client.long_json import loads
from client.other_end import OtherEnd
from client.refusals import coded_error
from wire.framing import LineDecoder, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.trust import Trust
    from wire.message import Message

REPLY_LIMIT = 1 << 30
"""Bytes of one reply. We trust our master; the cap is there for the case that the port belongs to something else."""
REQUEST_LIMIT = 16 * 1024 * 1024
CALL_TIMEOUT_S = 60.0
PATIENCE_S = 15.0
"""How long a call that may be repeated is tried again after its connection broke (a master being restarted)."""
_CHUNK = 1 << 16
"""Room for what is received at once. From 128 KiB on the C library asks the kernel for it each time, and gives it back,
which takes as long as all else that is done for a short answer."""


class ConnectionLostError(Exception):
    """Inside this package only: the connection broke; a caller that may repeat the call does so, others report the
    error."""


_ASKED_IN_PLAIN = ("server.info",)
"""All that is sent in plain text to another machine: it tells nothing."""


class Session:
    """A connection to HOST:PORT, opened at the first use. Not for use by several threads at once. `trust`: it is
    encrypted, and only to the master whom that names. `token`: shown over each connection, before anything is asked.
    `proxy`: the SOCKS proxy on the way. `end`: who may have the other end where the connection is not encrypted; within
    this machine nothing is sent to anybody else, and to another machine no more than a question for its status."""

    heard: deque[tuple[str, str, Any]] | None = None
    """Where somebody wants to look at them, the last answers and notifications: where each came from, the verb or
    method, and the result or what was told."""

    def __init__(
        self,
        host: str,
        port: int,
        token: str | None = None,
        patience: float = PATIENCE_S,
        trust: Trust | None = None,
        *,
        proxy: str = "",
        end: OtherEnd | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.token = token
        self.patience = patience
        self.trust = trust
        self.proxy = proxy
        self.end = end or OtherEnd()
        self.is_encrypted = False
        self.on_retry: Callable[[str], None] | None = None
        self.on_unnamed: Callable[[], None] | None = None
        """Called where the master does not say which lab it is of."""
        self._socket: socket.socket | None = None
        self._place: Place | None = None
        """Where the master was the last time."""
        self._is_heard = False
        self._is_greeted = False
        self._awaits_lab = False
        self._decoder = LineDecoder(REPLY_LIMIT)
        self._lines: deque[bytes] = deque()
        self._pushed: deque[dict[str, Any]] = deque()
        self._last_id = 0

    def connect(self) -> None:
        """Open the connection if there is none. Raises UnreachableError; ForbiddenError where somebody else answers."""
        try:
            self._begin(time.monotonic() + CALL_TIMEOUT_S)
        except ConnectionLostError as error:
            raise self._unreachable(error) from None

    def _begin(self, deadline: float) -> None:
        """Raises ConnectionLostError where somebody is there, and broke off; UnreachableError."""
        try:
            self._open(deadline)
        except ConnectionLostError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise self._unreachable(error) from None

    def close(self) -> None:
        """Drop the connection and what was received and not read; the next call opens a new one."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._is_greeted = self._awaits_lab = False
        self._decoder = LineDecoder(REPLY_LIMIT)
        self._lines.clear()
        self._pushed.clear()

    def call(
        self,
        method: str,
        params: dict[str, Any],
        *,
        timeout: float = CALL_TIMEOUT_S,
        repeatable: bool = True,
    ) -> Any:
        """Call a verb and give its result.

        `repeatable`: asking twice does no harm, so a connection that breaks is opened again with backoff for up to
        `patience` seconds. Raises the MusterError that the master answered, or UnreachableError.
        """
        with suppress(ConnectionLostError):  # it is tried again below
            self._begin(time.monotonic() + timeout)
        give_up = time.monotonic() + self.patience
        pause = 0.05
        while True:
            try:
                deadline = time.monotonic() + timeout
                self._open(deadline)
                return self._exchange(method, params, deadline)
            except (OSError, ConnectionLostError) as error:
                self.close()
                if not repeatable or isinstance(error, TimeoutError) or time.monotonic() + pause > give_up:
                    raise self._broken(error) from None
                if self.on_retry is not None:
                    self.on_retry(str(_why(error)))
                time.sleep(pause)
                pause = min(pause * 2, 1.0)

    def notifications(self, timeout: float | None = None) -> Iterator[dict[str, Any]]:
        """The notifications as they come. Ends after `timeout` seconds in which none came.

        Raises ConnectionLostError when the connection breaks: what changed meanwhile has to be asked for anew.
        """
        while True:
            try:
                while not self._pushed:
                    self._receive(None if timeout is None else time.monotonic() + timeout)
            except TimeoutError:
                return
            except OSError as error:
                raise ConnectionLostError(_why(error)) from None
            yield self._pushed.popleft()

    def _open(self, deadline: float) -> None:
        if self._socket is not None:
            return
        if self.proxy:
            self._open_at(self._dial_by_proxy, deadline)
        else:
            self._open_somewhere(deadline)
        if self.token:
            self._log_in()

    def _open_somewhere(self, deadline: float) -> None:
        """Open it at the first address of the name where the master is, beginning with the one where it was before.
        Raises what was wrong with that one, else with the first where somebody answered."""
        known, failures = self._place, list[Exception]()
        found = sorted(places(self.host, self.port), key=lambda place: place != known)
        for place in found:
            try:
                self._open_at(place.connect, deadline)
            except Exception as error:
                self.close()
                if not _is_of_the_address(error):
                    raise
                failures.append(error)
            else:
                self._place = place
                return
            if time.monotonic() >= deadline:
                break
        raise failures[0] if found[0] == known else next(filter(_is_an_answer, failures), failures[-1])

    def _open_at(self, dial: Callable[[], socket.socket], deadline: float) -> None:
        self._socket = dial() if self.trust is None else self.trust.secure(dial, self.host)
        self.is_encrypted = self.trust is not None
        if self.trust is None:
            self._prove(self._socket, dial, deadline)

    def _prove(self, sock: socket.socket, dial: Callable[[], socket.socket], deadline: float) -> None:
        """See that nobody but the master hears what we say. Raises ForbiddenError, OSError, UntrustedError."""
        from wire.other_end import is_local

        try:
            self._is_heard = bool(self.proxy) or not is_local(sock)
            if self._is_heard:
                return
            trust = (self.end.trust() if self.token in self.end.sealed else None) or self.end.prove(sock, deadline)
        except TimeoutError:
            raise
        except OSError:  # it was accepted, and closed at once
            raise _closed() from None
        except BaseException:
            self.close()
            raise
        if trust is not None:
            self.close()
            self._socket = self._encrypted(trust, dial)
            self.is_encrypted = True

    def _encrypted(self, trust: Trust, dial: Callable[[], socket.socket]) -> socket.socket:
        try:
            return trust.secure(dial, self.host)
        except OSError:
            if self.end.seen is None:
                raise
            raise self.end.refusal(self.host, self.port) from None

    def _log_in(self) -> None:
        from wire.errors import MusterError

        self._check_unheard()
        if self.token in self.end.sealed and not self.is_encrypted:
            from wire.message import Message

            raise self._heard(Message("token_of_tls"))
        try:
            self._exchange("auth.token", {"token": self.token}, time.monotonic() + CONNECT_TIMEOUT_S)
        except MusterError as error:
            self.close()
            if error.code != "unknown_method":
                raise
            raise coded_error("bad_request", "master_without_log_ins") from None

    def check_unheard(self) -> int | None:
        """Connect, and raise ForbiddenError where others could hear what we say; UnreachableError. Gives the account
        that has the other end, where that is on this machine and neither root's nor ours."""
        self.connect()
        self._check_unheard()
        return None if self.is_encrypted else self.end.seen

    def _check_unheard(self) -> None:
        if self._is_heard:
            from wire.message import Message

            raise self._heard(Message("secrets_not_sent"))

    def _heard(self, why: Message) -> Exception:
        self.close()
        return coded_error("forbidden", "not_encrypted", host=self.host, why=why)

    def _dial_by_proxy(self) -> socket.socket:
        from client.proxy import dial

        return dial(self.proxy, self.host, self.port, CONNECT_TIMEOUT_S)

    def _exchange(self, method: str, params: dict[str, Any], deadline: float) -> Any:
        if self._is_heard and method not in _ASKED_IN_PLAIN:
            from wire.message import Message

            raise self._heard(Message("only_status_asked"))
        self._last_id += 1
        try:
            frame = encode({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        except UnicodeEncodeError:
            from client.not_text import not_text

            raise not_text(params) from None
        if len(frame) > REQUEST_LIMIT:
            raise coded_error("limit", "request_too_large", mib=len(frame) >> 20, most=REQUEST_LIMIT >> 20)
        if self._socket is None:
            raise _not_connected()
        self._socket.settimeout(max(0.001, deadline - time.monotonic()))
        self._socket.sendall(self._greeting(self._socket) + frame)
        while True:
            if self._lines:
                message = self._parse(self._lines.popleft())
                if self._awaits_lab and "method" not in message:
                    self._compare_lab(message)
                elif message.get("id") == self._last_id:
                    result = self._result(message)
                    if self.heard is not None:
                        self.heard.append((f"{self.host}:{self.port}", method, result))
                    return result
                if message.get("id") is None and "error" in message:
                    return self._result(message)
                if "method" in message:
                    self._push(message)
            else:
                self._receive_lines(deadline)

    def _greeting(self, sock: socket.socket) -> bytes:
        """Return the bytes that name the intended lab, to be sent before the first request of a connection."""
        if self._is_greeted or self.end.lab is None:
            return b""
        from client import greeting
        from wire.other_end import is_local

        self._is_greeted = self._awaits_lab = True
        return greeting.frame(self.end.lab, is_here=not self.proxy and is_local(sock))

    def _compare_lab(self, answer: dict[str, Any]) -> None:
        """Raises ConflictError for the master of another lab."""
        from client import greeting

        self._awaits_lab = False
        is_about_it = answer.get("id") == greeting.ID or (answer.get("id") is None and "error" in answer)
        if self.end.lab is None or not is_about_it:
            raise self._no_master()
        try:
            is_named = greeting.is_of_this_lab(self.end.lab, answer, (self.host, self.port))
        except BaseException:
            self.close()
            raise
        if is_named is None:
            self.close()
            self._result(answer)
        self.end.is_named = bool(is_named)
        if not is_named and self.on_unnamed is not None:
            self.on_unnamed()

    def _receive(self, deadline: float | None) -> None:
        if not self._lines:
            self._receive_lines(deadline)
        while self._lines:
            message = self._parse(self._lines.popleft())
            if "method" in message:
                self._push(message)

    def _push(self, message: dict[str, Any]) -> None:
        if not (isinstance(message["method"], str) and isinstance(message.get("params", {}), dict)):
            raise self._no_master()
        if self.heard is not None:
            self.heard.append((f"{self.host}:{self.port}", message["method"], message.get("params", {})))
        self._pushed.append(message)

    def _receive_lines(self, deadline: float | None) -> None:
        if self._socket is None:
            raise _not_connected()
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            from wire.message import Message

            raise TimeoutError(Message("answer_too_late"))
        self._socket.settimeout(left)
        data = self._socket.recv(_CHUNK)
        if not data:
            raise _closed()
        try:
            self._lines.extend(self._decoder.feed(data))
        except ValueError:  # a line without an end
            raise self._no_master() from None

    def _parse(self, line: bytes) -> dict[str, Any]:
        try:
            message = loads(line)
        except (ValueError, RecursionError):
            message = None
        if isinstance(message, dict):
            return message
        raise self._no_master()

    def _result(self, message: dict[str, Any]) -> Any:
        error = message.get("error")
        if error is not None and not isinstance(error, dict):
            raise self._no_master()
        if error is None and not isinstance(message.get("result"), (dict, list)):
            raise self._no_master()  # all that a master answers is one of these
        return _result(message)

    def _no_master(self) -> Exception:
        self.close()
        return coded_error("protocol", "no_master_at", at=f"{self.host}:{self.port}")

    def _unreachable(self, error: Exception) -> Exception:
        return coded_error("unreachable", "master_unreachable", at=f"{self.host}:{self.port}", detail=_why(error))

    def _broken(self, error: Exception) -> Exception:
        """The same after something was asked."""
        return coded_error("unreachable", "master_lost", at=f"{self.host}:{self.port}", detail=_why(error))


def _result(message: dict[str, Any]) -> Any:
    error = message.get("error")
    if error is None:
        return message.get("result")
    from wire.errors import Told, from_code

    data = error.get("data")
    code = data.get("code") if isinstance(data, dict) else None
    text: str | Told = str(error.get("message", "the master gave no message"))
    if isinstance(data, dict) and isinstance(data.get("key"), str) and isinstance(data.get("args"), dict):
        text = Told(str(text), data["key"], data["args"])
    raise from_code(str(code or "internal"), text)


def _is_of_the_address(error: Exception) -> bool:
    """May another address of the same name do better?"""
    if isinstance(error, (OSError, ConnectionLostError)):
        return True
    from wire.errors import ForbiddenError, UntrustedError

    return isinstance(error, (ForbiddenError, UntrustedError))


def _is_an_answer(error: Exception) -> bool:
    """Was somebody there?"""
    return not isinstance(error, OSError) or error.errno is None


def _why(error: Exception) -> str | Message:
    """Return what broke a connection: a message of ours, or what the system says."""
    systems = error.strerror if isinstance(error, OSError) else None
    ours: Any = systems or (*error.args, None)[0]
    if hasattr(ours, "key"):
        message: Message = ours
        return message
    return systems.lower() if systems else str(error) or type(error).__name__


def _closed() -> ConnectionLostError:
    from wire.message import Message

    return ConnectionLostError(Message("connection_closed"))


def _not_connected() -> ConnectionLostError:
    from wire.message import Message

    return ConnectionLostError(Message("connection_not_open"))
