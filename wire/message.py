"""Messages for people, before they are put into a language: a key, and the values of its sentence.

Every reason, warning and error is a `Message`. Only `sentence` makes English of it, with the table in `wire.english`,
where it is shown. A program reads key and values, and another language is another table. Texts of others (a node's
system, a person) are values like any other.
"""

from __future__ import annotations

import shlex
import time
from string import Formatter

from wire.exit_codes import signal_of
from wire.ranges import ids_in_parts, names_in_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypeAlias

    Value: TypeAlias = "str | int | float | Message | Several | tuple[Message | str | int, ...] | None"


class Several:
    """Names, or ids, in short. `parts`: those that are shown, runs folded (`gpu[01-20]`, `3-12`); `count`: how many
    there are in all; `more`: of how many the parts do not tell."""

    __slots__ = ("count", "more", "parts")

    def __init__(self, parts: tuple[str, ...], count: int, more: int = 0) -> None:
        self.parts = parts
        self.count = count
        self.more = more

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Several) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        text = ", ".join(self.parts)
        return f"{text} and {self.more} more" if self.more else text

    def _key(self) -> tuple[object, ...]:
        return self.parts, self.count, self.more


def names(all_of_them: Iterable[str], most: int | None = None) -> Several:
    """Return names in the order given; of more than `most` parts it shows only so many."""
    known = list(all_of_them)
    parts = names_in_parts(known, most)
    return Several(tuple(part for part, _ in parts), len(known), len(known) - sum(count for _, count in parts))


def ids(all_of_them: Iterable[int], most: int | None = None) -> Several:
    """Return ids in their order, each once; of more than `most` parts it shows only so many."""
    known = set(all_of_them)
    parts = ids_in_parts(known, most)
    return Several(tuple(part for part, _ in parts), len(known), len(known) - sum(count for _, count in parts))


NONE = Several((), 0)


class Message:
    """One thing to say. `key` is one of `wire.english.SENTENCES`; `args` are what its sentence names: numbers, texts,
    `Several` names, other messages and tuples of these. It is never changed, and two that say the same are equal."""

    __slots__ = ("args", "key")

    def __init__(self, key: str, /, **args: Value) -> None:
        self.key = key
        self.args = args

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and (self.key, self.args) == (other.key, other.args)

    def __hash__(self) -> int:
        return hash((self.key, *self.args.values()))

    def __str__(self) -> str:
        return sentence(self)

    def __repr__(self) -> str:
        return f"Message({self.key!r}, {self.args!r})"

    def of(self, nodes: Several) -> Message:
        """The same, said of these nodes: what is alike is found before it is known of how many it is to be said."""
        return Message(self.key, **{"nodes": nodes, **self.args})

    def but(self, **args: Value) -> Message:
        """The same with these values in place of those that it has."""
        return Message(self.key, **{**self.args, **args})

    def plain_args(self) -> dict[str, Any]:
        """The values as JSON has them: a message in them is `{"key", "args"}`, names are `{"parts", "count",
        "more"}`."""
        args = self.args
        for value in args.values():
            if not isinstance(value, (str, int)):
                return {name: _plain(one) for name, one in args.items()}
        return args


def plain(message: Message) -> dict[str, Any]:
    """The message as JSON has it."""
    return {"key": message.key, "args": message.plain_args()}


def _plain(value: Any) -> Any:
    if isinstance(value, (str, int)):
        return value
    if isinstance(value, Message):
        return plain(value)
    if isinstance(value, Several):
        return {"parts": list(value.parts), "count": value.count, "more": value.more}
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def revived(key: str, args: Mapping[str, Any]) -> Message:
    """The message of which `plain` made this. Raises ValueError for what is none of ours."""
    message = Message(key, **{name: _revived(value) for name, value in args.items()})
    try:
        sentence(message)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{key!r} is not said with {sorted(args)}: {error}") from None
    return message


def _revived(value: Any) -> Any:
    if isinstance(value, dict):
        if "key" in value:
            return revived(value["key"], value["args"])
        return Several(tuple(value["parts"]), value["count"], value["more"])
    return tuple(map(_revived, value)) if isinstance(value, list) else value


# -- the sentence ---------------------------------------------------------------------------------------------


def sentence(message: Message) -> str:
    """The English sentence. Raises KeyError for a key that has none, or a value that it lacks: a defect of ours."""
    worded = _worded.get(message.key)
    if worded is None:
        from wire.english import SENTENCES  # noqa: PLC0415  (a start words nothing)

        worded = _worded[message.key] = _compile(SENTENCES[message.key])
    return worded(message.args)


