"""As much of LDAP as a log-in needs: a simple bind, behind TLS (RFC 4511, 4513). No search, no entry is read.

Owns the conversation with one server over one connection, which blocks, and what a name looks like in a DN. An empty
password is never sent: a server takes that for somebody without a name, and answers that all is well.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import Iterator

import msgspec

_SEQUENCE, _INTEGER, _OCTETS, _ENUMERATED = 0x30, 0x02, 0x04, 0x0A
_BIND, _BOUND, _UNBIND, _EXTENDED, _EXTENDED_DONE = 0x60, 0x61, 0x42, 0x77, 0x78
_SIMPLE, _WHICH = 0x80, 0x80
_START_TLS = b"1.3.6.1.4.1.1466.20037"
_VERSION = b"\x03"
_MOST_ANSWER = 64 << 10
_LONG_FORM, _MOST_LENGTH_BYTES = 0x80, 4
_MOST_CODE_BYTES = 4
"""Of a result code, which the log shows: the largest that is registered is 16654."""
_SUCCESS = 0
_WRONG = frozenset({19, 32, 48, 49, 50, 53})
"""The result codes for an unknown name, a wrong password, an account without a password or a closed one: constraint
violation, no such object, inappropriate authentication, invalid credentials, insufficient rights, unwilling."""
_SPECIAL = re.compile(r'[\x00-\x1f"+,;<>\\=#\x7f]|^ | $')


class LdapError(Exception):
    """The server did not say whether the password is right; the text is why, for the log."""


class Server(msgspec.Struct, frozen=True):
    """A server to ask. `is_tls`: TLS is spoken from the first byte on, else it is begun by StartTLS; `context`: the
    authorities to trust."""

    host: str
    port: int
    is_tls: bool
    context: ssl.SSLContext


def escaped(name: str) -> str:
    """A name as it stands for a value in a DN (RFC 4514), so that it can be nothing but a value."""
    return _SPECIAL.sub(lambda found: "".join(f"\\{byte:02x}" for byte in found[0].encode()), name)


def bind(server: Server, dn: str, password: bytes, within_s: float) -> bool:
    """Whether the server takes this password, which is not empty, for that name. It may take `within_s` seconds. Raises
    LdapError where it does not say, and ValueError for an empty password or name."""
    if not password or not dn:
        raise ValueError("a bind without a password, or without a name, is one of nobody, and succeeds")
    line = _Line(time.monotonic() + within_s)
    try:
        return line.ask(server, dn.encode(), password)
    except ssl.SSLCertVerificationError as error:
        raise LdapError(f"its certificate is not believed: {error.verify_message}") from None
    except TimeoutError:
        raise LdapError(f"it did not answer within {within_s:g} s") from None
    except OSError as error:
        raise LdapError(error.strerror or str(error)) from None
    finally:
        line.close()


class _Line:
    """One connection, which is over at `deadline` (monotonic seconds), whatever comes."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._socket: socket.socket | None = None

    def ask(self, server: Server, dn: bytes, password: bytes) -> bool:
        """The whole conversation. Raises LdapError, OSError."""
        line = self._socket = socket.create_connection((server.host, server.port), self._left_s())
        if not server.is_tls:
            code = self._call(line, 1, _EXTENDED, _element(_WHICH, _START_TLS), _EXTENDED_DONE)
            if code != _SUCCESS:
                raise LdapError(f"it refuses StartTLS (result {code})")
        # The answer was read to its last byte: any further bytes before TLS are no handshake, and end the connection.
        line.settimeout(self._left_s())
        safe = self._socket = server.context.wrap_socket(line, server_hostname=server.host)
        who = _element(_INTEGER, _VERSION) + _element(_OCTETS, dn) + _element(_SIMPLE, password)
        code = self._call(safe, 2, _BIND, who, _BOUND)
        if code not in {_SUCCESS, *_WRONG}:
            raise LdapError(f"it answers with result {code}, which says nothing of the password")
        self._send(safe, _message(3, _element(_UNBIND, b"")))
        return code == _SUCCESS

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def _call(self, line: socket.socket, number: int, operation: int, content: bytes, reply: int) -> int:
        self._send(line, _message(number, _element(operation, content)))
        return result_of(self._answer(line), number, reply)

    def _send(self, line: socket.socket, data: bytes) -> None:
        line.settimeout(self._left_s())
        line.sendall(data)

    def _answer(self, line: socket.socket) -> bytes:
        """The content of the one message that comes next, and not a byte of what is behind it."""
        tag, first = self._read(line, 2)
        if tag != _SEQUENCE:
            raise LdapError("what answers speaks no LDAP")
        more = first & ~_LONG_FORM if first & _LONG_FORM else 0
        if more > _MOST_LENGTH_BYTES:
            raise LdapError("its answer is too long")
        length = int.from_bytes(self._read(line, more), "big") if first & _LONG_FORM else first
        if length > _MOST_ANSWER:
            raise LdapError("its answer is too long")
        return self._read(line, length)

    def _read(self, line: socket.socket, count: int) -> bytes:
        data = b""
        while len(data) < count:
            line.settimeout(self._left_s())
            piece = line.recv(count - len(data))
            if not piece:
                raise LdapError("it closed the connection")
            data += piece
        return data

    def _left_s(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def result_of(answer: bytes, number: int, reply: int) -> int:
    """The result code in the content of a message: the answer `reply` to the message with this number. Raises
    LdapError."""
    parts = _elements(answer)
    identity, operation = next(parts, None), next(parts, None)
    if identity is None or operation is None or identity[0] != _INTEGER:
        raise LdapError("its answer cannot be read")
    if operation[0] != reply or int.from_bytes(identity[1], "big") != number:
        raise LdapError("it answers something else than was asked")
    code = next(_elements(operation[1]), None)
    if code is None or code[0] != _ENUMERATED or not 0 < len(code[1]) <= _MOST_CODE_BYTES:
        raise LdapError("its answer cannot be read")
    return int.from_bytes(code[1], "big")


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The elements, tag and content, that stand one behind the other. Raises LdapError."""
    while data:
        more = data[1] & ~_LONG_FORM if len(data) > 1 and data[1] & _LONG_FORM else 0
        begin = 2 + more
        if len(data) < begin or more > _MOST_LENGTH_BYTES:
            raise LdapError("its answer cannot be read")
        length = int.from_bytes(data[2:begin], "big") if data[1] & _LONG_FORM else data[1]
        if len(data) < begin + length:
            raise LdapError("its answer cannot be read")
        yield data[0], data[begin : begin + length]
        data = data[begin + length :]


def _message(number: int, operation: bytes) -> bytes:
    return _element(_SEQUENCE, _element(_INTEGER, bytes([number])) + operation)


def _element(tag: int, content: bytes) -> bytes:
    length = len(content)
    if length < _LONG_FORM:
        return bytes([tag, length]) + content
    size = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([tag, _LONG_FORM | len(size)]) + size + content
