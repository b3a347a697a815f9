"""Nobody reaches into another object's underscore names: read from the sources.

What begins with an underscore is for the class, or the module, that defines it. A class may touch it on `self`, `cls`,
and on another of its own kind; what a base keeps for itself is not its subclass' either.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.trees import ROOT, parsed, sources

PACKAGES = ("master", "client", "wire", "monitor", "muster", "web")
OUR_OWN = ("self", "cls")
PUBLIC_IN_SPITE = {
    "_asdict", "_replace", "_fields", "_make",  # of a named tuple: underscored so that they are no fields
    "_exit",  # os._exit
}  # fmt: skip
ALLOWED = {
    ("master/command_line.py", "_SubParsersAction"): "argparse names the type of what add_subparsers gives so only",
    ("master/start/server_log.py", "_SysExcInfoType"): "the type of what logging's formatter gets has no other name",
    ("client/cli/commands/completion.py", "_actions"): "the way that shtab documents",
    ("client/live/worker.py", "_socket"): "a session of its kind that another thread may end",
    ("client/live/worker.py", "_open"): "a session of its kind that another thread may end",
}  # fmt: skip
"""What may be, and why. The list only becomes shorter."""


def defined_in(scope: ast.AST) -> set[str]:
    """The names that a class, or a module, defines: functions, fields, what is set on `self` or on one of its kind, and
    slots."""
    found: set[str] = set()
    for node in ast.walk(scope):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) in OUR_OWN:
            found.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Assign) and "__slots__" in map(ast.unparse, node.targets):
            found |= set(ast.literal_eval(node.value))
    return found


def reaches(tree: ast.AST, own: frozenset[str] = frozenset()) -> Iterator[tuple[int, str]]:
    """Line and name of each `x._y` that the class around it does not define, wherever in the file."""
    for node in ast.iter_child_nodes(tree):
        inside = frozenset(defined_in(node)) if isinstance(node, ast.ClassDef) else own
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__"):
            of_super = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "super"
            if node.attr not in PUBLIC_IN_SPITE and (of_super or node.attr not in own):
                yield node.lineno, node.attr
        yield from reaches(node, inside)


@cache
def found_in(path: Path) -> list[tuple[int, str]]:
    return list(reaches(parsed(path)))


@pytest.mark.parametrize("package", PACKAGES)
def test_no_class_reaches_into_the_underscore_names_of_another(package: str) -> None:
    breaches = [
        f"{path.relative_to(ROOT)}:{line} reaches for {name}"
        for path in sources(package)
        for line, name in found_in(path)
        if (str(path.relative_to(ROOT)), name) not in ALLOWED
    ]
    assert breaches == []


def test_what_is_allowed_is_still_needed() -> None:
    needed = {(str(path.relative_to(ROOT)), name) for package in PACKAGES for path in sources(package)
              for _, name in found_in(path)}  # fmt: skip
    assert ALLOWED.keys() - needed == set()


def test_a_reach_would_be_seen_and_what_is_ones_own_would_not(tmp_path: Path) -> None:
    path = tmp_path / "some.py"
    path.write_text(
        "class Book:\n"
        "    def __init__(self, other):\n"
        "        self._pages = other._pages\n"
        "        self._read(other._cover)\n"
        "        self._inherited()\n"
        "    def _read(self, what):\n"
        "        super()._read(what.__dict__)\n"
        "def look(book):\n"
        "    return book._lines._replace()\n",
        encoding="utf-8",
    )
    assert found_in(path) == [(4, "_cover"), (5, "_inherited"), (7, "_read"), (9, "_lines")]
