"""What the doctor finds: one check of one node, its verdict, what it saw, and the cure. Pure.

Owns the names of the checks and what a finding may look like; what leads to one is `way`'s, `machine`'s,
`folders`'s and `gpus`'s.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Literal

import msgspec

REACHABLE, HOST_KEY, LOG_IN = "reachable", "host_key", "log_in"
PYTHON, AGENT, ACCOUNT, ENVIRONMENT, CLOCK = "python", "agent", "account", "environment", "clock"
CONDA, SHARED_FOLDERS, DISK = "conda", "shared_folders", "disk"
GPUS, START, TAKES_TASKS = "gpus", "start", "takes_tasks"
CHECKS = (
    *(REACHABLE, HOST_KEY, LOG_IN, PYTHON, AGENT, ACCOUNT, ENVIRONMENT, CLOCK, TAKES_TASKS),
    *(SHARED_FOLDERS, CONDA, DISK, GPUS, START),
)  # fmt: skip
"""In the order in which they are told: what keeps one from the next comes first."""

Verdict = Literal["ok", "warning", "fault", "skipped"]
_LONGEST = 400


class Finding(msgspec.Struct, frozen=True):
    """`told`: what was seen, in a line. `cure`: what to do about it; "" where there is nothing to do."""

    check: str
    verdict: Verdict
    told: str
    cure: str = ""


def ok(check: str, told: str) -> Finding:
    """All is well with it."""
    return Finding(check, "ok", brief(told))


def warning(check: str, told: str, cure: str) -> Finding:
    """Tasks run, but somebody should know."""
    return Finding(check, "warning", brief(told), cure)


def fault(check: str, told: str, cure: str) -> Finding:
    """Tasks cannot run there, or would fail."""
    return Finding(check, "fault", brief(told), cure)


def skipped(check: str, told: str) -> Finding:
    """It was not looked at, and why."""
    return Finding(check, "skipped", brief(told))


def completed(findings: Iterable[Finding], why: str) -> list[Finding]:
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
    """What a machine said, on one line of bearable length."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def word(text: str) -> str:
    """A name or a path as it has to be typed in a shell, for cures."""
    return shlex.quote(text)
