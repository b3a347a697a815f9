"""One connection to a port of the master, for one caller: calls, their answers, and what the master sends unasked.

Answers are passed on as bytes; the console decodes only the parts that it reads. Each connection identifies its caller
when it is opened: first the console itself, which removes the rights that its account has by the kernel, then the user
and the address of the request. A connection that cannot do this is never used.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from itertools import count
from time import monotonic
from typing import Any

import msgspec

from web.settings import Settings
from wire.client import MAX_FRAME
from wire.errors import (
    BadRequestError,
    ConflictError,
    MusterError,
    ProtocolError,
    Told,
    UnauthenticatedError,
    UnknownMethodError,
    UnreachableError,
    from_code,
)
from wire.framing import FrameError, check_shape
from wire.lab import Lab, read
from wire.message import Message
from wire.other_end import Finding, is_local

REPLY_LIMIT = 1 << 30
OPEN_S = 10.0
CALL_S = 120.0
"""The longest that the master may take for an answer: what it does in other machines' time it bounds by itself."""


class _Error(msgspec.Struct):
    code: int = 0
    message: str = ""
    data: dict[str, Any] = {}


class _Who(msgspec.Struct):
    user: str | None = None


class _Frame(msgspec.Struct):
    """A message of the master. `params` are not decoded here."""

    id: int | None = None
    method: str = ""
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: _Error | None = None
    params: msgspec.Raw = msgspec.Raw(b"null")


_FRAMES = msgspec.json.Decoder(_Frame)
Notified = Callable[[bytes], None]


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _connected(settings: Settings, port: int) -> Streams:
    """A connection to the master and nobody else; nothing was said over it. Raises OSError, TimeoutError,
    UnreachableError, ConfigError."""
    refusal: UnreachableError | None = None
    failure: OSError | None = None
    # A name may lead to several addresses, and another account may have the master's port at one of them.
    for address in await _addresses(settings.master, port):
        try:
            return await _connected_at(settings, address, port)
        except UnreachableError as error:
            refusal = refusal or error
        except OSError as error:
            failure = error
    raise refusal or failure or OSError(f"{settings.master} has no address")


async def _addresses(host: str, port: int) -> list[str]:
    """All addresses of the name, in the order of the system. Raises OSError."""
    with suppress(ValueError):
        ip_address(host)
        return [host]
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(where[0]) for *_, where in found))


async def _connected_at(settings: Settings, address: str, port: int) -> Streams:
    trust = settings.trust()
    reader, writer = await _dialled(settings, address, port, trust)
    if trust is not None or await _is_masters(settings, writer):
        return reader, writer
    writer.close()
    return await _dialled(settings, address, port, settings.pinned())


async def _dialled(settings: Settings, address: str, port: int, trust: ssl.SSLContext | None) -> Streams:
    name = settings.master if trust is not None else None
    return await asyncio.open_connection(address, port, limit=REPLY_LIMIT, ssl=trust, server_hostname=name)


async def _is_masters(settings: Settings, writer: asyncio.StreamWriter) -> bool:
    """Nothing is encrypted within a machine, and while the master is down others may have its port. False: the kernel
    does not tell who has it. Raises UnreachableError where it is somebody else, OSError."""
    try:
        finding = Finding(writer.get_extra_info("socket"), settings.is_account, monotonic() + OPEN_S)
        for pause in finding:
            await asyncio.sleep(pause)
    except BaseException:
        writer.close()
        raise
    uid = finding.uid
    if uid is not None and settings.is_account(uid):
        return True
    if uid is None and settings.speaks_tls:
        return False
    writer.close()
    raise UnreachableError(Message("master_unknown") if uid is None else Message("master_port_taken", uid=uid))


