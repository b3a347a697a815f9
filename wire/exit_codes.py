"""The names of the signals that exit codes above 128 stand for, as a shell gives them: 128 + N after signal N.

A program may also exit with such a number by itself, so a name says what the number means and not who sent a signal.
Only signals that end a program are named.
"""

from __future__ import annotations

BEYOND = 128
SIGNALS = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
    9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
    16: "SIGSTKFLT", 24: "SIGXCPU", 25: "SIGXFSZ", 26: "SIGVTALRM", 27: "SIGPROF",
    29: "SIGIO", 30: "SIGPWR", 31: "SIGSYS",
}  # fmt: skip
"""Of Linux on x86 and ARM. `web/static/core/exit-codes.js` has the same."""


def signal_of(code: int | None) -> str:
    """`SIGKILL` for 137; "" for a code that stands for no signal."""
    return "" if code is None else SIGNALS.get(code - BEYOND, "")


def with_signal(code: int) -> str:
    """`137 (SIGKILL)`, `3`."""
    name = signal_of(code)
    return f"{code} ({name})" if name else str(code)
