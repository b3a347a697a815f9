"""A finding of the doctor: one check of one node, its verdict, what was seen, and the cure. Pure.

Owns the names of the checks and the shape of a finding; `way`, `machine`, `folders` and `gpus` own what leads to
one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from wire.errors import MusterError
from wire.message import Message

REACHABLE, HOST_KEY, LOG_IN = "reachable", "host_key", "log_in"
PYTHON, AGENT, ACCOUNT, ENVIRONMENT, CLOCK = "python", "agent", "account", "environment", "clock"
CONDA, SHARED_FOLDERS, DISK = "conda", "shared_folders", "disk"
GPUS, START, TAKES_TASKS = "gpus", "start", "takes_tasks"
CHECKS = (
    *(REACHABLE, HOST_KEY, LOG_IN, PYTHON, AGENT, ACCOUNT, ENVIRONMENT, CLOCK, TAKES_TASKS),
    *(SHARED_FOLDERS, CONDA, DISK, GPUS, START),
)  # fmt: skip
"""The order in which they are reported: a check that others depend on comes first."""

Verdict = Literal["ok", "warning", "fault", "skipped"]
_LONGEST = 400


class Finding(msgspec.Struct, frozen=True):
    """`says`: what was seen; `do`: what to do about it, None where there is nothing to do."""

    check: str
    verdict: Verdict
    says: Message
    do: Message | None = None

    @property
    def told(self) -> str:
        """Return what was seen, in one line."""
        return brief(str(self.says))

    @property
    def cure(self) -> str:
        """Return what to do, "" for nothing."""
        return "" if self.do is None else str(self.do)


def ok(check: str, says: Message) -> Finding:
    """All is well with it."""
    return Finding(check, "ok", says)


def warning(check: str, says: Message, do: Message) -> Finding:
    """Tasks run, but somebody should know."""
    return Finding(check, "warning", says, do)


def fault(check: str, says: Message, do: Message) -> Finding:
    """Tasks cannot run there, or would fail."""
    return Finding(check, "fault", says, do)


def skipped(check: str, says: Message) -> Finding:
    """It was not looked at, and why."""
    return Finding(check, "skipped", says)


def heard(said: str | Message | MusterError) -> Message:
    """Return a foreign text, or an error of the master's, as a message."""
    if isinstance(said, MusterError):
        said = said.args[0] if said.key is not None else str(said)
    return said if isinstance(said, Message) else Message("doctor_said", said=brief(said))


def completed(findings: Iterable[Finding], why: Message) -> list[Finding]:
    """The findings by the order of CHECKS; a check without one was skipped, and `why`."""
    found = list(findings)
    told = {finding.check for finding in found}
    found += [skipped(check, why) for check in CHECKS if check not in told]
    return sorted(found, key=lambda finding: CHECKS.index(finding.check))


def worst(findings: Iterable[Finding]) -> Verdict:
    """The verdict on a node."""
    found = {finding.verdict for finding in findings}
    return "fault" if "fault" in found else "warning" if "warning" in found else "ok"


def brief(text: str) -> str:
    """Return a machine's text on one line, cut to the longest that is shown."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
