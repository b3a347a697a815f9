"""`python -m monitor`. Ctrl-C while it loads ends it at once, without a traceback: nothing is to be written yet."""

from __future__ import annotations

import signal
import sys

if __name__ == "__main__":
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # whoever started us may want it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from monitor.influx_follower import main

    sys.exit(main())
