"""Python environments: which there are, whether a task could use one, what is in it, on any node."""

from __future__ import annotations

import sys

from client.cli.arguments import environment
from client.cli.screen.terminal import terminal_width
from client.text.table import render
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from client.cli.context import Context

EXAMPLES = """examples:
  muster env list
  muster env check base
  muster env cuda torch2 --node gpu7
  muster env cuda tf --framework tensorflow
  muster env packages base"""
ACTIONS = ("list", "check", "python", "cuda", "packages")
_PATIENCE_S = 120.0
"""The first import of a framework from a cold network file system takes long; the master gives up before we do."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("action", choices=ACTIONS, nargs="?", default="list", help="what to do (default: list)")
    parser.add_argument("env", nargs="?", metavar="ENV", help="its name, or its path (./venv, ~/venv, /lab/venv)")
    parser.add_argument("--node", metavar="NAME", help="ask this node; otherwise the first that is online")
    parser.add_argument("--framework", choices=["torch", "tensorflow"], default="torch", help="cuda: what to ask")


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    options = parser.parse_args(argv)
    if (options.action == "list") == bool(options.env):
        parser.error("`list` takes no ENV" if options.env else f"say which: muster env {options.action} ENV")
    return options


def run(context: Context) -> int:
    """Do it."""
    options = context.options
    params: dict[str, Any] = {} if options.node is None else {"node": options.node}
    if options.action == "list":
        return _list(context, params)
    params["env"] = environment.resolved(context, options.env)
    if options.action == "cuda":
        params["framework"] = options.framework
    found = _ask(context, options.action, params)
    if context.json:
        context.print_json(found)
    elif options.action == "packages":
        _show_packages(found)
    else:
        context.say(_TEXTS[options.action](found, options))
    return 1 if options.action == "cuda" and not found["installed"] else 0


def _ask(context: Context, action: str, params: dict[str, Any]) -> Any:
    return context.client.session.call(f"env.{action}", params, timeout=_PATIENCE_S, repeatable=True)


def _list(context: Context, params: dict[str, Any]) -> int:
    found = _ask(context, "list", params)
    if context.json:
        context.print_json(found["envs"])
        return 0
    rows = [[harmless(env["name"]), harmless(env["path"])] for env in found["envs"]]
    if rows:
        sys.stdout.write(render(["NAME", "PATH"], rows, terminal_width(), flexible={"NAME": 10, "PATH": 20}))
    else:
        from wire.message import Message

        context.note(Message("no_env_yet"))
    return 0


def _show_packages(found: dict[str, Any]) -> None:
    rows = [[harmless(text) for text in package] for package in found["packages"]]
    titles = ["PACKAGE", "VERSION", "BY"]
    if rows:
        sys.stdout.write(render(titles, rows, terminal_width(), flexible={"PACKAGE": 12, "VERSION": 8}))


def _python_text(found: dict[str, Any], _options: argparse.Namespace) -> str:
    return f"Python {harmless(found['version'])}, {harmless(found['executable'])} on {harmless(found['node'])}"


def _check_text(found: dict[str, Any], _options: argparse.Namespace) -> str:
    return f"{harmless(found['env'])} can be used on {harmless(found['node'])}: Python {harmless(found['version'])}"


def _cuda_text(found: dict[str, Any], options: argparse.Namespace) -> str:
    where = f"{harmless(found['env'])} on {harmless(found['node'])}"
    if not found["installed"]:
        return f"{where}: {options.framework} cannot be imported: {harmless(found['error'])}"
    cuda = f"CUDA {harmless(str(found['cuda']))}" if found["cuda"] else "built without CUDA"
    seen = ", ".join(harmless(name) for name in found["gpus"]) or "none"
    return f"{where}: {options.framework} {harmless(found['version'])}, {cuda}; GPUs it sees: {seen}"


_TEXTS = {"check": _check_text, "python": _python_text, "cuda": _cuda_text}
