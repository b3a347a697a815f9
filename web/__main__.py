"""`python -m web`. Ctrl-C while it loads ends it at once, without a traceback."""

from __future__ import annotations

import gc
import os
import signal
import sys

if __name__ == "__main__":
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # whoever started us may want it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # what is loaded stays, so there is no garbage in it
    from web.process import main

    gc.freeze()
    gc.enable()
    code = main()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        sys.exit(code)  # which the interpreter tells in its own way
    # It would take apart all that was loaded, object by object, for as long as it took to load a fifth of it.
    os._exit(code)
