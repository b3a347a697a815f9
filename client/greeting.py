"""The first request of a connection: it names the lab that is meant, and goes out together with the next one.

A master of another lab refuses it, and everything after it on the connection. A master of a version before this request
refuses it as unknown, and is accepted.
"""

from __future__ import annotations

from wire.framing import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from wire.lab import Lab

VERB = "server.hello"
ID = 0
"""Its number; those of calls begin at 1."""
_UNKNOWN = ("unknown_method", "unauthenticated")
"""How a master that does not know the request refuses it; the second where it does not know the caller either."""


def frame(lab: Lab, *, is_here: bool) -> bytes:
    """The request. `is_here`: the master is on this machine, so that it can compare the path of conf.json."""
    said = lab.said(is_here=is_here)
    if "conf" in said:
        said["conf"] = _text(lab.conf)
    return encode({"jsonrpc": "2.0", "id": ID, "method": VERB, "params": said})


def is_of_this_lab(lab: Lab, answer: dict[str, Any], where: tuple[str, int]) -> bool | None:
    """Does the answer say that this is the lab? False: the master does not say which lab it is of; None: it refused for
    another reason. Raises OtherLabError."""
    error, result = answer.get("error"), answer.get("result")
    if not isinstance(error, dict):
        theirs = result.get("lab") if isinstance(result, dict) else None
        # The first start in a folder that was moved gives it another one; then the master has compared the conf.json.
        if lab.identity and not lab.moved_from and theirs and theirs != lab.identity:
            raise _other_lab(lab, where)
        return True
    data = error.get("data")
    code = data.get("code") if isinstance(data, dict) else None
    if code in _UNKNOWN:
        return False
    if code == "conflict":
        raise _other_lab(lab, where, _named(data))
    return None


def _named(data: Any) -> str:
    args = data.get("args")
    name = args.get("lab") if isinstance(args, dict) else None
    return name if isinstance(name, str) else ""


def _text(path: str) -> str:
    """The path, if JSON can carry it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return ""
    return path


def _other_lab(lab: Lab, where: tuple[str, int], theirs: str = "") -> Exception:
    from client.other_lab import other_lab

    return other_lab(lab, where, theirs)
