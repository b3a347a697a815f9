"""What `submit` and `run` share: the words after `--`, scripts and batches, and the folder to run in."""

from __future__ import annotations

import argparse
import os
import sys

from client.cli.arguments import fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.cli.context import Context

_NOT_IN_SCRIPTS = ("conf", "master", "token", "proxy", "ca_fingerprint", "script", "batch", "request_id", "as")


def arguments(parser: argparse.ArgumentParser, *, batch: bool) -> None:
    """Add the options that both commands take."""
    parser.usage = f"{parser.prog} [options] -- CMD …\n       {parser.prog} [options] --script FILE"
    if batch:
        parser.usage += f"\n       {parser.prog} [options] --batch FILE"
        parser.add_argument(
            "--batch", metavar="FILE", help="one bash line a task (`-`: stdin), `#` comments; all or none"
        )
    parser.add_argument(
        "--script", metavar="FILE", help="a bash script; `#MUSTER --gpus 2` lines at its head are options"
    )
    parser.add_argument(
        "--request-id", metavar="ID", help="submits with the same id are one submit, however often sent"
    )
    parser.add_argument(
        "--as", dest="as_user", metavar="NAME", help="in whose name (root on the master's machine only)"
    )
    fields.add(parser)


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Read the options before `--`, the command after it, and the directives of a script (the command line wins)."""
    words: list[str] | None = None
    if "--" in argv:
        at = argv.index("--")
        argv, words = argv[:at], argv[at + 1 :]
    options, stray = parser.parse_known_args(argv)
    if stray:
        _refuse_stray(parser, stray, argv)
    sources = [options.script is not None, getattr(options, "batch", None) is not None, bool(words)]
    if sum(sources) != 1:
        parser.error(
            "give one of: a command after `--`, --script FILE" + (", --batch FILE" if hasattr(options, "batch") else "")
        )
    options.command = words
    if options.script is None:
        return options
    text = read_text(options.script)
    _refuse_other_languages(parser, text)
    directives = _directives(parser, text)
    if directives:
        options = parser.parse_args([*directives, *argv])
    options.command = text
    options.name = options.name or os.path.basename(options.script)
    return options


def complete_spec(context: Context) -> dict[str, Any]:
    """The fields of `task.submit` without the command: what was asked for, and where to run."""
    spec = fields.spec(context.options)
    cwd = _folder(context, spec.pop("cwd", None))
    if cwd:
        spec["cwd"] = cwd
    if context.options.request_id:
        spec["request_id"] = context.options.request_id
    if context.options.as_user:
        spec["as"] = context.options.as_user
    _tell_missing(context, spec)
    return spec


def _tell_missing(context: Context, spec: dict[str, Any]) -> None:
    """What was named and is not there is said before the task has waited for an hour; it may still be made."""
    if not (context.options.cwd or spec.get("env")):
        return
    from wire.errors import BadRequestError, UnknownMethodError
    from wire.harmless import harmless

    try:
        missing = context.client.missing_places(spec.get("cwd", ""), spec.get("env", ""))
    except (BadRequestError, UnknownMethodError):
        return  # a master from before this question, or a value that the submit itself is refused for
    for line in missing:
        context.note(f"note: {harmless(line)}")


def read_text(path: str) -> str:
    """A file of commands; `-` is stdin. Raises BadRequestError."""
    from wire.errors import BadRequestError

    try:
        if path == "-":
            text = sys.stdin.buffer.read().decode()
        else:
            with open(path, "rb") as file:
                text = file.read().decode()
    except OSError as error:
        raise BadRequestError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise BadRequestError(f"{path}: not UTF-8 (byte {error.start}); save it as UTF-8") from None
    if not text.strip():
        raise BadRequestError(f"{path}: it is empty")
    return text.removeprefix("\ufeff")


def _folder(context: Context, asked: str | None) -> str | None:
    if context.address.same_machine:
        return os.path.abspath(asked) if asked is not None else os.getcwd()
    if asked is not None:
        return asked
    here = os.getcwd()
    shared = context.client.info().get("visible_folders", [])
    return here if any(here == top or here.startswith(top.rstrip("/") + "/") for top in shared) else None


def _refuse_stray(parser: argparse.ArgumentParser, stray: list[str], argv: list[str]) -> None:
    import shlex

    if stray[0].startswith("-"):
        parser.error(f"there is no option {stray[0]} (the command's own options stand after `--`)")
    # The command begins at the first word that is no option's value: what stands there is left over as well.
    at = next(n for n, word in enumerate(argv) if word == stray[0] and stray[0] in _stray(parser, argv[: n + 1]))
    right = [*argv[:at], "--", *argv[at:]]
    parser.error(f"the command stands after `--`: {parser.prog} {shlex.join(right)}")


def _stray(parser: argparse.ArgumentParser, argv: list[str]) -> list[str]:
    return parser.parse_known_args(argv)[1]


def _refuse_other_languages(parser: argparse.ArgumentParser, text: str) -> None:
    first = text.partition("\n")[0].strip()
    if first.startswith("#!") and not first.split("/")[-1].split(" ")[-1].endswith("sh"):
        shebang = first[2:].strip()
        parser.error(f"the script is for {shebang}, not for bash; submit it as: {parser.prog} -- {shebang} FILE")


def _directives(parser: argparse.ArgumentParser, text: str) -> list[str]:
    import shlex

    found: list[str] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if line and not line.startswith("#"):
            break
        if not line.startswith("#MUSTER"):
            continue
        try:
            words = shlex.split(line.removeprefix("#MUSTER"), comments=True)
        except ValueError as error:
            parser.error(f"line {number} of the script: {error}")
        for word in words:
            name = word.partition("=")[0]
            if name == "--" or name.removeprefix("--").replace("-", "_") in _NOT_IN_SCRIPTS:
                parser.error(f"line {number} of the script: {name} has no place in a #MUSTER line")
        found += words
    return found
