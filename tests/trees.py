"""The sources of the product as trees, for the tests that hold them to a rule. Each file is parsed once in a process,
since several tests look at all of them."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent


def sources(folder: str) -> list[Path]:
    """The files of a package, or the file of that name."""
    path = ROOT / folder
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    """A file's tree, which nobody changes. What stays is no garbage: to look for some in the growing heap would take
    three times as long as to parse."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"), str(path))
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@cache
def nodes(path: Path) -> list[ast.AST]:
    """All nodes of a file's tree, in the order of `ast.walk`, which takes half as long as to parse the file."""
    return list(ast.walk(parsed(path)))