def worded(message: Message, templates: Mapping[str, str]) -> str:
    """The sentence by one of `templates`; the English one where they have none for its key."""
    template = templates.get(message.key)
    return sentence(message) if template is None else _compile(template)(message.args)


def fields_of(template: str) -> set[str]:
    """The names of the values that go into a sentence."""
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


def _compile(template: str) -> Callable[[dict[str, Any]], str]:
    """Return the function that makes the sentence. Most templates use values as they are; then Python's own `format`
    is the fastest."""
    parsed = list(Formatter().parse(template))
    if not any(form for _, _, form, _ in parsed):
        return template.format_map
    parts: list[str | tuple[str, Callable[[Any], str]]] = []
    for text, name, form, conversion in parsed:
        if text:
            parts.append(text)
        if name is not None:
            parts.append((name, repr if conversion == "r" else _form(form or "")))
    return lambda args: "".join([part if isinstance(part, str) else part[1](args[part[0]]) for part in parts])


def _form(form: str) -> Callable[[Any], str]:
    """How a value is put into words: nothing for as it is; `one|many` by how many it is; `, ` and the like between the
    values of a tuple; the name of one of `_FORMS`; else as Python's `format` does."""
    if not form:
        return str
    if form in _FORMS:
        return _FORMS[form]
    if "|" in form:
        one, many = form.split("|")
        return lambda value: one if _count(value) == 1 else many
    if form in (", ", "; ", " and ", " or "):
        return lambda values: form.join(map(str, values))
    return lambda value: format(value, form)


def _count(value: Any) -> int:
    if isinstance(value, Several):
        return value.count
    return len(value) if isinstance(value, tuple) else int(value)


def _few(several: Several) -> str:
    return ", ".join(several.parts) + ("…" if several.more else "")


def _subject(nodes: Several) -> str:
    """`node a`, `nodes a[1-9]`; none are the cluster as a whole."""
    return f"{'node' if nodes.count == 1 else 'nodes'} {nodes}" if nodes.count else "the cluster"


def _has(nodes: Several) -> str:
    return "have" if nodes.count > 1 else "has"


def _size(count: int) -> str:
    return f"{count >> 20:,} MiB" if count >= 1 << 20 else f"{count:,} bytes"


def number(value: float) -> str:
    """A number as people read it, never as `1e+06`."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.6f}".rstrip("0")


def whole_size(count: int) -> str:
    """`1 MiB`, `64 KiB`: in the largest unit that says it whole."""
    unit = 0
    while count and count % _STEP == 0 and unit < len(_UNITS):
        count, unit = count // _STEP, unit + 1
    return f"{count:,} {_UNITS[unit - 1]}" if unit else f"{count:,} bytes" if count else "0"


def _moment(at: float) -> str:
    """With the zone of this machine, which need not be the reader's."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(at))
    except (OverflowError, ValueError, OSError):
        return f"{at:.0f} s after 1970"  # no calendar goes so far


_STEP, _UNITS = 1024, ("KiB", "MiB", "GiB", "TiB")
_FORMS: Mapping[str, Callable[[Any], str]] = {
    "few": _few,
    "colon": lambda values: f": {'; '.join(map(str, values))}" if values else "",
    "and more": lambda more: f" and {more} more" if more else "",
    "label": lambda where: f"{where}: " if where else "",
    "list or none": lambda values: ", ".join(map(str, values)) or "none",
    "list or nothing": lambda values: ", ".join(map(str, values)) or "nothing",
    "gpus": lambda several: f", GPU{'s' if several.count > 1 else ''} {several}," if several.count else "",
    "or none": lambda several: str(several) or "none",
    "subject": _subject,
    "on": lambda nodes: f" on {nodes}" if nodes.count else "",
    "has": _has,
    "are": lambda nodes: "are" if nodes.count > 1 else "is",
    "size": _size,
    "whole size": whole_size,
    "number": number,
    "minute": lambda at: time.strftime("%Y-%m-%d %H:%M", time.localtime(at)),
    "by": lambda at: time.strftime("%Y-%m-%d %H:%M", time.localtime(-(-at // 60) * 60)),
    "moment": _moment,
    "quoted": shlex.quote,
    "signal": lambda code: f" ({name})" if (name := signal_of(code)) else "",
}
_worded: dict[str, Callable[[dict[str, Any]], str]] = {}
"""For each key that was used the function that makes its sentence."""
