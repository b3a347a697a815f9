"""Which accounts of the master's own machine tasks run as.

To the kernel, anybody who may submit acts as such an account there: its uid does not tell which user calls. If tasks
run as their owners, or over an SSH account of each user, it does; but not whether its user calls, or a task that was
submitted with a token which may do less than its user. After a start a process that a task left behind may call before
its agent has dialled in: the last words of that agent are remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from master.core.nodes.accounts import OWN
from master.core.nodes.inventory import Node
from master.core.nodes.notes import Note
from master.core.tasks.task import Task
from master.nodes.registry import NodeConfig
from master.nodes.same_account import is_this_machine, is_this_run, leads_here

NOTHING = Note()


def is_of_tasks(
    account: str,
    configs: Iterable[NodeConfig],
    nodes: Iterable[Node],
    active: Iterable[Task],
    notes: Mapping[str, Note],
) -> bool:
    """Tell whether tasks of others than the user of this name may run as the account on this machine: by the registry,
    by the agents' facts or what is noted of them, and by what runs."""
    return (
        any(_by_entry(config, account) for config in configs)
        or any(_by_agent(node, account, notes.get(node.name, NOTHING)) for node in nodes)
        or any(_by_attempt(task, account) for task in active)
    )


def runs_own_tasks(
    account: str,
    configs: Iterable[NodeConfig],
    nodes: Iterable[Node],
    active: Iterable[Task],
    notes: Mapping[str, Note],
) -> bool:
    """Tell whether tasks of the user of this name may run as the account on this machine; likewise."""
    return (
        any(_own_by_entry(config, account) for config in configs)
        or any(_own_by_agent(node, account, notes.get(node.name, NOTHING)) for node in nodes)
        or any(_own_by_attempt(task, account) for task in active)
    )


def _own_by_entry(config: NodeConfig, account: str) -> bool:
    own = (config.accounts or {}).get(account)
    return own is not None and own.user_name == account and leads_here(config.ip)


def _own_by_agent(node: Node, account: str, note: Note) -> bool:
    facts = node.facts
    if facts is None:
        return note.as_owners == "here"
    login = None if node.accounts.logins is None else node.accounts.logins.get(account)
    is_own = facts.can_run_as or (facts.account if login == OWN else login) == account
    return is_own and is_this_machine(facts)


def _own_by_attempt(task: Task, account: str) -> bool:
    parts = task.allocation if task.owner == account else []
    return any(is_this_run(part.machine, part.boot_id) and account in (part.run_as, part.account) for part in parts)


def _by_entry(config: NodeConfig, account: str) -> bool:
    if not config.traits.is_over_ssh:
        return False
    logins = {owner: one.user_name for owner, one in (config.accounts or {}).items()}
    return _is_others(account, config.user_name, None if config.accounts is None else logins) and leads_here(config.ip)


def _by_agent(node: Node, account: str, note: Note) -> bool:
    facts = node.facts
    if facts is None:
        return bool(note.account_here) and _is_others(account, note.account_here, node.accounts.logins)
    if facts.can_run_as or not _is_others(account, facts.account, node.accounts.logins):
        return False
    return is_this_machine(facts)


def _is_others(account: str, own: str, logins: Mapping[str, str] | None) -> bool:
    """`own`: the account of the node's agent; `logins`: over which tasks run, by owner, None where all run as `own`."""
    if logins is None:
        return account == own
    return any((login if login != OWN else own) == account != owner for owner, login in logins.items())


def _by_attempt(task: Task, account: str) -> bool:
    parts = (part for part in task.allocation if not part.run_as and part.account == account != task.owner)
    return any(is_this_run(part.machine, part.boot_id) for part in parts)
