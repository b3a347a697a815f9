"""The signals that the runner sends to a worker: real-time signals, since tests and the product use the others. The
master's watch for long turns uses SIGALRM, as pytest-timeout does, so the runner has deadlines of its own."""

from __future__ import annotations

import signal

LATE = signal.SIGRTMIN + 8
"""The test that runs has reached its deadline."""
STACKS = signal.SIGRTMIN + 9
"""Write the stacks of all threads."""
