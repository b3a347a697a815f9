"""A task's output, and nothing else. With -f it is followed until the task has ended; Ctrl-C leaves the task alone.

It comes as it was written; with --collapse of each line only the last state, so that a progress bar is one line. With
--search only the lines that have a text in them, and exit code 1 if there is none.
"""

from __future__ import annotations

import sys

from client.cli.arguments import ids
from client.cli.arguments.file_name import STREAM
from client.cli.arguments.wrong import wrong
from client.cli.screen import interrupt
from client.cli.screen.idle_note import IdleNote
from client.refusals import coded_error
from client.states import ENDED
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import Any

    from client.cli.context import Context

EXAMPLES = """examples:
  muster logs 7
  muster logs -f -n 20 7
  muster logs --collapse 7             each progress bar as one line
  muster logs --rank 1 12              what its second part wrote, of a task on several nodes
  muster logs --search loss 7          the lines with "loss"; -n 5: only the last five
  muster logs --search 'CUDA|memory' --regex -i 7
  muster logs -o train.log 7           into a new file; -f: until the task has ended
  muster logs --server --tail 50       the master's own log"""
MOST_PATTERN = 1000
_TAIL_CHUNK = 1 << 16
_LARGEST_CHUNK = 1 << 20


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("id", type=ids.one, metavar="ID", nargs="?", help="the task's id, or name")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the task has ended")
    parser.add_argument("--tail", "-n", type=_lines, metavar="N", help="only the last N lines, or N found ones")
    parser.add_argument("--search", type=_pattern, metavar="TEXT", help="only the lines with TEXT in them")
    parser.add_argument("--regex", action="store_true", help="TEXT is a regular expression, as Python has them")
    parser.add_argument("-i", "--ignore-case", action="store_true", help="search for capitals and small letters alike")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--raw", action="store_true", help="every byte as it was written (the default)")
    how.add_argument("--collapse", action="store_true", help="of each line only the last state: one per progress bar")
    parser.add_argument("--rank", type=_lines, metavar="N", default=0, help="of a task on several nodes: of its part N")
    parser.add_argument("-o", "--output", metavar="FILE", help="into FILE, which must not exist yet (`-`: stdout)")
    parser.add_argument("--server", action="store_true", help="the master's own log")


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    options = parser.parse_args(argv)
    if options.server == (options.id is not None):
        parser.error("give a task's ID, or --server")
    if options.server and options.rank:
        parser.error("--rank is of a task on several nodes: leave out --server")
    if options.search is None and (options.regex or options.ignore_case):
        parser.error("--regex and --ignore-case say how to search: give --search TEXT, too")
    if options.search is not None and (options.follow or options.raw or options.collapse):
        parser.error("--search finds lines of the existing log: leave out -f, --raw and --collapse")
    if options.output is not None and (options.json or options.search is not None):
        parser.error("-o writes the log as it is: leave out --json and --search")
    if options.output == "":
        parser.error("-o: a file has a name")
    if options.output == STREAM:
        options.output = None
    if options.json and options.follow:
        parser.error("--json prints one document when all is there: leave out -f")
    return options


def run(context: Context) -> int:
    """Do it."""
    options = context.options
    if options.id is not None:
        options.id = context.client.find_id(options.id)
    if options.search is not None:
        from client.cli.logs import log_search

        return log_search.run(context)
    offset = 0 if options.tail is None else _tail_offset(context, options.tail)
    if context.json:
        data = b"".join(_pieces(context, offset))
        if not data:
            _tell_nothing(context)
        context.print_json({"id": options.id, "text": data.decode(errors="replace")})
        return 0
    if options.output is not None:
        return _into_file(context, offset)
    if not options.follow:
        _stream(context, offset)
        return 0
    with interrupt.LastWords(lambda: interrupt.tell(f"\n{_detached(context)}")):
        _stream(context, offset)
    return 0


def _detached(context: Context) -> str:
    options = context.options
    again = "--server" if options.server else str(options.id)
    return f"detached; `muster logs -f {again}` goes on" + ("" if options.server else ", the task too")


def _into_file(context: Context, offset: int) -> int:
    from client.cli.logs.log_output import LogOutput
    from wire.errors import MusterError

    file = LogOutput(context.options.output)
    file.check()

    def last_words() -> None:
        whole = _detached(context) if context.options.follow else "interrupted, it is not whole"
        interrupt.tell(harmless(f"{file.told() if file.size else f'{file.path}: nothing is written'}; {whole}"))

    try:
        with interrupt.LastWords(last_words):
            _tell_if_waiting(context)
            empty = True
            for piece in _pieces(context, offset):
                if piece:
                    file.write(piece)
                    empty = False
            if empty and _tell_nothing(context):
                return 1
            file.close()
    except MusterError:
        if file.size and not file.is_broken:
            context.note(f"{harmless(file.told())}, and is not whole")
        raise
    context.say(harmless(file.told()))
    return 0


