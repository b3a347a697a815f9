"""`python -m web`. Ctrl-C while it loads ends it at once, without a traceback."""

from __future__ import annotations

import signal
import sys

if __name__ == "__main__":
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # whoever started us may want it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from web.process import main

    sys.exit(main())
