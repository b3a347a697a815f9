"""Reads a plain command line without argparse, which with all that it loads takes as long as half a bare interpreter.

A command declares its options to this as it would to argparse, and is given what argparse would give. Owns the plain
cases and no other: whatever is wrong, or not plain (an option that is not there, help, a short option with its value
glued to it, `--`, words on both sides of an option), is left to argparse, with its messages.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_PLAIN_ACTIONS = ("store", "store_true", "store_const", "append", "extend")
_PLAIN_COUNTS = (None, "?", "*", "+")
_END = "--"


class _NotPlain(Exception):  # noqa: N818  (it is no error: argparse may be content)
    """Argparse is to read this."""


class Quick:
    """In place of the parser of one command: `declare` tells a parser what there is, `make` makes argparse's."""

    def __init__(self, prog: str, declare: Callable[[Any], None], make: Callable[[], Any]) -> None:
        self.prog = prog
        self.usage = ""
        self._make = make
        self._parser: Any = None
        self._plain: _Declared | None = _Declared(prog)
        try:
            declare(self._plain)
        except _NotPlain:
            self._plain = None

    def parse_args(self, words: list[str]) -> Any:
        """As argparse does."""
        found = self._read(words)
        return self._whole().parse_args(words) if found is None else found

    def parse_known_args(self, words: list[str]) -> tuple[Any, list[str]]:
        """As argparse does."""
        found = self._read(words)
        return self._whole().parse_known_args(words) if found is None else (found, [])

    def __getattr__(self, name: str) -> Any:
        """All else that a parser can do."""
        return getattr(self._whole(), name)

    def _read(self, words: list[str]) -> Any:
        if self._plain is None:
            return None
        try:
            return self._plain.read(words)
        except _NotPlain:
            return None

    def _whole(self) -> Any:
        if self._parser is None:
            self._parser = self._make()
        return self._parser


class Options:
    """The options of a command, by name, as argparse's Namespace has them."""


class _Argument:
    """One that was declared. `alone`: others exclude it, which is argparse's to look at."""

    def __init__(self, names: tuple[str, ...], how: dict[str, Any], *, alone: bool) -> None:
        self.is_option = names[0].startswith("-")
        longest = next((name for name in names if name.startswith("--")), names[0])
        self.dest: str = how.get("dest") or longest.lstrip("-").replace("-", "_")
        self.action = how.get("action", "store")
        self.count = how.get("nargs")
        self.type = how.get("type")
        self.choices = how.get("choices")
        self.const = how.get("const")
        self.required = how.get("required", False)
        self.default = how.get("default", False if self.action == "store_true" else None)
        if self.count == "*" and self.default is None:
            self.default = []
        self.is_plain = not alone and self.action in _PLAIN_ACTIONS and self.count in _PLAIN_COUNTS
        if self.is_option:
            self.is_plain = self.is_plain and self.count is None
        # argparse would check such a default, or convert it.
        if isinstance(self.default, str) and (self.type is not None or self.default.startswith("==")):
            raise _NotPlain

    @property
    def takes_value(self) -> bool:
        return self.action in ("store", "append", "extend")

    def value_of(self, word: str) -> Any:
        try:
            value = word if self.type is None else self.type(word)
        except Exception:  # noqa: BLE001  (argparse reads it again, and says what is wrong with it)
            raise _NotPlain from None
        if self.choices is not None and value not in self.choices:
            raise _NotPlain
        return value


class _Declared:
    """The arguments of a command; takes the declarations as an argparse.ArgumentParser would."""

    def __init__(self, prog: str) -> None:
        self.prog = prog
        self.usage = ""
        self._options: dict[str, _Argument] = {}
        self._all: list[_Argument] = []
        self._defaults: dict[str, Any] = {}

    def add_argument(self, *names: str, **how: Any) -> None:
        self._add(names, how, alone=False)

    def add_argument_group(self, *_: object, **__: object) -> _Declared:
        return self

    def add_mutually_exclusive_group(self, *, required: bool = False) -> _Alone:
        if required:
            raise _NotPlain
        return _Alone(self._add)

    def add_subparsers(self, **_: object) -> Any:
        raise _NotPlain

    def set_defaults(self, **values: Any) -> None:
        self._defaults |= values

    def read(self, words: list[str]) -> Options:
        """Raises _NotPlain."""
        said: dict[str, Any] = {}
        rest = self._read_options(words, said)
        self._read_positionals(rest, said)
        options = Options()
        for one in self._all:
            if one.required and one.dest not in said:
                raise _NotPlain
            options.__dict__.setdefault(one.dest, one.default)
        options.__dict__.update(self._defaults)
        options.__dict__.update(said)
        return options

    def _add(self, names: tuple[str, ...], how: dict[str, Any], *, alone: bool) -> None:
        one = _Argument(names, how, alone=alone)
        self._all.append(one)
        if one.is_option:
            self._options.update(dict.fromkeys(names, one))

    def _read_options(self, words: list[str], said: dict[str, Any]) -> list[str]:
        """Take what options say; the other words, which must stand together."""
        rest: list[str] = []
        ended = False
        left = iter(words)
        for word in left:
            if not _is_option(word):
                if ended:
                    raise _NotPlain
                rest.append(word)
                continue
            ended = bool(rest)
            name, equals, value = word.partition("=")
            one = self._options.get(name)
            if one is None or not one.is_plain or (equals and not (one.takes_value and value)):
                raise _NotPlain
            if not one.takes_value:
                said[one.dest] = True if one.action == "store_true" else one.const
                continue
            if not equals:
                value = next(left, _END)
            if value == _END or (not equals and _is_option(value)):
                raise _NotPlain
            _keep(said, one, one.value_of(value))
        return rest

    def _read_positionals(self, words: list[str], said: dict[str, Any]) -> None:
        wanted = [one for one in self._all if not one.is_option]
        if not all(one.is_plain for one in wanted) or any(one.count is not None for one in wanted[:-1]):
            raise _NotPlain
        count = wanted[-1].count if wanted else None
        single = wanted[:-1] if count is not None else wanted
        more = len(words) - len(single)
        if more < (1 if count == "+" else 0) or (more > 1 and count == "?") or (more and count is None):
            raise _NotPlain
        for one, word in zip(single, words, strict=False):
            said[one.dest] = one.value_of(word)
        if more and count == "?":
            said[wanted[-1].dest] = wanted[-1].value_of(words[-1])
        elif more:
            said[wanted[-1].dest] = [wanted[-1].value_of(word) for word in words[len(single) :]]


class _Alone:
    """Options that exclude each other."""

    def __init__(self, add: Callable[..., None]) -> None:
        self._add = add

    def add_argument(self, *names: str, **how: Any) -> None:
        self._add(names, how, alone=True)


def _is_option(word: str) -> bool:
    """Or something that only looks like one: what that is, argparse decides. `-` alone is a word."""
    return word.startswith("-") and word != "-"


def _keep(said: dict[str, Any], one: _Argument, value: Any) -> None:
    if one.action == "store":
        said[one.dest] = value
    elif one.action == "append":
        said[one.dest] = [*said.get(one.dest, one.default or ()), value]
    else:
        said[one.dest] = [*said.get(one.dest, one.default or ()), *value]
