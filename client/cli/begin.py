"""Where `muster` begins and ends. Ctrl-C while it loads ends it at once: nothing was done yet, no traceback is due."""

from __future__ import annotations

import gc
import os
import signal
import sys


def main() -> int:
    """Load the command line and run it; its exit code, if the process does not end with it here."""
    gc.disable()  # the process lives for one answer: collecting costs more than the garbage
    heard = signal.getsignal(signal.SIGINT)
    if heard is signal.default_int_handler:  # whoever started us may want it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from client.cli.main import main as run
    from client.cli.screen import interrupt

    if heard is signal.default_int_handler:
        interrupt.hear()
    code = run()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return code  # which the interpreter tells in its own way
    # It would take apart all that was loaded, object by object: a tenth of what a short command takes.
    os._exit(code)
