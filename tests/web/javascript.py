"""What stands in the console's JavaScript, read as text: its dictionaries, its templates, what it asks to be said."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from wire.english import SENTENCES

STATIC = Path(__file__).parents[2] / "web" / "static"
_ENTRY = re.compile(r'^  (?:"([^"]+)"|(\w+)): ("(?:[^"\\]|\\.)*"),$', re.MULTILINE)
_SAID = re.compile(r"""\bt\(\s*["']([^"']+)["']""")
_MADE = re.compile(r"\bt\(\s*`([^`$]*)\$\{")
_NAMED = re.compile(r"""["']([\w-]+(?:\.[\w-]+)+)["']""")
_IMPORTED = re.compile(r'^(?:import|export)\b[^;"]*"(\.[^"]+)"', re.MULTILINE)
_LOADED = re.compile(r'\bimport\("(\.[^"]+)"\)')


def modules() -> list[Path]:
    """Those that we wrote, dictionaries excluded."""
    found = sorted(STATIC.rglob("*.js"))
    return [path for path in found if not {"vendor", "words"} & set(path.relative_to(STATIC).parts)]


def dictionary(*names: str) -> dict[str, str]:
    """The entries of files of `words/`, one a line. Raises AssertionError for a key that stands there twice."""
    entries: dict[str, str] = {}
    for name in names:
        for quoted, plain, text in _ENTRY.findall((STATIC / "words" / name).read_text(encoding="utf-8")):
            key = quoted or plain
            assert key not in entries, f"{name} says {key} twice"
            entries[key] = json.loads(text)
    return entries


def sentences(language: str) -> Mapping[str, str]:
    """The sentences of the wire in a language of the console, by their keys."""
    if language == "en":
        return SENTENCES
    names = {path.name for path in (STATIC / "words" / language).glob("*.js")}
    pages = {path.name for path in (STATIC / "words" / "en").glob("*.js")}
    return dictionary(
        *(f"{language}/{name}" for name in sorted(names - pages - {"index.js", "forms.js", "sayings.js"}))
    )


def asked_for(source: str) -> tuple[set[str], set[str]]:
    """The keys that a module asks the dictionary for, and the beginnings of those that it puts together."""
    return set(_SAID.findall(source)), set(_MADE.findall(source))


def named(source: str) -> set[str]:
    """Texts that may be keys, as tables hold them and hand them to the dictionary."""
    return set(_NAMED.findall(source))


def imports(path: Path, *, later: bool = False) -> list[Path]:
    """What a module imports; with `later` also what it loads when somebody asks for it."""
    source = path.read_text(encoding="utf-8")
    names = _IMPORTED.findall(source) + (_LOADED.findall(source) if later else [])
    return [(path.parent / name).resolve() for name in names]


def reached(path: Path, *, later: bool = False) -> set[Path]:
    """A module, and all that comes with it."""
    found, todo = set(), [path.resolve()]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += imports(one, later=later)
    return found


def literals(source: str) -> list[str]:
    """Texts that a template shows, or gives to who has the page read aloud, without asking the dictionary."""
    found: list[str] = []
    for markup in _templates(source):
        bare = re.sub(r"<(code|kbd)\b[^>]*>[^<]*</\1>", "", markup)
        texts = [one for one in re.split(r"<[^>]*>", bare) if re.search(r"[^\W\d_]{2}", one.replace("\0", ""))]
        found += [one.replace("\0", "").strip() for one in texts if one.replace("\0", "").strip() not in BRANDS]
        found += re.findall(r'\b(?:title|aria-label|placeholder|alt)="([^"\0]*[^\W\d_]{2}[^"]*)"', bare)
    return found


BRANDS = {"Muster", "GPU"}
"""What is called the same in every language."""


def _templates(source: str) -> Iterator[str]:
    """The markup of each template, with a NUL for each value in it; those within values come on their own."""
    for start in re.finditer(r"\bhtml`", source):
        yield _markup(source, start.end())


def _markup(source: str, at: int) -> str:
    parts: list[str] = []
    while source[at] != "`":
        if source.startswith("${", at):
            at = _behind_value(source, at + 2)
            parts.append("\0")
        else:
            parts.append(source[at])
            at += 1
    return "".join(parts).replace("=>", "")


def _behind_value(source: str, at: int) -> int:
    """Where the value that begins here, behind `${`, ends."""
    depth = 1
    while depth:
        one = source[at]
        if one in "\"'":
            at = source.index(one, at + 1)
            while source[at - 1] == "\\":
                at = source.index(one, at + 1)
        elif one == "`":
            at = _behind_template(source, at + 1)
            continue
        elif one == "{":
            depth += 1
        elif one == "}":
            depth -= 1
        at += 1
    return at


def _behind_template(source: str, at: int) -> int:
    while source[at] != "`":
        if source.startswith("${", at):
            at = _behind_value(source, at + 2)
        else:
            at += 1
    return at + 1
