"""Says which nodes will run no task of a user who was just added, or let in again, and what to do about it."""

from __future__ import annotations

from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context


def tell(context: Context) -> None:
    """Print a note for each such group of nodes. An earlier master does not say."""
    for one in context.client.info().get("closed_nodes") or ():
        context.note(f"note: {harmless(one['text'])}")
