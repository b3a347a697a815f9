"""The doctor: examines nodes closely, many at a time, all within half a minute, and reports faults with their cures.

Owns the round: how many nodes at a time, its end, and the files in the shared folders that all nodes must see. `node`
owns what is asked of a node.
"""

from __future__ import annotations

import asyncio
import secrets
from weakref import WeakKeyDictionary

from master.core.nodes.inventory import Node
from master.doctor import way
from master.doctor.finding import (
    REACHABLE,
    TAKES_TASKS,
    Finding,
    completed,
    warning,
)
from master.doctor.folders import Nonces
from master.doctor.node import Examination, Lab, Round, online
from master.files.threads import Threads
from master.nodes.registry import NodeConfig
from wire.message import Message

AT_A_TIME = 16
WHOLE_S = 20.0
"""From the first question on; a check without an answer by then is reported as silent. Cleaning up comes after that."""

_threads: WeakKeyDictionary[asyncio.AbstractEventLoop, Threads] = WeakKeyDictionary()
"""Those that touch folders and sockets; kept, so that runs on a storage that hangs do not add up."""


async def examine(lab: Lab, names: list[str]) -> dict[str, list[Finding]]:
    """Return the findings for these nodes, by name: for each node every check, in the order of CHECKS."""
    loop = asyncio.get_running_loop()
    end = loop.time() + WHOLE_S
    threads = _threads.setdefault(loop, Threads())
    nonces = Nonces(threads, secrets.token_hex(8))
    at_a_time = asyncio.Semaphore(AT_A_TIME)
    this = Round(lab, nonces, threads, end)
    try:
        await nonces.look(lab.config.shared_folders)
        if any(_may_share(lab, name) for name in names):
            await nonces.lay()
        found = await asyncio.gather(*(_examine(this, name, number, at_a_time) for number, name in enumerate(names)))
    finally:
        await nonces.clear()
    return dict(zip(names, found, strict=True))


def _may_share(lab: Lab, name: str) -> bool:
    """Is there another machine, that can be asked now?"""
    config = lab.fleet.configs.get(name)
    return config is not None and not config.traits.is_this_machine and online(lab.core.inventory.nodes.get(name))


async def _examine(this: Round, name: str, number: int, at_a_time: asyncio.Semaphore) -> list[Finding]:
    config, node = this.lab.fleet.configs.get(name), this.lab.core.inventory.nodes.get(name)
    if config is None or node is None:
        return _not_in_registry()
    try:
        async with asyncio.timeout_at(this.end):
            await at_a_time.acquire()
    except TimeoutError:
        return _not_looked_at(config, node)
    try:
        return await Examination(this, config, node, number).run()
    finally:
        at_a_time.release()


def _not_in_registry() -> list[Finding]:
    gone = warning(TAKES_TASKS, Message("doctor_gone"), Message("do_write_back"))
    return completed([gone], Message("doctor_not_registered"))


def _not_looked_at(config: NodeConfig, node: Node) -> list[Finding]:
    """There was no time left for it; what its link says costs none."""
    told = None if online(node) else way.by_link(config, node.state, node.link_says)
    if told is None:
        told = warning(REACHABLE, Message("doctor_not_looked_at", seconds=WHOLE_S), Message("do_name_fewer"))
    return completed([told], Message("doctor_no_time"))
