"""The cluster live: each GPU with who has it, and the queue. `--once` prints one look at it and ends."""

from __future__ import annotations

import codecs
import os
import sys
import time
from importlib.util import find_spec

from client.cli.screen.terminal import terminal_width
from client.refusals import coded_error, config_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from client.cli.context import Context

EXAMPLES = """examples:
  muster top                          ? inside it tells the keys
  muster top --once                   one look, as text
  muster top --json | jq '.nodes[].sample.cpu_percent'"""
_WIDTH = 120
_CANNOT_DRAW = ("dumb", "unknown")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("--once", action="store_true", help="print one look at it and end")


def run(context: Context) -> int:
    """Do it."""
    client = context.client
    client.session.connect()
    if context.options.once or context.json:
        return _once(context)
    _check_terminal()
    if find_spec("textual") is None:
        raise config_error("top_needs_textual")
    # It lives for hours: what a short command may leave to its end is collected here.
    import gc

    from client.top.app import Top

    gc.enable()
    top = Top.of(client.address, client.token, client.info()["user"])
    # There is nothing to click: the mouse goes on selecting text for the terminal.
    top.run(mouse=False)
    return top.return_code or 0


def _check_terminal() -> None:
    """Raises BadRequestError where nothing can be drawn."""
    # All three: what textual draws goes to stderr.
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise coded_error("bad_request", "top_needs_terminal")
    kind = os.environ.get("TERM")
    if kind in _CANNOT_DRAW:
        raise coded_error("bad_request", "top_cannot_draw", kind=kind)
    if codecs.lookup(sys.stderr.encoding).name != "utf-8":
        raise coded_error("bad_request", "top_needs_utf8", encoding=sys.stderr.encoding)


def _once(context: Context) -> int:
    from client.live.once import collect, document
    from client.text import cells
    from client.top import frame

    info = context.client.info()  # first: a refusal has its own code here, and in the feeds its text alone
    state = collect(context.client.address, context.client.token)
    if context.json:
        context.print_json(document(state))
        return 0
    address, size = str(context.client.address), terminal_width() or _WIDTH
    lines = frame.frame(state, address, size, time.time(), info["user"], share=info.get("share"))
    sys.stdout.write("".join(cells.text_of(line).rstrip() + "\n" for line in lines))
    return 0
