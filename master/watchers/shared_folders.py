"""Are the folders that every machine must see at the same path there, on a node? The question and the answer. Pure.

A lab keeps environments, data and logs on NFS. A node that lacks a mount would fail one task after another; asked
before it gets its first, it says so instead. The question is a probe, so a hung mount hangs nothing of ours.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from wire.agent import Probed

CHECK_S = 10.0
"""A mount that has not answered for so long does not serve tasks either."""
AGAIN_S = 300.0
AGAIN_MISSING_S = 15.0
"""Seconds between two checks, while all is well and while something is missing."""

_SCRIPT = 'for f; do if [ ! -d "$f" ]; then echo missing; elif [ ! -x "$f" ]; then echo closed; else echo ok; fi; done'
_TOLD = {"missing": "is not there", "closed": "may not be entered"}


def question(folders: Sequence[str]) -> list[str]:
    """The command to run on the node: one word a folder."""
    return ["/bin/sh", "-c", _SCRIPT, "sh", *folders]


def fault(folders: Sequence[str], answer: Probed) -> str | None:
    """What is wrong on the node, with the cure; None if nothing is."""
    words = answer["output"].split()
    if answer["code"] is None:
        return f"the shared folders do not answer ({answer['error']}): is the NFS server up? ({', '.join(folders)})"
    if len(words) != len(folders) or not set(words) <= {"ok", *_TOLD}:
        return f"the shared folders cannot be looked at: {answer['output'].strip()[-200:]!r}"
    for folder, word in zip(folders, words, strict=True):
        if word != "ok":
            return (
                f"the shared folder {folder} {_TOLD[word]} on this node: mount it there (`mount {shlex.quote(folder)}`)"
            )
    return None
