"""The texts of `muster init --from`: questions on a terminal, the table at the end, the same as JSON."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator
from typing import Any

from master.setup.init import old_master
from master.setup.init.old_lab import OldLab
from master.setup.init.old_traces import look
from master.setup.init.takeover import Plan, Wishes, check_bind, is_loopback, parse_networks
from wire.errors import ConfigError
from wire.message import Message

COMMAND_SHOWN = 60
LOOPBACK = "127.0.0.1"
NOTHING_TO_DO = "there is nothing to do: this lab was taken over already"


def ask(lab: OldLab, wishes: Wishes, reply: Callable[[str], str] = input) -> Wishes:
    """Ask for what neither the options nor conf.json say; an empty reply takes the default in brackets."""
    desktop = lab.conf.value.get("desktop_client", {})
    bind, networks, hold = wishes
    if bind is None and "bind" not in lab.conf.value:
        own = old_master.own_addresses(node.ip for node in lab.registry.nodes if _is_address(node.ip))
        hint = f"; {', '.join(own)} is this machine's towards the nodes" if own else ""
        question = f"Address to listen on (0.0.0.0: all{hint}) [{LOOPBACK}]: "
        bind = _until(question, reply, lambda text: check_bind(text or LOOPBACK))
    outside = not is_loopback(bind or lab.conf.typed.bind)
    if networks is None and outside and "networks" not in desktop:
        question = "Networks of the PCs with the desktop client, such as 192.168.36.0/24 [none]: "
        networks = _until(question, reply, parse_networks) or None
    if hold is None and (doubtful := look(lab)):
        told = "\n".join(f"  {trace.id}  {_brief(str(trace.what), None)}" for trace in doubtful)
        question = f"Tasks that wait in the old queue, and may not wait any more:\n{told}\nKeep these held? [Y/n]: "
        hold = _until(question, reply, _yes_or_no)
    return Wishes(bind, networks, hold)


def lines(plan: Plan, *, dry_run: bool) -> Iterator[str]:
    """Yield the lines that tell people what was done, or would be."""
    if not plan.changes_something:
        yield f"{plan.lab.conf.path}: {NOTHING_TO_DO}"
        return
    yield f"{'Would take over' if dry_run else 'Taken over'}: {plan.lab.conf.path.parent}"
    rows = list(_rows(plan))
    room = max(len(name) for name, _ in rows)
    yield from (f"  {name:<{room}}  {text}".rstrip() for name, text in rows)
    for task in plan.lab.queues.running:
        where = ", ".join(" ".join([part.node, *_gpus(part.gpus)]) for part in task.allocation)
        yield f"  lost: {task.id}  {where or '-'}  {_brief(str(task.command))}"
    for trace in plan.doubtful:
        yield f"  {'left waiting' if plan.hold is False else 'held'}: {trace.id}  {_brief(str(trace.what), None)}"
    notices = [str(plan.seems_to_run())] if plan.running else []
    notices += plan.warnings
    if notices:
        yield ""
        yield "To know:"
        yield from (f"  * {_brief(notice, None)}" for notice in notices)
    yield ""
    yield "Next:"
    yield from (f"  {number}. {step}" for number, step in enumerate(next_steps(plan, dry_run=dry_run), 1))


def as_json(plan: Plan, *, dry_run: bool) -> dict[str, Any]:
    """The same for programs."""
    lab, queues = plan.lab, plan.lab.queues
    return {
        "conf": str(lab.conf.path),
        "dry_run": dry_run,
        "changes": plan.changes_something,
        "files": [str(file.path) for file in plan.files],
        "psw_closed": plan.closes_secret,
        "bind": plan.conf["bind"],
        "networks": plan.conf["desktop_client"].get("networks", []),
        "conda": str(plan.conda) if plan.conda else None,
        "nodes": [{"name": node.name, "driver": node.driver, "gpus": node.gpu_count} for node in lab.registry.nodes],
        "unknown": {"conf.json": list(lab.conf.unknown), "registry": lab.registry.unknown},
        "tasks": {
            "taken_over_before": queues.settled,
            "waiting": len(queues.waiting),
            "lost": [
                {"id": task.id, "nodes": [part.node for part in task.allocation], "reason": task.reason}
                for task in queues.running
            ],
            "doubtful": [
                {"id": trace.id, "what": str(trace.what), "held": plan.hold is not False} for trace in plan.doubtful
            ],
            "history": queues.history,
        },
        "old_master": list(map(str, plan.running)),
        "warnings": plan.warnings,
        "next": next_steps(plan, dry_run=dry_run) if plan.changes_something else [],
    }


def next_steps(plan: Plan, *, dry_run: bool) -> list[str]:
    """Return the remaining steps, in order."""
    conf = plan.lab.conf.path
    steps = []
    if plan.running:
        whose = "Muster's master" if plan.is_ours else "the old master"
        steps.append(f"stop {whose}, and whatever starts it again (cron, systemd)")
    if dry_run:
        steps.append("the same command without --dry-run")
    steps.append(f"muster up --detach --conf {conf}")
    if any(node.traits.is_over_ssh for node in plan.lab.registry.nodes):
        steps.append(f"muster node trust --all --conf {conf}   (compare the fingerprints that it shows)")
    steps.append(f"muster status --conf {conf}; muster queue --all --conf {conf}")
    if plan.doubtful and plan.hold is not False:
        steps.append(f"the held tasks: look at each, then muster release ID or muster cancel ID (--conf {conf})")
    steps.append("desktop clients: close and start them again; address and ports are the same")
    return steps


def _rows(plan: Plan) -> Iterator[tuple[str, str]]:
    lab, queues = plan.lab, plan.lab.queues
    nodes = lab.registry.nodes
    yield "conf.json", f"bind {plan.conf['bind']}, desktop clients from {', '.join(_networks(plan)) or 'nowhere'}"
    yield "ports", ", ".join(f"{port} ({name})" for name, port in lab.conf.typed.socket_info.all.items())
    yield "root", str(lab.conf.root)
    yield "conda", str(plan.conda) if plan.conda else "none found"
    yield "task_env", " ".join(f"{name}={value}" for name, value in plan.conf["task_env"].items())
    yield "nodes", f"{len(nodes)} with {sum(node.gpu_count for node in nodes)} GPUs: {', '.join(n.name for n in nodes)}"
    if lab.secret.present:
        yield "passwords", f"{lab.secret.path}, mode 0600" + ("" if plan.closes_secret else " as it was")
    if queues.settled:
        yield "tasks", "taken over before"
    else:
        counts = len(queues.waiting), len(queues.running), queues.history
        yield "tasks", "{} wait, {} ran and become lost, {} of history".format(*counts)
    for file in plan.files:
        yield "file", str(file.path)


def _networks(plan: Plan) -> list[str]:
    return list(plan.conf["desktop_client"].get("networks", []))


def _gpus(indices: list[int]) -> list[str]:
    return [f"GPU{'s' if len(indices) > 1 else ''} {', '.join(map(str, indices))}"] if indices else []


def _yes_or_no(text: str) -> bool:
    if text.lower() not in ("", "y", "yes", "n", "no"):
        raise ConfigError(Message("y_or_n"))
    return text.lower() in ("", "y", "yes")


def _until(question: str, reply: Callable[[str], str], check: Callable[[str], Any]) -> Any:
    """Ask until the reply makes sense."""
    complaint = ""
    while True:
        try:
            return check(reply(complaint + question).strip())
        except EOFError:
            return check("")
        except ConfigError as error:
            complaint = f"{error}\n"


def _is_address(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 4  # noqa: PLR2004  (the probe is an IPv4 socket)
    except ValueError:
        return False


def _brief(text: str, room: int | None = COMMAND_SHOWN) -> str:
    """On one line and without anything that a terminal acts on."""
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    return shown if room is None or len(shown) <= room else shown[: room - 1] + "…"
