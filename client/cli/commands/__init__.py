"""The commands: which there are, one module each (a package where a command is a family), and the parser of each.

A command has EXAMPLES, `arguments(parser)` and `run(context)`; `parse(parser, argv)` where the parser alone does not
know enough. The table is written by hand: to make it from the modules would load them all.
"""

from __future__ import annotations

import argparse
from importlib import import_module

from client.cli.terminal import terminal_width

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
    "People": {
        "login": "come in with a name and a password; from then on this PC finds the master",
        "logout": "end that log-in",
        "whoami": "who one is, and what one may do",
        "users": "who may come in, as what, and how: list, add, edit, disable …",
        "groups": "who belongs together, and who looks after whom",
        "tokens": "what programs come in with: list, new, revoke",
        "audit": "who changed what, and who was refused",
    },
    "For programs": {
        "api": "ask the master for any verb; what it can be asked, by whom, and what it answers",
        "completion": "print a completion script for bash or zsh",
    },
}
COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}


class Parser(argparse.ArgumentParser):
    """Wrong usage as one line in our form, exit 2."""

    def error(self, message: str) -> NoReturn:
        """Print the line and end."""
        self.exit(2, f"error: usage: {message}; see `{self.prog} --help`\n")


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal. argparse makes one of these for each option and would load shutil for it."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=(terminal_width() or 100) - 2)


def build_parser(name: str, prog: str = "muster") -> Parser:
    """The parser of one command."""
    module = import_module(f"client.cli.commands.{name}")
    parser = Parser(
        prog=f"{prog} {name}",
        description=module.__doc__,
        epilog=module.EXAMPLES,
        formatter_class=_Help,
        allow_abbrev=False,
    )
    module.arguments(parser)
    shared = parser.add_argument_group("everywhere")
    shared.add_argument(
        "--conf", metavar="FILE", help="the master's conf.json (default: MUSTER_CONF, conf.json here or above)"
    )
    shared.add_argument("--master", metavar="HOST[:PORT]", help="a master elsewhere (default: MUSTER_MASTER)")
    shared.add_argument("--token", metavar="TOKEN", help="who you are (better: MUSTER_TOKEN, or `muster login`)")
    shared.add_argument(
        "--proxy", dest="socks", metavar="URL", help="the way there: socks5://HOST:PORT (or MUSTER_PROXY)"
    )
    shared.add_argument("--ca-fingerprint", metavar="sha256:…", help="at the first use: whose authority to pin")
    shared.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    return parser