class Upstream:
    """Open it with `open`; close it with `close`. `on_frame` is given the answers to calls that were `send`, and all
    that the master sends unasked, each as a line; `closed` is done when the connection is over, with why."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._ids = count(1)
        self._waiting: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self.user = ""
        """The user of this connection, once identified."""
        self.closed: asyncio.Future[MusterError] = asyncio.get_running_loop().create_future()
        self.on_frame: Notified = lambda _frame: None
        self._listens = asyncio.create_task(self._listen())

    @classmethod
    async def open(
        cls, settings: Settings, what: str, *, shown: str = "", origin: str = "", account: int | None = None
    ) -> Upstream:
        """Connect to the port for `what`. `shown`: the token of the caller, `origin`: the caller's address,
        `account`: the uid of a caller on this machine; without these the console itself calls, and without a token
        a caller who has not logged in. Raises UnreachableError, ConfigError, and what the master answers to a
        token that opens nothing."""
        try:
            async with asyncio.timeout(OPEN_S):
                made = cls(*await _connected(settings, settings.ports[what]))
        except (OSError, TimeoutError):
            raise UnreachableError(Message("master_away")) from None
        try:
            await made._show(settings, shown, origin, account)
        except BaseException:
            await made.close()
            raise
        return made

    async def _show(self, settings: Settings, shown: str, origin: str, account: int | None) -> None:
        try:
            # Together: the master of another lab refuses both.
            await asyncio.gather(
                self._greet(read(str(settings.conf))), self.call("auth.token", {"token": settings.service_token()})
            )
        except ConflictError:
            raise UnreachableError(Message("master_of_another_lab")) from None
        except UnauthenticatedError:
            # A master that begins writes a new one before it listens: this one was read too early.
            raise UnreachableError(Message("master_away")) from None
        if origin:
            await self._relay(origin, account)
        if shown:
            who = msgspec.json.decode(await self.call("auth.token", {"token": shown}), type=_Who)
            self.user = who.user or ""

    async def _relay(self, origin: str, account: int | None) -> None:
        """Say from where somebody calls; not as which account to a master before that key."""
        if account is not None:
            with suppress(BadRequestError):
                await self.call("auth.relay", {"from": origin, "account": account})
                return
        await self.call("auth.relay", {"from": origin})

    async def _greet(self, lab: Lab) -> None:
        """Say which lab is meant, to a master that understands it."""
        said = lab.said(is_here=is_local(self._writer.get_extra_info("socket")))
        if "conf" in said:
            said["conf"] = lab.conf.encode(errors="replace").decode()
        with suppress(UnknownMethodError, UnauthenticatedError):
            await self.call("server.hello", said)

    async def call(self, verb: str, params: Any, *, limit_s: float = CALL_S) -> msgspec.Raw:
        """Call a verb; its result, as JSON. Raises the master's error, ProtocolError for what it would not read, or
        UnreachableError: then it may or may not have been done."""
        number = next(self._ids)
        frame = _frame({"jsonrpc": "2.0", "id": number, "method": verb, "params": params})
        answer: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            await self._send(frame)
            async with asyncio.timeout(limit_s):
                return await answer
        except TimeoutError:
            raise UnreachableError(Message("master_silent", seconds=limit_s)) from None
        finally:
            self._waiting.pop(number, None)

    async def _send(self, frame: bytes) -> None:
        if self.closed.done():
            raise self.closed.result()
        self._writer.write(frame)
        try:
            await self._writer.drain()
        except OSError:
            raise UnreachableError(Message("master_away")) from None

    async def _listen(self) -> None:
        why: MusterError = UnreachableError(Message("master_away"))
        try:
            while line := await self._reader.readline():
                told = self._take(line)
                del line  # it may be megabytes, and the next one may be far away
                if told is not None:  # which call it answers is not known, so none of them is to wait for an answer
                    why = told
                    break
        except (OSError, ValueError):  # a line beyond the limit
            pass
        except msgspec.DecodeError:
            why = ProtocolError(Message("master_unclear"))
        finally:
            self._over(why)

    def _take(self, line: bytes) -> MusterError | None:
        """Hand on what was said; what it says of the whole connection, which is about to end."""
        frame = _FRAMES.decode(line)
        if frame.method:
            self.on_frame(line)
        elif frame.id is None:
            return None if frame.error is None else _told(frame.error)
        elif (waiting := self._waiting.get(frame.id)) is not None and not waiting.done():
            if frame.error is not None:
                waiting.set_exception(_told(frame.error))
            else:
                waiting.set_result(frame.result)
        return None

    def _over(self, why: MusterError) -> None:
        if not self.closed.done():
            self.closed.set_result(why)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(why)
        self._writer.close()

    @property
    def is_open(self) -> bool:
        """Can it be asked?"""
        return not self.closed.done()

    async def close(self) -> None:
        """End it."""
        self._over(UnreachableError(Message("master_away")))
        self._listens.cancel()
        with suppress(OSError, asyncio.CancelledError):
            await self._writer.wait_closed()


def _frame(asked: dict[str, Any]) -> bytes:
    """Return the line of a request. Raises ProtocolError: the master could not tell which request it refuses."""
    frame = msgspec.json.encode(asked)
    if len(frame) > MAX_FRAME:
        raise ProtocolError(Message("no_request", said=f"a frame of more than {MAX_FRAME} bytes"))
    try:
        check_shape(frame)
    except FrameError as error:
        raise ProtocolError(Message("no_request", said=str(error))) from None
    return frame + b"\n"


def _told(error: _Error) -> MusterError:
    """The error as the master told it, with its key and values."""
    key, args = error.data.get("key"), error.data.get("args")
    text: str | Told = error.message
    if isinstance(key, str) and isinstance(args, dict):
        text = Told(error.message, key, args)
    return from_code(str(error.data.get("code", "internal")), text)
