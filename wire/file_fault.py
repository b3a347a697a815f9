"""The error for a file that people write, or name, and that is wrong: with its path, and what is wrong as a message."""

from __future__ import annotations

from wire.errors import ConfigError
from wire.message import Message

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os


def fault(path: str | os.PathLike[str], what: Message) -> ConfigError:
    """Return the error for a fault of the file, or of what it says."""
    return ConfigError(Message("in_file", path=str(path), fault=what))


def fault_of(path: str | os.PathLike[str], error: ConfigError) -> Message:
    """Return what is wrong with the file, without its path: for callers who named the file themselves."""
    said: Message = error.args[0]
    what = said.args.get("fault")
    return what if isinstance(what, Message) and said.args.get("path") == str(path) else said
