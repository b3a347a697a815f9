"""Find problems of nodes: can they be reached and trusted, is the agent well, are the folders shared, could a task
start. Every finding comes with a cure. It takes some seconds, with dead nodes up to half a minute.
"""

from __future__ import annotations

import argparse
import sys
import time

from client.cli.screen.interrupt import LastWords
from client.cli.screen.terminal import coloured, note
from client.cli.several import node_each
from client.text.colours import painted
from client.text.people import full_queue
from client.text.quantities import counted
from client.text.settings import outranking_line
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from client.cli.context import Context

EXAMPLES = """examples:
  muster node doctor                     every node
  muster node doctor a --all             also what is well, and what was not looked at
  muster node doctor --json | jq -r '.[] | select(.verdict == "fault") | .name'"""
_KINDS = {"ok": "good", "warning": "warn", "fault": "bad", "skipped": "dim"}
_WORDS = {"ok": "ok", "warning": "warning", "fault": "FAULT", "skipped": "skipped"}
_TICK_S = 0.2
_SILENT_S = 0.5


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    node_each.add(parser, "*")
    parser.add_argument("--all", action="store_true", help="tell also what is well and what was not looked at")


def run(context: Context) -> int:
    """Do it."""
    names: list[str] = context.options.names
    what = counted(len(set(names)), "node") if names else "all nodes"
    examined: list[dict[str, Any]] = _while_saying(f"looking at {what} …", lambda: context.client.doctor(names))
    if context.json:
        context.print_json(examined)
    else:
        for node in examined:
            _tell(context, node)
        _sum_up(context, examined)
        if not names:
            info = context.client.info()
            _tell_of_settings(context, info)
            _tell_of_queue(context, info)
            _tell_of_console(context)
    return 1 if any(node["verdict"] == "fault" for node in examined) else 0


def _while_saying(text: str, work: Callable[[], Any]) -> Any:
    """Do something that takes long, with a line on the terminal that tells that it goes on."""
    if not sys.stderr.isatty():
        return work()
    from concurrent.futures import Future
    from threading import Thread

    future: Future[Any] = Future()

    def do() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001  (raised where it is waited for)
            future.set_exception(error)

    # Here is the thread that hears Ctrl-C, and it waits for no answer of the master.
    Thread(target=do, daemon=True).start()
    began = time.monotonic()
    with LastWords(_clear):
        while not _done(future, _TICK_S):
            if time.monotonic() - began > _SILENT_S:
                sys.stderr.write(f"\r{text} {time.monotonic() - began:.0f} s")
                sys.stderr.flush()
    _clear()
    return future.result()


def _clear() -> None:
    sys.stderr.write("\r\x1b[K")
    sys.stderr.flush()


def _done(future: Any, limit_s: float) -> bool:
    from concurrent.futures import wait

    return bool(wait([future], limit_s).done)


def _tell(context: Context, node: dict[str, Any]) -> None:
    """A node in one line if all is well, else with what is not, and the cures."""
    name, findings = harmless(node["name"]), node["findings"]
    shown = findings if context.options.all else [one for one in findings if one["verdict"] in ("warning", "fault")]
    context.say(f"{name}: {_counts(findings)}")
    widest = max((len(one["check"]) for one in shown), default=0)
    for one in shown:
        word = _painted(one["verdict"], f"{_WORDS.get(one['verdict'], one['verdict']):<7}")
        context.say(f"  {word}  {harmless(one['check']):<{widest}}  {harmless(one['told'])}")
        if one["cure"]:
            context.say(f"  {'':7}  {'':{widest}}  cure: {harmless(one['cure'])}")


def _tell_of_settings(context: Context, info: dict[str, Any]) -> None:
    """The settings of which conf.json says something else than what holds. They belong to no node."""
    for one in info.get("conf_outranked") or ():
        context.say(f"settings: {outranking_line(one)}")


def _tell_of_queue(context: Context, info: dict[str, Any]) -> None:
    """Report that the queue is nearly full, and who has most of it."""
    for text, cure in full_queue(info):
        context.say(f"the queue: {_painted('warning', 'warning')}: it {text}")
        context.say(f"  cure: {cure}")


def _tell_of_console(context: Context) -> None:
    """Report problems of the console if it runs on this machine. They belong to no node, and other machines do not
    report them."""
    from client.cli.programs import console_process

    console = console_process.found(context.options)
    for what, cure in console_process.problems(console, time.time()) if console is not None else ():
        context.say(f"the console: {_painted('warning', 'warning')}: it {harmless(what)}")
        context.say(f"  cure: {harmless(cure)}")


def _counts(findings: list[dict[str, Any]]) -> str:
    """`2 faults, 1 warning`, or that all is well."""
    counts = {kind: sum(one["verdict"] == kind for one in findings) for kind in ("fault", "warning")}
    checks = len({one["check"] for one in findings if one["verdict"] == "ok"})
    told = [_painted(kind, counted(counts[kind], kind)) for kind in ("fault", "warning") if counts[kind]]
    return ", ".join(told) or _painted("ok", f"all is well ({checks} checks)")


def _sum_up(context: Context, examined: list[dict[str, Any]]) -> None:
    if not examined:
        note("there are no nodes; add one with: muster node add NAME --ip ADDRESS --user NAME --gpus N")
    if len(examined) > 1:
        counts = {kind: sum(node["verdict"] == kind for node in examined) for kind in ("ok", "warning", "fault")}
        words = {"ok": "well", "warning": "with warnings only", "fault": "with faults"}
        told = [_painted(kind, f"{count} {words[kind]}") for kind, count in counts.items() if count]
        context.say(f"{len(examined)} nodes: {', '.join(told)}")


def _painted(verdict: str, text: str) -> str:
    return painted(text, _KINDS.get(verdict)) if coloured() else text
