"""What an error says, for tests: its key and arguments, never its sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from wire.errors import ConfigError, MusterError
from wire.message import Message

if TYPE_CHECKING:
    from wire.message import Value


def said(error: BaseException) -> Message:
    """Return the message that an error carries."""
    assert isinstance(error, MusterError)
    message = error.args[0]
    assert isinstance(message, Message)
    return message


def refused(act: Callable[[], object]) -> Message:
    """Return what `act` is refused with, for the configuration."""
    with pytest.raises(ConfigError) as caught:
        act()
    return said(caught.value)


def fault_in(path: Path, act: Callable[[], object]) -> Message:
    """Return what `act` finds wrong with the file. Its sentence is one line that begins with the path."""
    message = refused(act)
    assert message.key == "in_file"
    assert message.args["path"] == str(path)
    assert str(message).startswith(f"{path}: ")
    assert "\n" not in str(message)
    fault = message.args["fault"]
    assert isinstance(fault, Message)
    return fault


def part(message: Message, wanted: Message) -> Message:
    """Return the message with only those arguments that the wanted one has, to be compared with it."""
    return Message(message.key, **{name: value for name, value in message.args.items() if name in wanted.args})


def wrong(where: str, **values: Value) -> Message:
    """Return the fault of a value: `found` is what the file has there, `expected` what is allowed."""
    return Message("wrong_value", where=where, **values)
