"""Counts what a call costs in units that do not depend on the load or the speed of a machine."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


def calls_of(work: Callable[[], object]) -> int:
    """How many functions it calls."""
    calls: list[str] = []
    with _without_garbage():
        sys.setprofile(lambda _frame, event, _arg: calls.append(event))
        try:
            work()
        finally:
            sys.setprofile(None)
    return len(calls)


def instructions_of(work: Callable[[], object]) -> int:
    """How many instructions of Python it executes. What C does within one is one: see `bytes_read_by`."""
    count = 0

    def trace(frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    with _without_garbage():
        sys.settrace(trace)
        try:
            work()
        finally:
            sys.settrace(before)
    return count


@contextmanager
def _without_garbage() -> Iterator[None]:
    """What the collector calls for objects of earlier tests is no cost of this one."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def bytes_read_by(work: Callable[[], object]) -> int:
    """How many bytes (of a text: characters) have those values of which it calls a method that is written in C, such as
    `find`, `replace`, `split`: once for each call."""
    count = 0

    def profile(_frame: FrameType, event: str, called: Any) -> None:
        nonlocal count
        if event == "c_call" and isinstance(value := getattr(called, "__self__", None), bytes | bytearray | str):
            count += len(value)

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
