"""`python -m master`. Loading and reading take a second. The master is made to be killed at any instant, so Ctrl-C
meanwhile ends it at once, without a traceback."""

from __future__ import annotations

import gc
import os
import sys

from wire.programs import end_at_interrupt, leave

if __name__ == "__main__":
    # Names of files are UTF-8, whatever the locale of who starts us.
    if not sys.flags.utf8_mode and sys.getfilesystemencoding() != "utf-8":
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606
    end_at_interrupt()
    gc.disable()  # what is loaded stays, so there is no garbage in it; `command_line` enables it again
    from master.command_line import main

    code = main(sys.argv[1:])
    leave(code)
    sys.exit(code)
