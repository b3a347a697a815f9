"""A task's output, and nothing else. With -f it is followed until the task has ended; Ctrl-C leaves the task alone."""

from __future__ import annotations

import argparse
import sys

from client.cli import ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

EXAMPLES = """examples:
  muster logs 7
  muster logs -f --tail 20 7
  muster logs --server --tail 50       the master's own log"""
_TAIL_CHUNK = 1 << 16


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("id", type=ids.one, metavar="ID", nargs="?", help="the task's id")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the task has ended")
    parser.add_argument("--tail", type=_lines, metavar="N", help="only the last N lines")
    parser.add_argument("--server", action="store_true", help="the master's own log")


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    options = parser.parse_args(argv)
    if options.server == (options.id is not None):
        parser.error("give a task's ID, or --server")
    if options.json and options.follow:
        parser.error("--json prints one document when all is there: leave out -f")
    return options


def run(context: Context) -> int:
    """Do it."""
    options = context.options
    offset = 0 if options.tail is None else _tail_offset(context, options.tail)
    if context.json:
        data = b"".join(context.client.logs(options.id, offset=offset))
        context.print_json({"id": options.id, "text": data.decode(errors="replace")})
        return 0
    try:
        _stream(context, offset)
    except KeyboardInterrupt:
        if not options.follow:
            raise
        again = "--server" if options.server else str(options.id)
        context.note(f"\ndetached; `muster logs -f {again}` goes on" + ("" if options.server else ", the task too"))
        return 130
    return 0


def _stream(context: Context, offset: int) -> None:
    out = sys.stdout.buffer
    if context.options.follow and context.options.id is not None and sys.stderr.isatty():
        state = context.client.show(context.options.id)["state"]
        if state in ("waiting", "held"):
            context.note(f"task {context.options.id} is {state}; its output follows when it starts")
    for piece in context.client.logs(context.options.id, follow=context.options.follow, offset=offset):
        out.write(piece)
        out.flush()


def _tail_offset(context: Context, lines: int) -> int:
    """Where the last `lines` lines begin, reading backwards from the end as far as needed and no further."""
    _, state = context.client.read_log(context.options.id, 0, 0)
    end = start = int(state["size"])
    found = -1
    if lines == 0:
        return end
    while start > 0:
        begin = max(0, start - _TAIL_CHUNK)
        data, _ = context.client.read_log(context.options.id, begin, start - begin)
        if start == end and not data.endswith(b"\n"):
            found = 0
        at = len(data)
        while (at := data.rfind(b"\n", 0, at)) >= 0:
            found += 1
            if found == lines:
                return begin + at + 1
        start = begin
    return 0


def _lines(text: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of lines")
