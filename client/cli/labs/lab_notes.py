"""Notes of `muster up` about a lab: its folder is a copy of another lab's, queue included, or the file of its identity
is invalid and cannot be replaced."""

from __future__ import annotations

import os

from wire import lab

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context

_JOURNAL = "journal.jsonl"


def of_copy(context: Context, conf: str, folder: str) -> None:
    """Before the first start in a copied folder. `folder`: its `task_info`."""
    came = lab.read(conf).copied_from
    if came and os.path.lexists(os.path.join(folder, _JOURNAL)):
        from wire.message import Message

        context.note(Message("queue_is_copy", folder=folder, of=came))


def of_identity(context: Context, conf: str) -> None:
    """Once the master runs, which makes one where it can."""
    path = lab.path_of(conf)
    if os.path.lexists(path) and not lab.read(conf).identity:
        from wire.message import Message

        context.note(Message("lab_file_odd", path=path))
