"""What errors and reasons say, for tests: keys and arguments, never sentences."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any

import pytest

from wire.english import SENTENCES
from wire.errors import ConfigError, MusterError
from wire.harmless import harmless
from wire.message import Message, revived, worded

if TYPE_CHECKING:
    from wire.message import Value


def said(error: BaseException) -> Message:
    """Return the message that an error carries."""
    assert isinstance(error, MusterError)
    message = error.args[0]
    assert isinstance(message, Message)
    return message


def says(message: Message | None, key: str, /, **values: Value) -> bool:
    """Return whether the message, or one among its arguments, has this key and these values."""
    if message is None:
        return False
    if message.key == key and all(message.args.get(name) == value for name, value in values.items()):
        return True
    parts = [part for value in message.args.values() for part in (value if isinstance(value, tuple) else (value,))]
    return any(says(part, key, **values) for part in parts if isinstance(part, Message))


def reason_of(view: Mapping[str, Any]) -> Message | None:
    """Return why a task waits, or how it ended, as a client is shown it."""
    key = view["reason_key"]
    return None if key is None else revived(key, view["reason_args"])


def link_of(view: Mapping[str, Any]) -> Message | None:
    """Return what there is to say first of a node, as a client is shown it: what its link says, or why it is closed."""
    told = view["reason_messages"]
    return revived(told[0]["key"], told[0]["args"]) if told else None


@contextmanager
def refusing(kind: type[MusterError], key: str, /, **values: Value) -> Iterator[None]:
    """Expect an error of this kind, with a message that says this."""
    with pytest.raises(kind) as caught:
        yield
    message = said(caught.value)
    assert says(message, key, **values), repr(message)


def error_line(code: str, key: str, /, **values: Value) -> str:
    """Return the line of a command that is refused so. Its end is the caller's: more may stand there."""
    return f"error: {code}: {harmless(str(Message(key, **values)))}"


def in_words(text: str, key: str, /, **values: Value) -> bool:
    """Return whether a text that a program showed has the sentence of `key` with these values, whatever the others
    are."""
    return sentence_of(key, SENTENCES, **values).search(text) is not None


def sentence_of(key: str, sentences: Mapping[str, str], /, **values: Value) -> re.Pattern[str]:
    """Return what finds the sentence of `key` in the language of `sentences`. A page has no backticks: what one types
    is set as code there."""
    pieces: list[str] = []
    for literal, name, form, conversion in Formatter().parse(sentences[key]):
        pieces.append(re.escape(literal))
        if name in values:
            shape = f"{{{name}{f'!{conversion}' if conversion else ''}{f':{form}' if form else ''}}}"
            pieces.append(re.escape(worded(Message(key, **values), {key: shape})))
        elif name is not None:
            pieces.append(".*?")
    return re.compile("".join(pieces).replace("`", "`?"), re.DOTALL)


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
