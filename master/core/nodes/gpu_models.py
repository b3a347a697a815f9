"""Whether the GPUs that a machine shows are those that its registry entry says: more of them, or other models. Pure.

Names are people's on one side and the driver's on the other (`RTX3090`, `NVIDIA GeForce RTX 3090`), so only what
cannot be the same is told: the registry's name has numbers, and none of them is in the driver's. GPUs that are missing
are told by `gpu_watch`, which keeps them back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from master.core.nodes.gpu_watch import GpuReport
from wire.message import Message


def mismatch(models: Sequence[str], shown: Mapping[int, GpuReport]) -> Message | None:
    """Return how the GPUs differ from the registry; None if they do not."""
    told: list[Message] = []
    if len(shown) > len(models):
        told.append(Message("gpu_missing", shown=len(shown), count=len(models)))
    others: dict[tuple[str, str], list[int]] = {}
    for index, model in enumerate(models):
        report = shown.get(index)
        if report is not None and not _alike(model, report.model):
            others.setdefault((report.model, model), []).append(index)
    told += [
        Message("gpu_other_model", gpus=tuple(which), real=real, model=model) for (real, model), which in others.items()
    ]
    return told[0] if len(told) == 1 else Message("gpus_differ", faults=tuple(told)) if told else None


def _alike(model: str, real: str) -> bool:
    numbers = [word for word in re.findall(r"\w+", model.lower()) if any(sign.isdigit() for sign in word)]
    whole = "".join(re.findall(r"\w+", real.lower()))
    return not whole or not numbers or any(word in whole for word in numbers)
