"""KEY=VALUE arguments, as `muster edit` takes them. People also write `gpus 2`, `gpus = 2`, `gpus: 2` or `--gpus 2`;
the error then shows the correct form."""

from __future__ import annotations

from client.cli.arguments.wrong import wrong

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from typing import Any

VALUED = ("--conf", "--master", "--token", "--ca-fingerprint", "--proxy")
"""The options with a value that every command has."""


def add(
    parser: Any, dest: str, read: Callable[[str], Any], is_key: Callable[[str], bool], *, nargs: str = "+", text: str
) -> None:
    """Declare the argument. `read` parses one pair; `is_key` tells whether a word is a key. The argument in front of
    the pairs names the object that they change."""
    parser.add_argument(dest, nargs=nargs, type=read, metavar="KEY=VALUE", help=text)
    parser.is_key = is_key


def none_such(text: str, keys: Collection[str]) -> Exception:
    """Return an ArgumentTypeError for a word that is not KEY=VALUE with one of `keys`. The caller raises it."""
    from client.cli.arguments import nearest

    name, equals, _ = text.partition("=")
    told = f"there is no key {name!r}{nearest.key(name, keys)}" if equals else f"{text!r} is not KEY=VALUE"
    return wrong(f"{told}; keys are {', '.join(keys)}")


def otherwise(argv: Iterable[str], is_key: Callable[[str], bool], options: Collection[str]) -> tuple[str, str] | None:
    """Return the words of a command line that mean KEY=VALUE in another form, and the correct form; None if there are
    none. `options`: the options of the command."""
    thing, *words = [*_words(argv, is_key, options), ""]
    if _is_pair(thing, is_key) and words[0] and "=" not in words[0] and not is_key(words[0]):
        # The object was typed after its changes.
        return f"{thing} {words[0]}", f"{words[0]} {thing}"
    said, right = [], []
    at = 0
    while at < len(words) - 1:
        name = words[at].removeprefix("--").partition("=")[0].partition(":")[0]
        taken, value = _value(words, at) if is_key(name) else (1, None)
        if value is not None:
            said += words[at : at + taken]
            right.append(f"{name}={_quoted(value)}")
        at += taken
    return (" ".join(map(_quoted, said)), " ".join(right)) if right else None


def _value(words: list[str], at: int) -> tuple[int, str | None]:
    """Return how many words the pair at `at` has, and its value, if it has another form; else (1, None)."""
    word, *rest = words[at:]
    head, equals, tail = word.partition("=")
    if equals and tail:
        return 1, tail if head.startswith("--") else None
    following = rest[0]
    is_bare = bool(following) and "=" not in following
    if equals:
        return (2, following) if is_bare else (1, None)
    if following == "=" and rest[1]:
        return 3, rest[1]
    if following[:1] == "=" and len(following) > 1:
        return 2, following[1:]
    head, colon, tail = word.partition(":")
    if colon and tail:
        return 1, tail
    return (2, following) if is_bare else (1, None)


def _words(argv: Iterable[str], is_key: Callable[[str], bool], options: Collection[str]) -> Iterator[str]:
    """Yield the words that are neither options nor values of options. An unknown option with the name of a key is one
    of these words."""
    left = iter(argv)
    for word in left:
        name, equals, _ = word.partition("=")
        if name in VALUED:
            if not equals:
                next(left, None)
            continue
        is_key_as_option = word.startswith("--") and name not in options and is_key(name[2:])
        if is_key_as_option or not word.startswith("-") or word[1:2].isdigit():
            yield word


def _is_pair(word: str, is_key: Callable[[str], bool]) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and is_key(name)


def _quoted(word: str) -> str:
    import shlex

    return shlex.quote(word)
