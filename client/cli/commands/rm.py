"""Delete tasks that are not alive, from the queue or from the history. Their logs stay."""

from __future__ import annotations

from client.cli import each
from client.cli.arguments import ids
from client.states import ENDED

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from client.cli.context import Context

EXAMPLES = """examples:
  muster rm 7
  muster rm 7 --successors     (with the tasks that wait for it)"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    ids.add(parser)
    parser.add_argument("--successors", action="store_true", help="the tasks that wait for it as well")


def run(context: Context) -> int:
    """Do it."""
    gone: set[int] = set()

    def remove(task_id: int) -> list[int]:
        # A successor named beside its predecessor is gone already when its turn comes.
        removed = [] if task_id in gone else context.client.remove(task_id, successors=context.options.successors)
        gone.update(removed)
        return removed

    code = each.task(context, remove, "deleted", as_json=False, states={*ids.QUEUED, *ENDED})
    if context.json:
        context.print_json({"removed": sorted(gone)})
    return code
