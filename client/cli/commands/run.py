"""Queue a command, show its output as it comes, and exit with its code (125 when it could not run).

Ctrl-C detaches: the task runs on. With --json the output goes to stderr and the ended task to stdout.
"""

from __future__ import annotations

import sys

from client.cli.arguments import submitting
from client.cli.screen import interrupt
from client.cli.screen.idle_note import IdleNote

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from client.cli.context import Context
    from client.shapes import Task

EXAMPLES = """examples:
  muster run --gpus 1 -- python3 train.py
  muster run -- nvidia-smi
  muster run --env torch --script check.sh"""
COULD_NOT_RUN = 125
TOKEN = submitting.TOKEN


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    submitting.arguments(parser, batch=False)


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Read the command line and, if there is one, the script."""
    options = submitting.parse(parser, argv)
    if options.hold:
        parser.error("--hold: a task that is held has no output to wait for; `muster submit --hold` queues one")
    return options


def run(context: Context) -> int:
    """Do it."""
    _tell_of_input(context)
    spec = submitting.complete_spec(context)
    submitting.tell_faults(context, spec, [context.options.command])
    task_id = context.client.submit(context.options.command, **spec)
    context.done.append(f"task {task_id} was queued")
    detached = (
        f"\ndetached: task {task_id} goes on. `muster logs -f {task_id}` shows it again, "
        f"`muster cancel {task_id}` ends it."
    )
    with interrupt.LastWords(lambda: interrupt.tell(detached)):
        try:
            return _attend(context, task_id)
        except BrokenPipeError:  # they stopped reading, as `head` does
            context.done.clear()
            raise


def _tell_of_input(context: Context) -> None:
    """Warn that piped input does not reach the task: it may start in an hour, on another machine."""
    if context.options.script != "-" and _has_input():
        context.note(
            "note: what is piped in here does not reach the task, whose input is empty; put it into a file that the "
            "command reads"
        )


def _has_input() -> bool:
    """Whether bytes wait on stdin, and it is not a terminal. Nothing is read: a loop around us may want them."""
    import fcntl
    import os
    import stat
    import struct
    import termios

    try:
        state = os.fstat(0)
        if stat.S_ISREG(state.st_mode):
            return os.lseek(0, 0, os.SEEK_CUR) < state.st_size
        if not stat.S_ISFIFO(state.st_mode):
            return False
        return bool(struct.unpack("i", fcntl.ioctl(0, termios.FIONREAD, struct.pack("i", 0)))[0])
    except OSError:
        return False  # there is no stdin


def _attend(context: Context, task_id: int) -> int:
    if sys.stderr.isatty():
        context.note(f"task {task_id} (Ctrl-C detaches)")
    out = (sys.stderr if context.json else sys.stdout).buffer
    context.client.wait([task_id], until="started", on_change=_Waiting(context))
    note = IdleNote(context)
    for piece in context.client.logs(task_id, follow=True, on_warning=lambda warning: note(task_id, warning)):
        out.write(piece)
        out.flush()
    task = context.client.wait([task_id])[task_id]
    if context.json:
        context.print_json(task)
    return _exit_code(context, task)


def _exit_code(context: Context, task: Task) -> int:
    if task["state"] == "succeeded":
        return 0
    code = task["exit_code"]
    reason = f": {task['reason']}" if task["reason"] else ""
    if code is None or task["state"] != "failed":
        from wire.harmless import harmless

        context.note(harmless(f"task {task['id']}: {task['state'].replace('_', ' ')}{reason}"))
    return code or COULD_NOT_RUN


class _Waiting:
    """Tells people at a terminal why the task waits, once per reason."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.said: str | None = None

    def __call__(self, known: dict[int, Task]) -> None:
        from wire.harmless import harmless

        for task in known.values():
            reason = task["reason"]
            if task["state"] in ("waiting", "held") and reason and reason != self.said and sys.stderr.isatty():
                self.said = reason
                self.context.note(harmless(f"{task['state']}: {reason}"))
