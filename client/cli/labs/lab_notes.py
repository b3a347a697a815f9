"""Notes of `muster up` about a lab: its folder is a copy of another lab's, queue included, or the file of its identity
is invalid and cannot be replaced."""

from __future__ import annotations

import os

from wire import lab
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

_JOURNAL = "journal.jsonl"


def of_copy(context: Context, conf: str, folder: str) -> None:
    """Before the first start in a copied folder. `folder`: its `task_info`."""
    came = lab.read(conf).copied_from
    if came and os.path.lexists(os.path.join(folder, _JOURNAL)):
        context.note(
            f"note: {harmless(folder)} is a copy of the queue of {harmless(came)}: the same tasks are in both, and "
            "each lab runs what waits. For an empty queue stop this master (`muster down`) and remove the copy"
        )


def of_identity(context: Context, conf: str) -> None:
    """Once the master runs, which makes one where it can."""
    path = lab.path_of(conf)
    if os.path.lexists(path) and not lab.read(conf).identity:
        context.note(
            f"note: {harmless(path)} is not the file in which the master keeps which lab this is, and cannot be "
            "replaced: remove it, and start the master anew. Until then labs are told apart by where conf.json lies"
        )
