"""Tells the core, and everybody who listens, the content of a sample: load, clock and GPUs of a node."""

from __future__ import annotations

import time

from master.core.attempts import agent_messages
from master.core.nodes.node_clock import sane
from master.loop.selector import MOMENT_S
from master.nodes.agent_context import AgentContext


def take_in(context: AgentContext, line: bytes, *, has_rested: bool) -> None:
    """`has_rested`: the connection was in no hurry, and the sample may have waited. Raises UnbelievableError."""
    if len(line) > agent_messages.SAMPLE_BYTES:
        raise agent_messages.UnbelievableError(f"a sample of {len(line)} bytes")
    core, sample = context.engine.core, agent_messages.as_sample(line)
    now = time.time()
    core.node_load(context.node, sample.load, _ahead(context, sample.at - now, has_rested=has_rested))
    core.clock_told(context.node, sample.at, None, now)
    sample.at = sane(sample.at, now, now, core.clock_of(context.node))
    if context.sampling["gpus"] == "declared" or (sample.gpu_source == "none" and not sample.gpu_fault):
        context.engine.event(lambda: core.gpus_unseen(context.node))
    else:
        context.engine.event(lambda: core.gpus_seen(context.node, sample.gpus, time.time(), sample.gpu_fault))
    context.samples.sample(context.node, agent_messages.EncodedSample(sample))


def _ahead(context: AgentContext, seen: float, *, has_rested: bool) -> float:
    """By how many seconds its clock is ahead of ours, where it is seen so: what lay there while nobody was in a hurry
    to hear it is from up to a moment ago, and says nothing against what is known that fits to it."""
    node = context.entry
    known = node.clock_offset if node is not None and has_rested else None
    return seen if known is None else min(max(known, seen), seen + MOMENT_S)
