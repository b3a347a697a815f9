"""A task's command as text: as one would type it, and in brief."""

from __future__ import annotations

from wire.harmless import harmless

_SPECIAL = frozenset(" \t\n\"'`$&|;<>()*?[]#~!{}\\")


def command_line(command: list[str] | str) -> str:
    """A command as one would type it, harmless and on one line."""
    if isinstance(command, str):
        return harmless(command.strip())
    return harmless(" ".join([_quoted(word) for word in command]))


def command_in_brief(command: list[str] | str) -> str:
    """A command for a row of a table: of a script only its first line that does something."""
    if not isinstance(command, str):
        return command_line(command)
    text = command.strip()
    if "\n" not in text:
        return harmless(text)
    lines = [line.strip() for line in command.splitlines()]
    doing = [line for line in lines if line and not line.startswith("#")] or lines
    return harmless(doing[0]) + (" …" if len(doing) > 1 else "")


def _quoted(word: str) -> str:
    if word.isalnum() or (word and not set(word) & _SPECIAL and word.isprintable()):
        return word
    return "'" + word.replace("'", "'\"'\"'") + "'"
