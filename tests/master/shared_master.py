"""Check many cases on few masters in this process. A case that may have changed its master leaves it to no other."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

from tests.cases import each_case
from tests.master.in_process import InProcess, Peer, run

T = TypeVar("T")
Check = Callable[[InProcess, Peer, T], Awaitable[bool]]
"""Checks one case. Returns whether the master is as it was, so that the next case may have it."""


async def nothing(_peer: Peer) -> None:
    """Prepare nothing."""


def check_on_shared_masters(
    folder: Path, named: Mapping[str, T], check: Check[T], prepare: Callable[[Peer], Awaitable[None]] = nothing
) -> int:
    """Check each case, and raise AssertionError with the name of each that failed. Each new master is prepared. The
    case after one that failed has a new master. Returns how many masters there were."""
    numbers = itertools.count()
    left = list(named.items())

    async def story() -> None:
        with each_case() as cases:
            while left:
                place = folder / f"master-{next(numbers)}"
                place.mkdir()
                async with InProcess(place) as master:
                    peer = await master.peer()
                    await prepare(peer)
                    is_unchanged = True
                    while left and is_unchanged:
                        is_unchanged = False
                        name, one = left.pop(0)
                        with cases.case(name):
                            is_unchanged = await check(master, peer, one)
            assert cases.count == len(named)

    run(story())
    return next(numbers)
