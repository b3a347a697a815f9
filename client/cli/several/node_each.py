"""Shared code of the commands about nodes: which nodes, which of their GPUs, and what runs there."""

from __future__ import annotations

from client.text.quantities import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse


def add(parser: argparse.ArgumentParser, nargs: str = "+") -> None:
    """Add the positional argument `names`."""
    parser.add_argument("names", nargs=nargs, metavar="NAME", help="the nodes' names, see `muster nodes`")


def add_gpu(parser: argparse.ArgumentParser, text: str) -> None:
    """Add --gpu, for what can be done to single GPUs."""
    from client.cli.arguments import fields

    parser.add_argument("--gpu", dest="gpus", type=fields.gpu_ids, metavar="N[,M]", help=text)


def check_gpu(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """GPUs have numbers on one node only."""
    if options.gpus and len(options.names) != 1:
        parser.error("--gpu goes with the name of one node")


def gpus_named(gpus: list[int]) -> str:
    """`GPU 1`, `GPUs 0, 1`."""
    numbers = ", ".join(map(str, dict.fromkeys(gpus)))
    return f"GPU{'s' if ',' in numbers else ''} {numbers}"


def listed(task_ids: list[int]) -> str:
    """`2 tasks run there (3, 7)`; empty for none."""
    if not task_ids:
        return ""
    from wire.ranges import ids_in_short

    runs = "run" if len(task_ids) > 1 else "runs"
    return f"{counted(len(task_ids), 'task')} {runs} there ({ids_in_short(task_ids)})"
