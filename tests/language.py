"""Check the English of the product: `python -m tests.language`, as `make check` runs it.

Reads docstrings, comments and sentences of the Python files, the English words and the comments of the console's pages,
and the English documents. Reads neither tests, nor code in backticks, nor what is made from docstrings (docs/wire.md).

Three rules, by their names in tests/language.txt:

* `pronoun`: no he, him, his or himself. Write "they", or the noun.
* `relative`: no sentence begins with a relative clause (Who, Whoever, Whose, What …). A question may, and so
  may a label of a page, which ends without a full stop.
* `idiom`: none of the phrases of `IDIOMS`, each with what to write instead.

tests/language.txt has the hits that older files still have: `RULE PATH COUNT`. A file with more hits fails, and so does
one with fewer, so that the number can only fall: `python -m tests.language --lower` writes it down.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
ALLOWED = Path(__file__).with_suffix(".txt")
IDIOMS = {
    r"as whom": "as which user, or whose",
    r"such a one": "the caller, or the noun",
    r"takes? it its": "removes its",
    r"(?:who|whoever|that) is nobody": "somebody without access",
    r"opens? the door": "gives access",
    r"(?:queue|scheduler) stands still": "the scheduler is paused",
    r"(?:tasks?|attempts?) that (?:has|have) ended": "finished task, finished attempt",
    r"what is there": "existing files, or the noun",
    r"logs? that (?:is|are) (?:not )?there": "existing log, no log",
}
"""Phrases that follow another language's syntax, as patterns, and what to write instead."""

_PRONOUN = re.compile(r"\b(?:he|him|his|himself)\b", re.IGNORECASE)
_RELATIVE = re.compile(
    r"(?:\A|(?<=[.!?:])\s+|\n\s*\n\s*|\n\s*[-*|] +)[\"“(*]*(?:Who(?:ever|se|m)?|What(?:ever)?)\b[^.!?]*[.!?]?"
)
_IDIOM = re.compile(rf"\b(?:{'|'.join(IDIOMS)})\b", re.IGNORECASE)
_CODE = re.compile(r"`[^`\n]*`")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#.*$", re.MULTILINE)
_JS_COMMENT = re.compile(r"/\*\*?(.*?)\*/|(?:^|\s)//(.*?)$", re.MULTILINE | re.DOTALL)
_JS_STAR = re.compile(r"^\s*\*", re.MULTILINE)
_JS_WORDS = re.compile(r"^\s*\"?[\w.-]+\"?: \"(.*)\",?$", re.MULTILINE)
_MADE = ("docs/wire.md",)
_LEFT_OUT = ("tests/", "web/static/vendor/")
_STOPS = (".", "!", "?", ":", "…")
_SHORT = 3
"""A text of fewer words is a name or a format, not a sentence."""


class Hit(NamedTuple):
    """A breach of a rule. `line`: that on which its text begins, from 1."""

    rule: str
    path: str
    line: int
    found: str


def hits_in(path: str, source: str) -> Iterator[Hit]:
    """Yield the hits in one file. `path` says what language it is in."""
    for line, text in _texts(path, source):
        is_label = "/words/en/" in path and not text.endswith(_STOPS)
        for rule, at, found in _breaches(text):
            if not (is_label and rule == "relative"):
                yield Hit(rule, path, line + text.count("\n", 0, at), found)


def _breaches(text: str) -> Iterator[tuple[str, int, str]]:
    """Yield rule, place and words of each breach in a text."""
    plain = _CODE.sub(lambda code: "x" * len(code[0]), text)
    for pronoun in _PRONOUN.finditer(plain):
        yield "pronoun", pronoun.start(), _around(plain, pronoun)
    for relative in _RELATIVE.finditer(plain):
        if not relative[0].endswith("?"):
            yield "relative", relative.end() - len(relative[0].lstrip()), relative[0]
    for idiom in _IDIOM.finditer(plain):
        yield "idiom", idiom.start(), _around(plain, idiom)


def _around(text: str, match: re.Match[str]) -> str:
    return text[max(0, match.start() - 40) : match.end() + 40]


