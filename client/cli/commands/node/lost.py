"""Give up what runs on machines that will not come back: its tasks end as lost, and their GPUs count as free.

Should such a machine come back after all, what is left of them is killed before it takes a new task. With --account
only what runs over one SSH account of the node is given up, while its other tasks run on.
"""

from __future__ import annotations

import argparse

from client.cli.several import by_name, node_each
from client.text.quantities import counted
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.cli.context import Context
    from client.shapes import NodePage

EXAMPLES = """examples:
  muster node lost a
  muster node lost a --yes && muster queue --state lost
  muster node lost a --account li2"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    node_each.add(parser)
    parser.add_argument(
        "--account", metavar="ACCOUNT", help="only what runs over this SSH account of the node, by its name there"
    )
    by_name.add_yes(parser)


def run(context: Context) -> int:
    """Do it."""
    account: str | None = context.options.account

    def give_up(name: str) -> dict[str, Any] | None:
        node = context.client.node(name)
        shown = f"node {harmless(name)}" if account is None else f"account {harmless(account)} of node {harmless(name)}"
        tasks = node["tasks"] if account is None else _over(context, node, account)
        away = _away(node, account)
        if away:
            running = node_each.listed(tasks) or "no task runs there"
            context.say(f"{shown} is {away}")
            context.say(f"{running}; they would end as lost, for good, even if they still run on the machine")
            if not by_name.agreed(context, f"Give up {shown}?"):
                return None
        lost = context.client.give_up_node(name, account=account)
        context.say(f"{shown}: given up; {counted(len(lost), 'task')} lost")
        return {"name": name, "lost": lost}

    return by_name.each(context, context.options.names, give_up)


def _away(node: NodePage, account: str | None) -> str:
    """How it is, and why; "" where it answers, and the master refuses to give it up."""
    state: str | None = node["state"]
    reason = node["reason"]
    if account is not None and account != node["user_name"]:
        named = [one for one in node.get("accounts") or [] if one["user_name"] == account]
        state, reason = (named[0]["state"], named[0]["reason"]) if named else (None, None)
    return "" if state == "online" else f"{state or 'not connected'}: {harmless(reason or 'no reason is known')}"


def _over(context: Context, node: NodePage, account: str) -> list[int]:
    """The tasks there that run over this account."""
    login = "" if account == node["user_name"] else account
    tasks = context.client.tasks(ids=node["tasks"]) if node["tasks"] else []
    parts = [(task["id"], part) for task in tasks if not task["is_allocation"] for part in task["allocation"]]
    return [task_id for task_id, part in parts if (part["node"], part.get("login", "")) == (node["name"], login)]
