"""Where agent, doctor, probe, deploy, master, console and client touch a file or folder by its name: as the sources
have it; and the table of such places (`places.txt`), with the rule that holds for each.

It owns what counts as such a place, what of a rule can be seen in the sources, and how a line of the table is read.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.trees import ROOT, parsed, sources

TABLE = Path(__file__).with_name("places.txt")
PACKAGES = ("master", "monitor", "wire", "web", "client")
CHANGES_A_NAME = {
    *("unlink", "remove", "rmdir", "removedirs", "rename", "renames", "renameat2", "replace"),
    *("mkdir", "makedirs", "symlink", "link", "mkfifo", "mknod", "symlink_to", "hardlink_to"),
}
"""What changes a folder's names, and follows no link at the last of them."""
OPENS = {"open", "write_text", "write_bytes", "read_text", "read_bytes", "touch", "truncate", "utime", "chmod", "chown"}
OF_OS = {*CHANGES_A_NAME, *OPENS, "lchown", "lchmod", "setxattr"}
OF_PATHS = {*OPENS, *CHANGES_A_NAME, "lchmod"} - {"remove", "link", "chown", "truncate", "utime"}
MODULES = {"shutil", "tempfile", "sqlite3", "zipfile", "tarfile"}
HARMLESS = {
    *("shutil.get_terminal_size", "shutil.copyfileobj", "shutil.which"),
    *("sqlite3.Connection", "sqlite3.DatabaseError"),
}
IN_SHELL = re.compile(
    r"(?:^|[;&|({]|\$\(|\bthen|\bdo|\belse)\s*(?:rm|mv|cp|ln|mkdir|mktemp|touch|ch(?:own|mod)|install|tee) "
    r"|>\s*(?:[\"$~]|/(?!dev/))"
)
WORDS = ("wire/english/",)
"""What people read, commands in it too."""
RULES = {
    "kernel": "of the kernel's own (/proc, /sys, /dev): nobody lays anything there",
    "program": "of Muster's own installation, or of the system's",
    "private": "in a folder of 0700 that its account made (the test makes each)",
    "conf": "in the folder of conf.json: who may write there decides what runs anyway",
    "told": "named by whoever runs the command, for themselves",
    "owner": "done with the rights of the account whose path it is",
    "excl": "makes a file that was not there, and follows no link",
    "nofollow": "follows no link at its last part; what is found is looked at before it is used",
    "beneath": "by a name in a folder that is open, and through no link there",
    "name": "changes only a name: whatever it leads to stays as it is",
    "random": "under a name that nobody can guess",
    "open": "what is open already, by its descriptor",
    "caller": "whoever calls this has a line of their own",
    "none": "no path at all",
}
_KERNEL = re.compile(r"/(?:proc|sys|dev)\b")


class Use(NamedTuple):
    """A call, or the naming of a function. `what`: as the source has it; `seen`: what of rules is seen in it."""

    what: str
    line: int
    seen: frozenset[str]


class Line(NamedTuple):
    """Of the table: `rules`, each use must obey one; `why`: the folder, and whatever else there is to say."""

    rules: tuple[str, ...]
    why: str


def table() -> dict[str, Line]:
    """The lines by place, `MODULE FUNCTION`."""
    found: dict[str, Line] = {}
    for text in TABLE.read_text(encoding="utf-8").splitlines():
        if text and not text.startswith("#"):
            place, rules, why = (part.strip() for part in text.split("|"))
            assert place not in found, f"twice in the table: {place}"
            found[place] = Line(tuple(rules.split()), why)
    return found


@cache
def uses() -> dict[str, list[Use]]:
    """What the sources do, by place."""
    by_callers = frozenset(place.rpartition(" ")[2] for place, line in table().items() if "caller" in line.rules)
    found: dict[str, list[Use]] = {}
    for package in PACKAGES:
        for path in sources(package):
            name = str(path.relative_to(ROOT))
            if name.startswith(WORDS):
                continue
            for function, use in _Source(parsed(path), by_callers).uses():
                found.setdefault(f"{name} {function}", []).append(use)
    return found


def uses_in(text: str) -> Iterator[tuple[str, Use]]:
    """What one source does, each with the function in which it stands."""
    yield from _Source(ast.parse(text), frozenset()).uses()


