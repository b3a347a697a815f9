"""Allocations: GPUs held under a name for as long as you need them; `muster submit --in NAME` runs tasks on them."""

from __future__ import annotations

import argparse

from client.cli.arguments import family

EXAMPLES = """examples:
  muster alloc exp --gpus 2 --time-limit 4h     (returns when the GPUs are yours)
  muster submit --in exp --gpus 1 -- python3 train.py
  muster alloc list
  muster alloc grow exp --gpus 2
  muster alloc release exp
  muster alloc new --help"""
ACTIONS = {
    "new": "ask for GPUs and wait until they are yours (`new` may be left out)",
    "list": "the allocations, their GPUs, and who uses them",
    "grow": "hold more GPUs, if they are free",
    "shrink": "give some of its GPUs back",
    "release": "give one back",
}

arguments, _parse, run = family.of(__name__, ACTIONS)


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Read the command line; `muster alloc NAME` asks for a new one."""
    at = 0
    while at < len(argv) and argv[at].partition("=")[0] in _BEFORE:
        at += 1 if "=" in argv[at] or argv[at] == "--json" else 2
    if argv[at:] and argv[at] not in (*ACTIONS, "-h", "--help"):
        argv = [*argv[:at], "new", *argv[at:]]
    return _parse(parser, argv)


_BEFORE = frozenset({"--conf", "--master", "--token", "--proxy", "--ca-fingerprint", "--json"})
"""Options that may stand before the action."""
