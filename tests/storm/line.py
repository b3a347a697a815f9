"""JSON-RPC over a plain socket, as `docs/wire.md` tells it to somebody who writes a client of his own: one JSON object
a line. Nothing of our client library, so that what it does for people cannot hide what the master does."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any, Self

ANSWER_S = 60.0


class GoneError(Exception):
    """There is no answer: nobody listens, or the connection broke."""


class RefusedError(Exception):
    """The answer is an error. `code`: its stable word."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Line:
    """A connection to one port of this machine. Raises GoneError wherever it breaks."""

    def __init__(self, port: int, *, timeout: float = ANSWER_S) -> None:
        try:
            self._socket = socket.create_connection(("127.0.0.1", port), timeout)
        except OSError as error:
            raise GoneError(str(error)) from None
        self._file = self._socket.makefile("rb")
        self._asked = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._file.close()
        self._socket.close()

    def call(self, method: str, **params: Any) -> Any:
        """Ask, and give the result. Raises RefusedError."""
        self._asked += 1
        request = {"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params}
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise GoneError(str(error)) from None
        while True:
            answer = self._next()
            if answer.get("id") == self._asked:
                break
        if "error" in answer:
            refused = answer["error"]
            raise RefusedError(refused.get("data", {}).get("code", str(refused["code"])), refused["message"])
        return answer["result"]

    def heard(self) -> Iterator[dict[str, Any]]:
        """What the master says unasked, for as long as the connection holds."""
        while True:
            yield self._next()

    def _next(self) -> dict[str, Any]:
        try:
            line = self._file.readline()
        except (OSError, ValueError) as error:
            raise GoneError(str(error)) from None
        if not line.endswith(b"\n"):
            raise GoneError("the connection ended")
        found: dict[str, Any] = json.loads(line)
        return found
