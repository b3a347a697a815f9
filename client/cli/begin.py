"""Where `muster` begins and ends. Ctrl-C while it loads ends it at once: nothing was done yet, no traceback is due."""

from __future__ import annotations

import gc

from wire.programs import end_at_interrupt, leave


def main() -> int:
    """Load the command line and run it; its exit code, if the process does not end with it here."""
    gc.disable()  # the process lives for one answer: collecting costs more than the garbage
    is_heard = end_at_interrupt()
    from client.cli.main import main as run
    from client.cli.screen import interrupt

    if is_heard:
        interrupt.hear()
    code = run()
    leave(code)
    return code
