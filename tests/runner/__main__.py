"""`python -m tests.runner`: every test, in three stages; `make test` and `.ci/run` call it.

Stage A runs the tests that compute, stage B those that wait for real things. Stage C runs each test that failed once
more, alone in a process of its own; if it passes there, it is named at the end, and tests/FLAKY.md gets a line.
Anything else that is wrong makes the run red: a dead worker, a test that did not report, a process left behind, an
audit's verdict, more than five failures.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import tempfile
from pathlib import Path

from tests.runner import layers
from tests.runner.plan import Suite, stages
from tests.runner.session import Limits, Session


def main(arguments: list[str] | None = None) -> int:
    """Run the stages and print the report; 0 if nothing is broken."""
    options = _options(arguments)
    for asked_to_end in (signal.SIGINT, signal.SIGTERM):  # also where a shell's background has them ignored
        signal.signal(asked_to_end, signal.default_int_handler)
    limits = Limits(grace_s=options.grace, quiet_s=options.quiet, whole_s=options.limit, deadline_s=options.deadline)
    with tempfile.TemporaryDirectory(prefix="tests-", ignore_cleanup_errors=True) as folder:
        session = Session(Path(folder), Suite(Path.cwd()), limits)
        try:
            session.run(stages(options.layer or layers.LAYERS), [shlex.split(command) for command in options.beside])
        except KeyboardInterrupt:
            session.interrupt()
    print("\n".join(session.results.report()))
    return 0 if session.results.is_green else 1


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.runner", description=__doc__)
    parser.add_argument("--layer", action="append", choices=layers.LAYERS, help="only this layer; may be repeated")
    parser.add_argument(
        "--beside",
        action="append",
        default=[],
        metavar="COMMAND",
        help="a command to run beside stage A; may be repeated",
    )
    parser.add_argument("--limit", type=float, default=2400, metavar="S", help="for the whole run (2400)")
    parser.add_argument("--grace", type=float, default=60, metavar="S", help="beyond a test's deadline (60)")
    parser.add_argument("--quiet", type=float, default=180, metavar="S", help="without a test and a record (180)")
    parser.add_argument("--deadline", type=float, metavar="S", help="of a test, in place of its stage's")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
