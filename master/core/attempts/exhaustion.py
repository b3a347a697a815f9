"""The resource that an attempt ran out of, in words that say what to do: the agent's finding, and the samples of its
GPUs, which tell whose memory it was. Pure.

The finding comes from a log that the task wrote, and what it is worth to somebody else is nothing but a word: it frees
no GPU and blames no node.
"""

from __future__ import annotations

import msgspec

from wire.message import Message

OUT_OF_MEMORY = frozenset({"oom_gpu", "oom_gpu_own", "oom_gpu_others", "oom_host"})
"""The reasons of an end that was for want of memory, of a GPU or of the machine."""
RAN_OUT = OUT_OF_MEMORY | {"shm_full", "disk_was_full"}
"""All reasons that are given here."""
NEARLY_FULL = 0.9
"""Of a GPU's memory: what may be for want of memory is so from here on."""
OTHERS = 0.1
"""Of it, in the hands of others: without them there would have been notably more."""


class CardUse(msgspec.Struct, frozen=True):
    """Of the fullest GPU of an attempt, in MiB: what it was seen to use itself, at most, what others used lately, and
    how much there is."""

    own: int
    others: int
    total: int


def ran_out(finding: str, code: int | None, card: CardUse | None, *, has_gpus: bool) -> Message | None:
    """Return the message about an end for this finding of the agent's (`wire.agent.RAN_OUT`); None where it proves to
    be none."""
    if finding == "oom_gpu_maybe":
        if card is None or card.own + card.others < NEARLY_FULL * card.total:
            return None
        finding = "oom_gpu"
    if finding == "oom_gpu":
        return _of_gpu(code, card) if has_gpus else Message("oom_host", code=code)
    if finding == "oom_host":
        return Message("oom_host", code=code)
    if finding == "shm_full":
        return Message("shm_full", code=code)
    return Message("disk_was_full", code=code) if finding == "disk_full" else None


def _of_gpu(code: int | None, card: CardUse | None) -> Message:
    if card is None:
        return Message("oom_gpu", code=code)
    if card.others >= OTHERS * card.total:
        return Message("oom_gpu_others", code=code, others=card.others, total=card.total)
    if card.own >= NEARLY_FULL * card.total:
        return Message("oom_gpu_own", code=code, own=card.own, total=card.total)
    return Message("oom_gpu", code=code)
