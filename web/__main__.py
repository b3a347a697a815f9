"""`python -m web`. Ctrl-C while it loads ends it at once, without a traceback."""

from __future__ import annotations

import gc
import sys

from wire.programs import end_at_interrupt, leave

if __name__ == "__main__":
    end_at_interrupt()
    gc.disable()  # what is loaded stays, so there is no garbage in it
    from web.process import main

    gc.freeze()
    gc.enable()
    code = main()
    leave(code)
    sys.exit(code)
