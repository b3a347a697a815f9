"""`muster`: finds the command, builds that command's parser and no other, runs it, turns errors into exit codes.

Exit 0 done, 1 refused or failed, 2 wrong usage, 3 the master cannot be reached, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from importlib import import_module

from client.cli.context import Context, note, terminal_width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

GROUPS: dict[str, dict[str, str]] = {
    "Master": {
        "init": "write a conf.json and a registry that work on this machine",
        "up": "start the master",
        "down": "stop the master; tasks run on",
        "status": "the whole at a glance",
        "top": "the whole live: GPUs, who has them, the queue",
        "deploy": "write units, NFS, Samba and InfluxDB set-ups for this lab",
    },
    "Tasks": {
        "submit": "queue a command and print its id",
        "run": "queue a command, show its output, exit with its code",
        "queue": "what waits and runs",
        "show": "everything about a task",
        "why": "why a task waits, or ended as it did",
        "logs": "a task's output",
        "wait": "wait until tasks have ended",
        "cancel": "end tasks",
        "retry": "queue ended tasks again",
        "rm": "delete tasks that are not alive",
    },
    "Order": {
        "edit": "change what a task asks for",
        "move": "put a task at a place in the queue",
        "hold": "keep tasks from starting",
        "release": "let held tasks wait again",
        "start": "start a task whatever its priority",
    },
    "Machines": {
        "nodes": "the machines and their GPUs",
        "node": "one machine: show it, change the registry, set it aside, trust its key",
        "agents": "stop, start or restart the helpers on the machines; tasks run on",
        "shell": "a shell on a machine",
    },
    "Files": {"files": "look at, fetch, send and order files in the visible folders"},
    "Environments": {"env": "Python environments: which there are, and what they hold"},
    "Shell": {"completion": "print a completion script for bash or zsh"},
}
COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}
_GLOBAL_WITH_VALUE = ("--conf", "--master", "--token", "--ca-fingerprint")


class Parser(argparse.ArgumentParser):
    """Wrong usage as one line in our form, exit 2."""

    def error(self, message: str) -> NoReturn:
        """Print the line and end."""
        self.exit(2, f"error: usage: {message}; see `{self.prog} --help`\n")


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal. argparse makes one of these for each option and would load shutil for it."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=(terminal_width() or 100) - 2)


def main(argv: list[str] | None = None) -> int:
    """Run a command line (without the program's name) and give its exit code."""
    # The process lives for one answer: collecting costs more than the garbage.
    gc.disable()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = _dispatch(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except BrokenPipeError:
        # Nobody reads any more; keep the interpreter's last flush from complaining about it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001  (what is not ours is raised again, in _failed)
        return _failed(error)
    return code


def build_parser(name: str, prog: str = "muster") -> Parser:
    """The parser of one command."""
    module = import_module(f"client.cli.{name}")
    parser = Parser(
        prog=f"{prog} {name}",
        description=module.__doc__,
        epilog=module.EXAMPLES,
        formatter_class=_Help,
        allow_abbrev=False,
    )
    module.arguments(parser)
    shared = parser.add_argument_group("everywhere")
    shared.add_argument("--conf", metavar="FILE", help="the master's conf.json (default: MUSTER_CONF, ./conf.json)")
    shared.add_argument("--master", metavar="HOST[:PORT]", help="a master elsewhere (default: MUSTER_MASTER)")
    shared.add_argument("--token", metavar="TOKEN", help="who you are (better: MUSTER_TOKEN)")
    shared.add_argument("--ca-fingerprint", metavar="sha256:…", help="at the first use: whose authority to pin")
    shared.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    return parser


def _dispatch(argv: list[str]) -> int:
    before, name, rest = _split(argv)
    if name is None:
        return _without_command(before)
    if name not in COMMANDS:
        if name == "help":
            return _dispatch([*rest[:1], "--help"])
        sys.stderr.write(f"error: usage: there is no command {name!r}{_similar(name)}; see `muster --help`\n")
        return 2
    parser = build_parser(name)
    module = import_module(f"client.cli.{name}")
    argv = before + rest
    options = module.parse(parser, argv) if hasattr(module, "parse") else parser.parse_args(argv)
    context = Context(options)
    try:
        code: int = module.run(context)
    finally:
        context.close()
    return code


def _split(argv: list[str]) -> tuple[list[str], str | None, list[str]]:
    index = 0
    while index < len(argv) and argv[index].startswith("-"):
        index += 2 if argv[index] in _GLOBAL_WITH_VALUE else 1
    if index >= len(argv):
        return argv, None, []
    return argv[:index], argv[index], argv[index + 1 :]


def _without_command(options: list[str]) -> int:
    if "--version" in options or "-V" in options:
        print(f"muster {_version()}")
        return 0
    unknown = [option for option in options if option not in ("-h", "--help")]
    if unknown:
        sys.stderr.write(f"error: usage: a command is missing after {unknown[0]}; see `muster --help`\n")
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
        "  muster submit --gpus 1 -- python train.py",
        "  muster queue",
    ]
    return "\n".join(lines)


def _similar(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, COMMANDS, 1)
    return f" (did you mean `muster {close[0]}`?)" if close else ""


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    for distribution in ("muster", "muster-queue"):
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return "(not installed: run from its source)"


def _failed(error: Exception) -> int:
    from client.cli.text import harmless
    from wire.errors import MusterError, UnreachableError

    if isinstance(error, MusterError):
        note(f"error: {error.code}: {harmless(str(error))}")
        return 3 if isinstance(error, UnreachableError) else 1
    if isinstance(error, OSError):
        note(f"error: io: {harmless(str(error))}")
        return 1
    raise error


if __name__ == "__main__":
    sys.exit(main())
