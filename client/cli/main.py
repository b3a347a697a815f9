"""`muster`: finds the command, reads that command's options and no other's, runs it, turns errors into exit codes.

Exit 0 done, 1 refused or failed, 2 wrong usage, 3 the master cannot be reached, 4 done but the answer could not be
written, 130 after Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from collections import deque

from client.cli.arguments.quick import Quick
from client.cli.arguments.shared import declare
from client.cli.commands import COMMANDS, GROUPS
from client.cli.screen.terminal import begin, note, unwritable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RIGHT_WORDS = {
    "kill": "`muster cancel ID` ends a task",
    "stop": "`muster cancel ID` ends a task, `muster down` stops the master",
    "delete": "`muster rm ID` deletes a task, `muster files rm PATH` a file",
    "remove": "`muster rm ID` deletes a task, `muster files rm PATH` a file",
    "ps": "`muster queue` shows what waits and runs",
    "ls": "`muster queue` shows the tasks, `muster nodes` the machines, `muster files ls` the files",
    "list": "`muster queue` shows the tasks, `muster nodes` the machines",
    "jobs": "`muster queue` shows what waits and runs",
    "history": "`muster queue --all` shows the ended tasks too",
    "log": "`muster logs ID` prints a task's output",
    "tail": "`muster logs -f ID` follows a task's output",
    "exec": "`muster run -- CMD …` queues a command and shows its output, `muster shell NODE` is a shell on a machine",
    "describe": "`muster show ID` shows a task, `muster node show NAME` a machine",
    "restart": "`muster retry ID` queues an ended task again, `muster agents restart` restarts the helpers",
    "drain": "`muster node drain NAME` sets a machine aside",
    "squeue": "`muster queue` shows what waits and runs",
    "sbatch": "`muster submit --script FILE` queues a script",
    "srun": "`muster run -- CMD …` queues a command and shows its output",
    "scancel": "`muster cancel ID` ends a task",
    "sinfo": "`muster nodes` shows the machines",
    "scontrol": "`muster edit ID KEY=VALUE` changes a task, `muster node edit NAME KEY=VALUE` a machine",
    "sacct": "`muster queue --all --since 1d` shows what ended",
}
"""Commands of other programs, and their names here."""
_GLOBAL_WITH_VALUE = ("--conf", "--master", "--token", "--ca-fingerprint", "--proxy")


def main(argv: list[str] | None = None) -> int:
    """Run a command line (without the program's name) and give its exit code."""
    begin()
    done: list[str] = []
    try:
        code = _dispatch(list(sys.argv[1:] if argv is None else argv), done)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BrokenPipeError as error:
        unwritable()
        return _unwritten(error, done)
    except Exception as error:  # noqa: BLE001  (what is not ours is raised again, in _failed)
        why = unwritable()
        if why is None:
            return _failed(error)
        return _unwritten(why, done)
    why = unwritable()
    return code if why is None else _unwritten(why, done)


def _unwritten(why: OSError, done: list[str]) -> int:
    """Return the exit status if the answer cannot be written. A closed pipe needs no message; changes that were made
    are reported in any case."""
    if done:
        note(f"error: io: {done[-1]}, but this could not be written to stdout: {why.strerror}")
        return 4
    if isinstance(why, BrokenPipeError):
        return 141
    note(f"error: io: the answer could not be written to stdout: {why.strerror}")
    return 1


def _dispatch(argv: list[str], done: list[str]) -> int:
    before, name, rest = _split(argv)
    if name is None:
        return _without_command(before)
    if name not in COMMANDS:
        if name == "help":
            return _dispatch([*rest[:1], "--help"], done)
        sys.stderr.write(f"error: usage: there is no command {name!r}{_similar(name)}\n")
        return 2
    module: Any = __import__(f"client.cli.commands.{name}", fromlist=("run",))  # importlib loads more than the command
    parser = Quick(f"muster {name}", lambda quick: declare(module, quick), lambda: _whole(name))
    argv = before + rest
    options = module.parse(parser, argv) if hasattr(module, "parse") else parser.parse_args(argv)
    if options.conf and options.master:
        parser.error("--conf and --master: give one of them")
    from client.cli.context import Context
    from client.session import Session

    Session.heard = deque(maxlen=3)
    context = Context(options, done)
    try:
        code: int = module.run(context)
    finally:
        context.close()
    return code


def _whole(name: str) -> object:
    from client.cli.arguments.parser import build_parser

    return build_parser(name)


def _split(argv: list[str]) -> tuple[list[str], str | None, list[str]]:
    index = 0
    while index < len(argv) and argv[index].startswith("-"):
        index += 2 if argv[index] in _GLOBAL_WITH_VALUE else 1
    if index >= len(argv):
        return argv, None, []
    return argv[:index], argv[index], argv[index + 1 :]


def _without_command(options: list[str]) -> int:
    if "--version" in options or "-V" in options:
        from wire.version import VERSION

        print(f"muster {VERSION}")
        return 0
    unknown = [option for option in options if option not in ("-h", "--help")]
    if unknown:
        name = unknown[0].partition("=")[0]  # what follows may be a token
        sys.stderr.write(f"error: usage: a command is missing after {name}; see `muster --help`\n")
        return 2
    print(_overview())
    return 0 if options else 2


def _overview() -> str:
    lines = ["usage: muster COMMAND [options]", "", "Muster turns a handful of GPU machines into one queue.", ""]
    for group, commands in GROUPS.items():
        lines += [f"{group}:", *(f"  {name:<11} {text}" for name, text in commands.items()), ""]
    lines += [
        "Everywhere: --conf FILE | --master HOST[:PORT], --json. `muster COMMAND --help` says more.",
        "",
        "To begin:",
        "  muster init lab && cd lab && muster up --detach",
        "  muster submit -- echo hello",
        "  muster queue",
    ]
    return "\n".join(lines)


def _similar(name: str) -> str:
    if name in RIGHT_WORDS:
        return f": {RIGHT_WORDS[name]}"
    from difflib import get_close_matches

    close = get_close_matches(name, COMMANDS, 1)
    return f" (did you mean `muster {close[0]}`?); see `muster --help`" if close else "; see `muster --help`"


def _failed(error: Exception) -> int:
    from wire.errors import MusterError, UnreachableError
    from wire.harmless import harmless

    if isinstance(error, FileNotFoundError) and error.filename is None:
        from client.here import here

        try:
            here()
        except MusterError as gone:  # what was not there is this folder
            error = gone
    if isinstance(error, MusterError):
        note(f"error: {error.code}: {harmless(str(error))}")
        return 3 if isinstance(error, UnreachableError) else 1
    error = _explained(error)
    if isinstance(error, MusterError):
        note(f"error: {error.code}: {harmless(str(error))}")
        return 1
    if isinstance(error, OSError):
        note(f"error: io: {harmless(_of_file(error))}")
        return 1
    if isinstance(error, UnicodeEncodeError):
        from client.not_text import shown

        note(f"error: usage: {shown(error.object)} is not UTF-8: write it as UTF-8, or rename what has this name")
        return 2
    raise error


def _of_file(error: OSError) -> str:
    """Which file it was, and why; of one that could not be made, that its folder is not there."""
    path = error.filename
    if not isinstance(path, str) or error.filename2 is not None:
        return str(error)
    above = os.path.dirname(path)
    if isinstance(error, FileNotFoundError) and above and not os.path.isdir(above):
        return f"{path}: the folder {above} does not exist"
    return f"{path}: {error.strerror}"


def _explained(error: Exception) -> Exception:
    """The error, or that what was heard is nothing that a master says."""
    from client.answers import explained
    from client.session import Session

    return explained(Session.heard or (), error)