def _texts(path: str, source: str) -> Iterator[tuple[int, str]]:
    """Yield the English texts of a file, each with its first line."""
    if path.endswith(".py"):
        yield from _of_python(source)
    elif path.endswith(".md"):
        without = _FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), source)
        yield 1, _HEADING.sub("", without)
    else:
        pattern = _JS_WORDS if "/words/en/" in path else _JS_COMMENT
        for match in pattern.finditer(source):
            text = next(group for group in match.groups() if group is not None)
            line = source.count("\n", 0, match.start(match.lastindex or 0)) + 1
            yield line, _JS_STAR.sub("", text)


def _of_python(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) >= _SHORT:
            yield node.lineno, node.value
    comment, first, last = "", 0, -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if token.start[0] != last + 1:
            if comment:
                yield first, comment
            comment, first = "", token.start[0]
        comment += token.string.lstrip("# ") + "\n"
        last = token.start[0]
    if comment:
        yield first, comment


def files() -> Iterator[str]:
    """Yield the paths of the files that are checked, as git knows them."""
    listed = subprocess.check_output(["git", "ls-files", "*.py", "*.md", "web/static/*.js"], cwd=ROOT, text=True)
    for path in listed.split():
        if "zh-CN" not in path and path not in _MADE and not path.startswith(_LEFT_OUT) and (ROOT / path).exists():
            yield path


def found() -> list[Hit]:
    """Return all hits."""
    return [hit for path in files() for hit in hits_in(path, (ROOT / path).read_text(encoding="utf-8"))]


def allowed() -> Counter[tuple[str, str]]:
    """Return how many hits tests/language.txt allows, by rule and path."""
    lines = ALLOWED.read_text(encoding="utf-8").splitlines()
    return Counter({(rule, path): int(count) for rule, path, count in map(str.split, lines)})


def beyond(hits: Iterable[Hit], allowance: Counter[tuple[str, str]]) -> list[str]:
    """Return a line for each hit in a file that has more of a rule than its allowance."""
    hits = list(hits)
    counts = Counter((hit.rule, hit.path) for hit in hits)
    return [
        f"{hit.path}:{hit.line}: {hit.rule}: {' '.join(hit.found.split())}"
        f" ({counts[hit.rule, hit.path]} in this file; allowed: {allowance[hit.rule, hit.path]})"
        for hit in hits
        if counts[hit.rule, hit.path] > allowance[hit.rule, hit.path]
    ]


def too_many(hits: Iterable[Hit], allowance: Counter[tuple[str, str]]) -> list[str]:
    """Return a line for each allowance that is larger than what its file needs."""
    counts = Counter((hit.rule, hit.path) for hit in hits)
    return [
        f"{rule} {path}: {counts[rule, path]} hits, {count} allowed"
        for (rule, path), count in sorted(allowance.items())
        if counts[rule, path] < count
    ]


def lower(hits: Iterable[Hit], allowance: Counter[tuple[str, str]]) -> str:
    """Return the lines of tests/language.txt with each number as low as it can be, and none raised."""
    counts = Counter((hit.rule, hit.path) for hit in hits)
    kept = {key: min(count, counts[key]) for key, count in allowance.items()}
    return "".join(f"{rule} {path} {count}\n" for (rule, path), count in sorted(kept.items()) if count)


def main() -> int:
    """Check everything; return the exit status. `--lower` writes numbers that have fallen; `--all` shows every hit."""
    parser = argparse.ArgumentParser(prog="python -m tests.language", description="Check the English of the product.")
    parser.add_argument("--lower", action="store_true", help="write numbers that have fallen into tests/language.txt")
    parser.add_argument("--all", action="store_true", help="show also the hits that are allowed")
    parser.add_argument("paths", nargs="*", help="show the hits of these files only")
    args = parser.parse_args()
    hits, allowance = found(), allowed()
    if args.lower:
        ALLOWED.write_text(lower(hits, allowance), encoding="utf-8")
        allowance = allowed()
    shown = [hit for hit in hits if not args.paths or hit.path in args.paths]
    lines = beyond(shown, Counter() if args.all else allowance)
    spare = [] if args.all else too_many(hits, allowance)
    print("\n".join([*lines, *spare]), end="\n" if lines or spare else "")
    if lines and not args.all:
        print("tests/language.py says what each rule wants.", file=sys.stderr)
    if spare:
        print("Fewer hits than tests/language.txt allows: python -m tests.language --lower", file=sys.stderr)
    return 1 if spare or (lines and not args.all) else 0


if __name__ == "__main__":
    sys.exit(main())
