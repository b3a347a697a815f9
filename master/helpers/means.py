"""How a master comes to helpers: it is root and makes them itself, or an agent of root's on its machine does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from master.config.config import Config
from master.files.service import Files
from master.helpers.frames import Place, Setup
from master.helpers.pool import MOST, MOST_BY_AGENT, Pool
from master.helpers.starting import ByAgent, Forked, Probe


class Means(NamedTuple):
    """`pool`: the helpers; `prove`: whether a node's agent can make some, in a thread."""

    pool: Pool
    prove: Callable[[str], bool] = lambda _node: False


def setup_of(config: Config, files: Files, log_folder: str) -> Setup:
    """Return the first message to each helper."""
    return Setup(
        root=str(config.root),
        visible=config.visible_folders,
        files=dict(config.files),
        log_folder=log_folder,
        needed=[Place.of(needed) for needed in files.needed],
    )


def of_root(setup: Setup, allowed: Sequence[str | int], umask: int) -> Means:
    """Those of a master that is root."""
    return Means(Pool(Forked(setup, allowed, umask), most=MOST))


def of_agent(
    setup: Setup,
    allowed: Sequence[str | int],
    umask: int,
    *,
    node: Callable[[], str | None],
    probe: Probe,
    folder: Path,
    loop: asyncio.AbstractEventLoop,
) -> Means:
    """Those of any other, see `ByAgent`."""
    agent = ByAgent(setup, allowed, umask, node=node, probe=probe, folder=folder, loop=loop)
    return Means(Pool(agent, most=MOST_BY_AGENT), agent.prove)