class _Source:
    def __init__(self, tree: ast.Module, by_callers: frozenset[str]) -> None:
        self._tree = tree
        self._by_callers = by_callers
        self._called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
        self._constants = {
            target.id: ast.unparse(node.value)
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }

    def uses(self) -> Iterator[tuple[str, Use]]:
        yield from self._in(self._tree, ())

    def _in(self, node: ast.AST, names: tuple[str, ...]) -> Iterator[tuple[str, Use]]:
        for child in _own(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from self._in(child, (*names, child.name))
            elif isinstance(child, ast.JoinedStr) or (isinstance(child, ast.Constant) and isinstance(child.value, str)):
                yield from self._in_text(child, names or ("-",))
            elif (what := self._use(child, self._called.get(id(child)))) is not None:
                seen = self._seen(what, self._called.get(id(child)), ast.unparse(node) if names else "")
                yield ".".join(names) or "-", Use(what, getattr(child, "lineno", 0), seen)

    def _use(self, node: ast.AST, call: ast.Call | None) -> str | None:
        if isinstance(node, ast.ImportFrom) and node.module in ("os", *MODULES):
            taken = {alias.name for alias in node.names} & (OF_OS | {"rmtree", "copy", "copyfile", "connect"})
            return f"from {node.module} import {', '.join(sorted(taken))}" if taken else None
        if isinstance(node, ast.Name):
            is_open = node.id == "open" and call is not None
            return node.id if is_open or (node.id in self._by_callers and call is not None) else None
        if not isinstance(node, ast.Attribute):
            return None
        owner = node.value.id if isinstance(node.value, ast.Name) else ""
        whole = f"{owner}.{node.attr}"
        if owner == "os":
            return whole if node.attr in OF_OS else None
        if owner in MODULES:
            return None if whole in HARMLESS else whole
        if node.attr == "renameat2" or (node.attr in self._by_callers and call is not None):
            return node.attr
        if node.attr not in OF_PATHS or ast.unparse(node.value).endswith("structs") or call is None:
            return None
        if node.attr == "replace" and (len(call.args) != 1 or call.keywords):
            return None  # of text, or of a time
        return f".{node.attr}"

    def _in_text(self, node: ast.Constant | ast.JoinedStr, names: tuple[str, ...]) -> Iterator[tuple[str, Use]]:
        """A program in a string: of Python, or of the shell."""
        text = _text_of(node)
        if "\n" in text and "import " in text:
            with suppress(SyntaxError):
                yield from (
                    (f"{'.'.join(names)}:{name}", use) for name, use in _Source(ast.parse(text), frozenset()).uses()
                )
        if match := IN_SHELL.search(text):
            yield ".".join(names), Use(f"shell: {match.group().strip()}", node.lineno, frozenset())

    def _seen(self, what: str, call: ast.Call | None, texts: str) -> frozenset[str]:
        name = what.rpartition(".")[2]
        words = (
            " ".join(ast.unparse(part) for part in (*call.args, *(one.value for one in call.keywords))) if call else ""
        )
        flags = " ".join([words, *(self._constants.get(word, "") for word in re.findall(r"\w+", words))])
        seen = {rule for rule, flag in (("excl", "O_EXCL"), ("nofollow", "O_NOFOLLOW")) if flag in flags}
        # A constant of another module is taken by its name.
        seen |= {"excl", "nofollow"} if re.search(r"\b(?:tree\.)?_?NEW\b", words) else set()
        seen |= {"nofollow"} if re.search(r"\b(?:tree\.)?_?(?:FOLDER|READ)\b", words) else set()
        if name in CHANGES_A_NAME:
            seen.add("name")
        # Of an open folder alone a link would still be followed.
        is_in_folder = call is not None and any((one.arg or "dir_fd").endswith("dir_fd") for one in call.keywords)
        seen |= {"beneath"} if is_in_folder and seen else set()
        if "/proc/self/fd" in texts or "/proc/self/fd" in words:
            seen.add("open")
        of_call = "" if call is None else ast.unparse(call.func)
        kernels = " ".join([texts, flags, *(self._constants.get(word, "") for word in re.findall(r"\w+", of_call))])
        if _KERNEL.search(kernels) or "devnull" in kernels:
            seen.add("kernel")
        return frozenset(seen)


SEEN = {"excl", "nofollow", "beneath", "name", "open", "kernel"}
"""The rules of which something must be seen in the source."""


def _text_of(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    return "".join(part.value if isinstance(part, ast.Constant) else "_" for part in node.values)  # type: ignore[misc]


def _own(node: ast.AST) -> list[ast.AST]:
    """All beneath a node, but for what lies in functions and classes in it; without docstrings."""
    found: list[ast.AST] = []
    _gather(node, found)
    return found


def _gather(node: ast.AST, found: list[ast.AST]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        found.append(child)
        if isinstance(child, ast.JoinedStr):
            for part in child.values:
                if not isinstance(part, ast.Constant):
                    _gather(part, found)
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            _gather(child, found)
