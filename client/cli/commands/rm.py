"""Delete tasks that are not alive, from the queue or from the history. Their logs stay."""

from __future__ import annotations

from client.cli.arguments import ids
from client.cli.several import each
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
    names: dict[str, str] = {}

    def remove(task_id: int) -> list[int]:
        # A successor named beside its predecessor is gone already when its turn comes.
        if task_id in gone:
            return []
        answer = context.client.removed(task_id, successors=context.options.successors)
        gone.update(answer["removed"])
        names.update(answer.get("names") or {})
        return answer["removed"]

    code = each.task(context, remove, "deleted", as_json=False, states={*ids.QUEUED, *ENDED}, names=names)
    if context.json:
        context.print_json({"removed": sorted(gone), "names": names})
    return code