def _tell_if_waiting(context: Context) -> None:
    """Say that the task has not started: a log that is followed would otherwise stay empty without a reason."""
    task_id = context.options.id
    if context.options.follow and task_id is not None:
        state = context.client.show(task_id)["state"]
        if state in ("waiting", "held"):
            context.note(f"task {task_id} is {state}; its output follows when it starts")


def _tell_nothing(context: Context) -> bool:
    """Nothing was printed. Say so where that is because the task has not run, and give True. Raise NotFoundError where
    there was something: the task has written it, and it is gone."""
    task_id = context.options.id
    if task_id is None:
        return False
    _, state = context.client.read_log(task_id, 0, 0, **_rank(context))
    if state["size"]:
        return False
    task = context.client.show(task_id)
    if all(one["started_at"] is None for one in (task, *task.get("attempts", ()))):
        if task["state"] in ENDED:
            how = harmless(task["state"] + (f", {task['reason']}" if task["reason"] else ""))
            context.note(f"task {task_id} ended before it started ({how}): it has written nothing")
        else:
            context.note(f"task {task_id} is {task['state']} and has written nothing yet; `muster why {task_id}`")
        return True
    if state.get("missing"):
        if state["ended"]:
            raise coded_error("not_found", "log_gone", id=task_id, path=state["path"])
        raise coded_error("not_found", "log_gone_while_written", id=task_id, path=state["path"])
    return False


def _stream(context: Context, offset: int) -> None:
    out = sys.stdout.buffer
    _tell_if_waiting(context)
    empty = True
    pieces = _live(context, offset) if context.options.collapse and sys.stdout.isatty() else _pieces(context, offset)
    for piece in pieces:
        empty = empty and not piece
        out.write(piece)
        out.flush()
    if empty:
        _tell_nothing(context)


def _pieces(context: Context, offset: int) -> Iterator[bytes]:
    options = context.options
    if not options.collapse:
        yield from context.client.logs(**_which(context), offset=offset)
        return
    last = b""
    for lines, rest in context.client.collapsed_logs(**_which(context), offset=offset):
        last = rest
        yield lines
    yield last


def _live(context: Context, offset: int) -> Iterator[bytes]:
    """For a terminal: the line without an end is shown too, and written over when it changes."""
    for lines, rest in context.client.collapsed_logs(**_which(context), offset=offset):
        # To the line's beginning, and clear it: what stood there is part of what comes.
        yield b"\r\x1b[K" + lines + rest


def _which(context: Context) -> dict[str, Any]:
    """Return which log to read, whether to follow it, and the function to call when the task does nothing meanwhile."""
    task_id, follow = context.options.id, context.options.follow
    if not follow or task_id is None:
        return {"task_id": task_id, "follow": follow, **_rank(context)}
    note = IdleNote(context)
    return {
        "task_id": task_id,
        "follow": follow,
        **_rank(context),
        "on_warning": lambda warning: note(task_id, warning),
    }


def _rank(context: Context) -> dict[str, int]:
    """Which part of a task on several nodes, where that is not the first."""
    return {"rank": context.options.rank} if context.options.rank else {}


def _tail_offset(context: Context, lines: int) -> int:
    """Where the last `lines` lines begin, reading backwards from the end as far as needed and no further."""
    _, state = context.client.read_log(context.options.id, 0, 0, **_rank(context))
    end = start = int(state["size"])
    found, chunk = -1, _TAIL_CHUNK
    if lines == 0:
        return end
    while start > 0:
        begin = max(0, start - chunk)
        data, _ = context.client.read_log(context.options.id, begin, start - begin, **_rank(context))
        chunk = min(chunk * 2, _LARGEST_CHUNK)  # of a progress bar one line may be hundreds of megabytes
        if start == end and not data.endswith(b"\n"):
            found = 0
        at = len(data)
        while (at := data.rfind(b"\n", 0, at)) >= 0:
            found += 1
            if found == lines:
                return begin + at + 1
        start = begin
    return 0


def _pattern(text: str) -> str:
    if not text or len(text) > MOST_PATTERN:
        raise wrong(f"a text of 1 to {MOST_PATTERN} characters is needed, this has {len(text)}")
    return text


def _lines(text: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    raise wrong(f"{text!r} is not a number of lines")
