"""A caller of one master: its address, the connection to its data port, and the call of any verb. Knows no verb's
parameters; `client.api`, `client.nodes` and `client.files` add those."""

from __future__ import annotations

import os

from client.address import parse
from client.refusals import config_error
from client.session import CALL_TIMEOUT_S, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, Self, TypeAlias

    from client.address import Address

    What: TypeAlias = Literal["tasks", "nodes"]

TOKEN_FILE = "MUSTER_TOKEN_FILE"  # noqa: S105  (the name of a variable)
_PORTS = {"tasks": "train_state_port", "nodes": "monitor_port"}


_MOST = 4096


def token_for(address: Address, given: str | None) -> str | None:
    """Return the token to send to this master: the token that was given, else MUSTER_TOKEN, else the content of
    MUSTER_TOKEN_FILE, else the token of a log-in there. An empty token counts as none. The master refuses a wrong
    token, and no other token is tried. The file is a task's: it is for the master at MUSTER_MASTER and is sent to no
    other. Raises ConfigError if the file cannot be read."""
    said = (given or "").strip() or os.environ.get("MUSTER_TOKEN", "").strip()
    if not said and (path := os.environ.get(TOKEN_FILE)) and _is_for(address):
        return _in_file(path)
    return said or address.token


def new_request_id() -> str:
    """A name for one submit, so that sending it again after a broken connection is not a second task."""
    return os.urandom(16).hex()


def _is_for(address: Address) -> bool:
    said = os.environ.get("MUSTER_MASTER")
    return not said or parse(said).name == address.name


def _in_file(path: str) -> str:
    """Return the token in the file. Without a usable token there, no other identity is tried: raises ConfigError."""
    try:
        with open(path, encoding="ascii") as file:
            text = file.read(_MOST).strip()
    except (OSError, UnicodeError) as error:
        detail = getattr(error, "strerror", None)
        if detail:
            raise config_error("token_file_refused", variable=TOKEN_FILE, path=path, detail=detail) from None
        raise config_error("token_file_wrong", variable=TOKEN_FILE, path=path) from None
    if not text:
        raise config_error("token_file_empty", variable=TOKEN_FILE, path=path)
    return text


class Caller:
    """Use it as a context manager, or `close()` it. Not for use by several threads at once."""

    def __init__(self, address: Address, token: str | None = None, session: Session | None = None) -> None:
        self.address = address
        self.token = token
        self.session = session or Session(
            address.host, address.data, token, trust=address.trust, proxy=address.proxy, end=address.end
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def use_token(self, token: str) -> None:
        """Show this token from now on, over each connection that is opened."""
        self.token = self.session.token = token

    def close(self) -> None:
        """Close the connection."""
        self.session.close()

    def call(self, method: str, params: dict[str, Any], *, repeatable: bool = True) -> Any:
        """Any verb by its name on the wire. `repeatable`: asking twice does no harm."""
        return self.session.call(method, params, timeout=CALL_TIMEOUT_S, repeatable=repeatable)

    def info(self) -> dict[str, Any]:
        """Version, ports, counts and health of the master."""
        info: dict[str, Any] = self.call("server.info", {})
        return info

    def push_port(self, what: What) -> int:
        """The port that sends changes of `tasks` or `nodes`; where only the data port is known, it is asked."""
        known = self.address.train_state if what == "tasks" else self.address.monitor
        return known if known is not None else int(self.info()["ports"][_PORTS[what]])
