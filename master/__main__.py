"""`python -m master`. Loading and reading take a second. The master is made to be killed at any instant, so Ctrl-C
meanwhile ends it at once, without a traceback."""

from __future__ import annotations

import gc
import os
import signal
import sys

if __name__ == "__main__":
    # Names of files are UTF-8, whatever the locale of who starts us.
    if not sys.flags.utf8_mode and sys.getfilesystemencoding() != "utf-8":
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # whoever started us may want it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # what is loaded stays, so there is no garbage in it; `command_line` enables it again
    from master.command_line import main

    code = main(sys.argv[1:])
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        sys.exit(code)  # which the interpreter tells in its own way
    # It would take apart all that was loaded, object by object, for as long as it took to load a fifth of it.
    os._exit(code)
