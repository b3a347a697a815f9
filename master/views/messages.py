"""A reason or a warning as a client receives it: a sentence, and beside it its key and values."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from wire.message import Message, sentence


class MessageView(msgspec.Struct, frozen=True, gc=False):
    """A message for programs: `key` names the sentence, `args` are its values (docs/wire.md, Messages)."""

    key: str
    args: dict[str, Any]


def message_view(message: Message) -> MessageView:
    """The message as clients see it."""
    return MessageView(message.key, message.plain_args())


Shown: TypeAlias = tuple[str | None, str | None, dict[str, Any] | None]
"""A message, or none, as the three keys that it has in an answer: the sentence, its key, its values."""


def shown(message: Message | None) -> Shown:
    """Here the sentence is made."""
    return (None, None, None) if message is None else (sentence(message), message.key, message.plain_args())
