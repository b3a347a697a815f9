"""`python -m demo`: starts a master in a temporary folder, trains through the queue, shows everything, stops. With
`--web` it stays, for who looks at the console, until Ctrl-C.

Ends with 0 only when each thing it talks about was really seen; else it says what was not, and keeps the folder.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from demo.lab import ENV, furnish
from demo.terminal import DemoError, Terminal

ADMIN = "demo"
GOOD_ACCURACY = 0.95
ENDING_S = 60.0
LOG_TAIL = 30
_FINAL = re.compile(r"^final accuracy (\d\.\d+)$")
_EXIT_LINE = "Program Exit With Code 0"

NEXT = """\

What to try next, in this clone:

  source .venv/bin/activate             muster and its tools on your PATH
  muster up --detach                    the same for good: conf.json here works as it is
  muster submit -- echo hello           the words after -- stay the words of the command
  muster run -- python3 -c 'print(42)'  submit, watch, and end with the task's exit code
  muster queue --all                    what waits, what runs, what was
  muster why ID                         why a task waits
  make demo ARGS=--web                  the demo again, and the console stays until Ctrl-C
  docs/getting-started.md               your own machines, GPUs and environments
"""


def main() -> int:
    """Run the demo; give the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m demo", description="a training through the queue, before your eyes"
    )
    parser.add_argument("--web", action="store_true", help="stay until Ctrl-C, for who looks at the console")
    stays = parser.parse_args().web
    begun = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="muster-demo-"))
    terminal = Terminal(folder)
    accuracy: float | None = None
    try:
        accuracy = _play(terminal, folder, stays=stays)
    except (DemoError, KeyboardInterrupt) as error:
        print(f"\nerror: demo: {str(error) or 'interrupted'}", file=sys.stderr)
        return 1
    finally:
        if accuracy is None:
            _give_up(terminal, folder)
    shutil.rmtree(folder)
    print(f"\nAll seen in {time.monotonic() - begun:.0f} s: accuracy {accuracy:.4f}, nothing left running.")
    print(NEXT)
    return 0


def _play(terminal: Terminal, folder: Path, *, stays: bool) -> float:
    """The whole piece, act by act. Gives the accuracy; raises DemoError at whatever was not seen."""
    terminal.say(f"A lab in a folder: a conf.json, and a registry with this machine as its node ({folder})")
    terminal.show("init", str(folder))
    furnish(folder)
    terminal.show("up", "--detach")
    terminal.show("nodes")
    terminal.say("The console: open the address that is printed, and choose a password")
    if not stays:
        print("(it ends with the demo: `make demo ARGS=--web` stays until Ctrl-C)")
    terminal.show("users", "add", ADMIN, "--admin", "--links")

    terminal.say("A training is submitted, and a second task that is to run when the first has succeeded")
    project = str(folder / "project")
    training = terminal.submit("--name", "digits", "--env", ENV, "--cwd", project, "--", "python", "train.py")
    report = terminal.submit("--name", "report", "--cwd", project, "--after", str(training), "--", "cat", "result.json")
    terminal.show("queue")
    terminal.show("why", str(report))

    terminal.say("Its output, live, to the end")
    accuracy = _watch(terminal, training)

    terminal.show("wait", str(training), str(report))
    terminal.say("The second one ran after it, on what it had written")
    terminal.show("logs", str(report))
    terminal.say("The history")
    terminal.show("queue", "--all")
    _check_ended(terminal, training, report)
    if stays:
        _stay(terminal)

    terminal.say("The end: the master stops")
    terminal.show("down")
    _check_all_ended(terminal, folder)
    return accuracy


def _stay(terminal: Terminal) -> None:
    """Until Ctrl-C."""
    terminal.say(f"The console stays at {terminal.ask('status')['console']} until Ctrl-C")
    with suppress(KeyboardInterrupt):
        threading.Event().wait()


def _watch(terminal: Terminal, training: int) -> float:
    """Follow the log; see that it came while the task ran, that it ended, and what accuracy it told."""
    live = ended = False
    accuracy = 0.0
    for line in terminal.stream("logs", str(training), "-f"):
        if line.startswith("epoch") and not live:
            live = _runs_here(terminal.ask("show", str(training)))
        if match := _FINAL.match(line):
            accuracy = float(match[1])
        ended = ended or line.strip() == _EXIT_LINE
    _insist(live, "the log's first epoch was to be seen while the task was running on node local")
    _insist(accuracy >= GOOD_ACCURACY, f"the accuracy was to be {GOOD_ACCURACY} at least, not {accuracy}")
    _insist(ended, f"the log was to end with `{_EXIT_LINE}`")
    return accuracy


def _runs_here(task: dict[str, Any]) -> bool:
    return task["state"] == "running" and [part["node"] for part in task["allocation"]] == ["local"]


def _check_ended(terminal: Terminal, training: int, report: int) -> None:
    tasks = {task["id"]: task for task in terminal.ask("queue", "--all")}
    for ident in (training, report):
        task = tasks.get(ident, {})
        succeeded = task.get("state") == "succeeded" and task.get("exit_code") == 0
        _insist(succeeded, f"task {ident} was to be in the history as succeeded, not {task.get('state')}")
    _insist(tasks[report]["started_at"] >= tasks[training]["ended_at"], "the report was to start after the training")


def _check_all_ended(terminal: Terminal, folder: Path) -> None:
    """The master is not reachable any more, and no process that knows the demo's folder is left."""
    unreachable = 3
    _insist(terminal.code("queue") == unreachable, "the master was to be gone after `muster down`")
    deadline = time.monotonic() + ENDING_S
    while left := _processes_of(folder):
        _insist(time.monotonic() < deadline, f"these were to end with the master: PIDs {left}")
        time.sleep(0.1)


def _processes_of(folder: Path) -> list[int]:
    """PIDs whose command line names the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes()
        except OSError:
            continue  # it ended while we looked
        if str(folder).encode() in words:
            found.append(int(entry.parent.name))
    return found


def _insist(seen: bool, text: str) -> None:  # noqa: FBT001  (reads as: insist that …)
    if not seen:
        raise DemoError(text)


def _give_up(terminal: Terminal, folder: Path) -> None:
    """Stop what was started, and show what is needed to find out why it was not as it must be."""
    terminal.code("cancel", "--all")
    terminal.code("down")
    log = folder / "server_log.log"
    if log.exists():
        print(f"\nThe end of {log}:", file=sys.stderr)
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL:]:
            print(f"  {line}", file=sys.stderr)
    print(f"\nEverything is kept in {folder}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
