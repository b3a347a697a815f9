"""All that is to be said of one node but its GPUs and its tasks, as labels and values."""

from __future__ import annotations

from client.states import node_condition
from client.text.nodes import reserved_for
from client.text.quantities import load_text, mib, moment
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.shapes import NodeAccount, NodePage


def node_page(node: NodePage) -> list[tuple[str, str]]:
    """The entries that there are."""
    drained = f"by {node['drained_by']}, {moment(node['drained_at'])}" if node["drained_by"] else ""
    registry = {"leaving": "it is not in there any more and goes after its last task",
                "changing": "it leads to another machine now, followed after the last task here"}  # fmt: skip
    entries = [
        ("name", harmless(node["name"])),
        ("state", node_condition(node)),
        ("reason", harmless(node["reason"] or "")),
        ("drained", harmless(drained)),
        ("registry", registry.get(node["registry"], "")),
        ("gpus", harmless(node.get("mismatch") or "")),
        ("reserved", reserved_for(node)),
        ("reached by", harmless(_way(node))),
        ("machine", harmless(_machine(node))),
        ("tasks run", harmless(_account(node))),
        ("cpus", _held(node["cpus"], node["cpus_held"])),
        ("slots", _held(node["slots"], node["slots_held"])),
        ("memory", mib(node["memory_mib"]) if node["memory_mib"] else ""),
        ("tmp disk", _tmp_disk(node)),
        ("load", load_text(node["load"])),
        ("clock", _clock(node.get("clock_offset_s"))),
        ("labels", harmless(", ".join(f"{key}={value}" for key, value in node["labels"].items()))),
    ]
    return [entry for entry in entries if entry[1]]


def _way(node: NodePage) -> str:
    if node["driver"] != "ssh":
        return "a process of the master's own machine" if node["driver"] == "local" else node["driver"] or ""
    return f"ssh, {node['user_name']}@{node['address']}, port {node['port']}"


def _account(node: NodePage) -> str:
    account = node.get("account") or ""
    if (accounts := node.get("accounts")) is not None:
        return f"over the SSH accounts of their owners: {', '.join(map(_over, accounts))}"
    if (whose := node.get("own_account")) in ("admins", "opened"):
        tasks = "admins' tasks only" if whose == "admins" else "everybody's tasks, since an admin opened it"
        return f"as the master's own account, {account}: {tasks}"
    if node.get("can_run_as"):
        return f"as their owners, once there are users; those of the user who runs the master as {account}"
    return f"as the account {account}, which all of them share" if account else ""


def _over(account: NodeAccount) -> str:
    """`li (as li2, unreachable: …)`."""
    other = f"as {account['user_name']}" if account["user_name"] != account["user"] else ""
    away = account["state"] if account["state"] not in (None, "online") else ""
    why = f": {account['reason']}" if account["reason"] else ""
    told = ", ".join(filter(None, (other, f"{away}{why}" if away else why.removeprefix(": "))))
    return f"{account['user']} ({told})" if told else account["user"]


def _machine(node: NodePage) -> str:
    version = f"agent {node['agent_version'][:12]}" if node["agent_version"] else ""
    python = f"Python {node['python']}" if node["python"] else ""
    return ", ".join(part for part in (node["hostname"] or "", python, version) if part)


def _clock(offset: float | None) -> str:
    """Against the master's; a second is nothing to tell: so long may a sample be under way."""
    if offset is None or abs(offset) <= 1:
        return ""
    return f"{abs(offset):.1f} s {'ahead of' if offset > 0 else 'behind'} the master's"


def _tmp_disk(node: NodePage) -> str:
    """Masters before it do not say."""
    size, held = node.get("tmp_disk_mib"), node.get("tmp_disk_held_mib")
    return f"{mib(size)} ({mib(held)} held)" if size and held else mib(size) if size else ""


def _held(count: int | None, held: int) -> str:
    return f"{count} ({held} held)" if count and held else str(count or "")
