"""Are the folders that every machine must see at the same path there, on a node? The question and the answer. Pure.

A lab keeps environments, data and logs on NFS. A node that lacks a mount would fail one task after another; asked
before it gets its first, it says so instead. The question is a probe, so a hung mount hangs nothing of ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.agent import Probed
from wire.message import Message

CHECK_S = 10.0
"""A mount that has not answered for so long does not serve tasks either."""
AGAIN_S = 300.0
AGAIN_MISSING_S = 15.0
"""Seconds between two checks, while all is well and while something is missing."""

_SCRIPT = 'for f; do if [ ! -d "$f" ]; then echo missing; elif [ ! -x "$f" ]; then echo closed; else echo ok; fi; done'
_WORDS = {"ok", "missing", "closed"}


def question(folders: Sequence[str]) -> list[str]:
    """The command to run on the node: one word a folder."""
    return ["/bin/sh", "-c", _SCRIPT, "sh", *folders]


def fault(folders: Sequence[str], answer: Probed) -> Message | None:
    """Return the fault on the node, with the cure; None if there is none."""
    words = answer["output"].split()
    if answer["code"] is None:
        return Message("folders_hang", said=answer["error"], folders=tuple(folders))
    if len(words) != len(folders) or not set(words) <= _WORDS:
        return Message("folders_unreadable", said=answer["output"].strip()[-200:])
    for folder, word in zip(folders, words, strict=True):
        if word == "missing":
            return Message("folder_missing", folder=folder)
        if word == "closed":
            return Message("folder_closed", folder=folder)
    return None
