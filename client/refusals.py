"""The errors of the client, each with its message: made here, so that a command that meets none loads neither
errors nor sentences."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from wire.message import Value


def coded_error(code: str, key: str, /, **args: Value) -> Exception:
    """Return the error of `wire.errors` with this code and this message."""
    from wire.errors import from_code
    from wire.message import Message

    return from_code(code, Message(key, **args))


def config_error(key: str, /, **args: Value) -> Exception:
    """Return the ConfigError with this message."""
    from wire.errors import ConfigError
    from wire.message import Message

    return ConfigError(Message(key, **args))


def file_error(path: str, key: str, /, **args: Value) -> Exception:
    """Return the ConfigError for a file with this fault."""
    from wire.file_fault import fault
    from wire.message import Message

    return fault(path, Message(key, **args))


def not_written(path: str, error: OSError) -> Exception:
    """Return the StorageError for a file that the system does not let us write."""
    from wire.message import Message

    return coded_error("storage", "in_file", path=path, fault=Message("file_unwritable", detail=error.strerror))
