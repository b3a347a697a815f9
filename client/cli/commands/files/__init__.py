"""Files in the folders that the master shows: look at them, fetch and send them, put them in order.

Paths begin with a visible folder, like data/run1/model.pt. `mv`, `cp` and `put` put things into a folder that exists,
else give them the new name; nothing that exists is replaced without -f. `get` goes on where an earlier try was cut off.
"""

from __future__ import annotations

import argparse
import sys

from client.cli.commands.files.place import into, needs_r, remote
from client.cli.screen.terminal import terminal_width
from client.text.quantities import moment, size_text
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from client.cli.context import Context

EXAMPLES = """examples:
  muster files roots                       the visible folders
  muster files ls -l data/run1
  muster files cat data/run1/config.yaml
  muster files get data/run1/model.pt      into this folder; again after a break: goes on
  muster files get -r data/run1 results
  muster files put -r src data/project
  muster files mkdir -p data/new/run2
  muster files cp -r data/run1 data/run2
  muster files mv data/a.txt data/b.txt data/old
  muster files rm -r data/run1"""
SEVERAL = 1 << 30
# action -> (fewest paths, most paths, what they are, the options that it knows)
ACTIONS: dict[str, tuple[int, int, str, str]] = {
    "roots": (0, 0, "", ""),
    "ls": (0, SEVERAL, "[PATH…]", "la"),
    "cat": (1, SEVERAL, "PATH…", ""),
    "put": (2, SEVERAL, "LOCAL… PATH", "rf"),
    "get": (1, SEVERAL, "PATH… [LOCAL]", "r"),
    "mkdir": (1, SEVERAL, "PATH…", "p"),
    "mv": (2, SEVERAL, "PATH… NEW", "f"),
    "cp": (2, SEVERAL, "PATH… NEW", "rf"),
    "rm": (1, SEVERAL, "PATH…", "rf"),
}
_FLAGS = {"l": "long", "a": "all", "r": "recursive", "f": "force", "p": "parents"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("action", choices=list(ACTIONS), help="what to do")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="; ".join(f"{a} {d[2]}" for a, d in ACTIONS.items()))
    parser.add_argument("-r", "--recursive", action="store_true", help="put, get, cp, rm: whole folders")
    parser.add_argument("-f", "--force", action="store_true", help="mv, cp, put: replace; rm: missing ones are fine")
    parser.add_argument("-p", "--parents", action="store_true", help="mkdir: the folders above too")
    parser.add_argument("-l", "--long", action="store_true", help="ls: with rights, size and time")
    parser.add_argument("-a", "--all", action="store_true", help="ls: hidden ones too")


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Read the command line; options may stand between the paths."""
    options = parser.parse_intermixed_args(argv)
    fewest, most, what, flags = ACTIONS[options.action]
    if not fewest <= len(options.paths) <= most:
        parser.error(f"it is: muster files {options.action} {what}".rstrip())
    for letter, name in _FLAGS.items():
        if getattr(options, name) and letter not in flags:
            parser.error(f"`{options.action}` has no option -{letter}")
    return options


def run(context: Context) -> int:
    """Do it."""
    action = context.options.action
    if action in ("put", "get"):
        from client.cli.commands.files import transfer

        return transfer.run(context)
    code: int = {
        "roots": _roots, "ls": _ls, "cat": _cat, "mkdir": _mkdir, "mv": _mv, "cp": _cp, "rm": _rm,
    }[action](context)  # fmt: skip
    return code


def each(context: Context, paths: list[str], do: Callable[[str], Any]) -> tuple[int, list[Any]]:
    """Do it for each path, also after a refusal: 1 if one was refused, and what the others gave."""
    from wire.errors import MusterError, UnreachableError

    code, results = 0, []
    for path in paths:
        try:
            results.append(do(path))
        except UnreachableError:
            raise
        except MusterError as error:
            context.note(f"error: {error.code}: {harmless(str(error))}")
            code = 1
    return code, results


def _paths(context: Context) -> list[str]:
    return [remote(path) for path in context.options.paths]


def _roots(context: Context) -> int:
    names = context.client.files.roots()
    if context.json:
        context.print_json(names)
    elif names:
        context.say("\n".join(map(harmless, names)))
    else:
        context.note("no folder is visible: an admin can name some in `visible_folders` of conf.json")
    return 0


def _ls(context: Context) -> int:
    paths = _paths(context)
    if not paths:
        return _roots(context)

    def look(path: str) -> tuple[str, list[dict[str, Any]]]:
        from wire.errors import BadRequestError

        try:
            return path, context.client.files.list(path)
        except BadRequestError:
            return path, [{**context.client.files.stat(path), "name": path}]

    code, found = each(context, paths, look)
    if context.json:
        listings = [{"path": path, "entries": entries} for path, entries in found]
        context.print_json(listings if len(paths) > 1 else found[0][1] if found else [])
        return code
    for number, (path, entries) in enumerate(found):
        if len(paths) > 1:
            context.say(f"{'' if number == 0 else chr(10)}{harmless(path)}:")
        _show(context, [entry for entry in entries if context.options.all or not entry["hidden"]])
    return code


def _show(context: Context, entries: list[dict[str, Any]]) -> None:
    if not context.options.long:
        for entry in entries:
            context.say(_name(entry))
        return
    from client.text.table import render

    rows = [[_rights(entry), size_text(entry["size"]), moment(entry["mtime"]), _name(entry)] for entry in entries]
    titles = ["RIGHTS", "SIZE", "CHANGED", "NAME"]
    sys.stdout.write(render(titles, rows, terminal_width(), flexible={"NAME": 8}, right=frozenset({"SIZE"})))


def _name(entry: dict[str, Any]) -> str:
    mark = {"folder": "/", "file": ""}.get(entry["kind"], "?")
    return harmless(entry["name"]) + ("@" if entry["link"] else "") + mark


def _rights(entry: dict[str, Any]) -> str:
    letters = "".join(letter if entry["mode"] >> bit & 1 else "-" for letter, bit in zip("rwxrwxrwx", range(8, -1, -1)))  # noqa: B905
    return {"folder": "d", "file": "-"}.get(entry["kind"], "?") + letters


def _cat(context: Context) -> int:
    files = context.client.files
    if context.json:
        code, found = each(
            context,
            _paths(context),
            lambda path: {"path": path, "text": b"".join(files.pieces(path)).decode(errors="replace")},
        )
        context.print_json(found[0] if len(found) == 1 else found)
        return code

    def show(path: str) -> None:
        for piece in files.pieces(path):
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()

    return each(context, _paths(context), show)[0]


def _mkdir(context: Context) -> int:
    def make(path: str) -> str:
        context.client.files.make_folder(path, parents=context.options.parents)
        return path

    return _done(context, each(context, _paths(context), make))


def _mv(context: Context) -> int:
    *sources, target = _paths(context)
    place = into(context, sources, target)

    def move(path: str) -> dict[str, str]:
        context.client.files.move(path, place(path), overwrite=context.options.force)
        return {"from": path, "to": place(path)}

    return _done(context, each(context, sources, move))


def _cp(context: Context) -> int:
    *sources, target = _paths(context)
    place = into(context, sources, target)
    files = context.client.files

    def copy(path: str) -> dict[str, Any]:
        if not context.options.recursive and files.stat(path)["kind"] == "folder":
            raise needs_r(path)
        done = files.copy(path, place(path), overwrite=context.options.force)
        for skipped in done["skipped"]:
            context.note(f"skipped: {harmless(skipped)} (neither file, folder nor link)")
        return {"from": path, "to": place(path), **done}

    return _done(context, each(context, sources, copy))


def _rm(context: Context) -> int:
    options = context.options

    def remove(path: str) -> dict[str, Any]:
        from wire.errors import NotFoundError

        try:
            return {"path": path, "deleted": context.client.files.delete(path, recursive=options.recursive)}
        except NotFoundError:
            if not options.force or not _visible(context, path):
                raise
            return {"path": path, "deleted": 0}

    return _done(context, each(context, _paths(context), remove))


def _visible(context: Context, path: str) -> bool:
    """Return whether a path begins with a visible folder. A path outside of them may well exist, and was not
    deleted."""
    plain = "/".join(part for part in path.split("/") if part not in ("", "."))
    return any(f"{plain}/".startswith(f"{root}/") for root in context.client.files.roots())


def _done(context: Context, outcome: tuple[int, list[Any]]) -> int:
    """Silence means that it is done, as with the commands of the same names; --json tells what."""
    code, results = outcome
    if context.json:
        context.print_json(results)
    return code
