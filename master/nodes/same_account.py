"""Nodes that run tasks as the account of the master itself, or as root, and clients that must be refused beside them.

Such a task can do on this machine what the master can: read its keys, use its ports as their owner. If everybody who
may submit is trusted so far, nothing is wrong with that. The desktop client's dialect has no passwords: anybody in one
of its networks may submit. Owns that one rule and its messages.
"""

from __future__ import annotations

import ipaddress
import os
import pwd
import socket
from collections.abc import Container, Iterable
from pathlib import Path

from master.callers.addresses import plain
from master.config.conf_file import DesktopClient
from master.core.nodes.facts import Facts, RunsAs
from master.edited_files.ownership import user_name
from master.nodes.registry import NodeConfig
from master.tls.policy import our_names
from wire.file_fault import fault
from wire.message import Message, names
from wire.netlink import is_here

CONTAINER = Path("/run/systemd/container")
"""systemd makes this file where the machine is a container."""
_MOST_NAMES = 4


def check_company(nodes: Iterable[NodeConfig], access: DesktopClient, conf: Path) -> None:
    """Refuse nodes that run tasks as the master's account, or root, if desktop clients of other machines may connect.
    Raises ConfigError with the ways out."""
    outside = let_in_from_outside(access)
    ours = {node.name: account for node in nodes if (account := _our_account(node)) is not None} if outside else {}
    if ours:
        accounts = tuple(sorted(set(ours.values())))
        what = Message("nodes_run_as_us", networks=tuple(outside), nodes=tuple(ours), accounts=accounts)
        raise fault(conf, what)


def company_of(facts: Facts, access: DesktopClient) -> Message | None:
    """Return why an agent may get no tasks that has said where it is and who: by a name of this machine that the
    registry does not show to be one, through a proxy, or started here by hand. None if it may."""
    outside = let_in_from_outside(access)
    if not outside or not runs_as_us(facts):
        return None
    account = user_name(os.geteuid() if facts.uid is None else facts.uid)
    return Message("agent_runs_as_us", account=account, networks=tuple(outside))


def runs_as_us(facts: Facts) -> bool:
    """Do tasks of this agent run on the master's machine as the master's account, or as root?"""
    return _owns_us(facts.uid) and is_this_machine(facts)


def runs_as(facts: Facts, *, is_ours: bool = False) -> RunsAs:
    """Return the account that an agent gives to tasks; `is_ours`: the master starts it itself. One that is root on
    another machine and can become nobody else is sent no task that would run as root (`account_on`)."""
    if facts.can_run_as:
        return "owners"
    if is_ours or runs_as_us(facts):
        return "us"
    return "owners" if facts.uid in (0, None) else "another"


def is_this_machine(facts: Facts) -> bool:
    """Does this agent run on the master's machine?"""
    return is_this_run(facts.machine, facts.boot_id)


def is_this_run(machine: str, boot_id: str) -> bool:
    """Is it the master's machine, since it was started last? In a container its id alone tells, if it has one:
    systemd gives services such as the master a /proc of their own, and that shows the boot id of the machine around."""
    ours, boot = _this_machine()
    return machine == ours and (boot_id == boot or (bool(ours) and CONTAINER.exists()))


def keys_in_reach(nodes: Iterable[NodeConfig], access: DesktopClient, as_owners: Container[str] = ()) -> Message | None:
    """That tasks of some nodes can read the key by which other machines know the master; None where none can, or where
    that is accepted. `as_owners`: the names of nodes where tasks run as their owners."""
    ours = [node.name for node in nodes if node.name not in as_owners and _our_account(node) is not None]
    if access.local_nodes == "allow":
        return None
    return Message("tls_key_in_reach", nodes=names(ours, _MOST_NAMES)) if ours else None


def let_in_from_outside(access: DesktopClient) -> list[str]:
    """The networks of other machines whose clients are not trusted with the master itself."""
    return [] if access.local_nodes == "allow" else of_other_machines(access)


def of_other_machines(access: DesktopClient) -> list[str]:
    """Return the networks of other machines whose clients may connect."""
    return [network for network in access.networks if not _is_this_machine(network)]


def _our_account(node: NodeConfig) -> str | None:
    """The account that its tasks have on the master's machine, if that can do there what the master can."""
    if node.traits.has_our_account:
        return user_name(os.geteuid())
    if not node.traits.is_over_ssh or node.proxy is not None or not leads_here(node.ip):
        return None
    try:
        return node.user_name if _owns_us(pwd.getpwnam(node.user_name).pw_uid) else None
    except KeyError:
        return None  # there is no such account: nothing will run there


def _owns_us(uid: int | None) -> bool:
    return uid in (0, os.geteuid())


def _this_machine() -> tuple[str, str]:
    """Its own id ("" where it has none) and that of this run of it, as an agent here would tell them."""
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    try:
        return Path("/etc/machine-id").read_text(encoding="ascii").strip(), boot_id
    except (OSError, UnicodeError):
        return "", boot_id


def leads_here(name: str) -> bool:
    """Whether who connects there comes to this machine. Addresses are taken however they are spelled (127.1, 0.0.0.0);
    of names only our own are known: no name server is asked, but the agent that answers is (`company_of`)."""
    try:
        found = socket.getaddrinfo(name, None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return name.lower().rstrip(".") in (ours.lower() for ours in our_names(""))
    address = str(found[0][4][0])
    return plain(address).is_unspecified or is_here(address)


def _is_this_machine(text: str) -> bool:
    network = ipaddress.ip_network(text)
    mapped = network.network_address.ipv4_mapped if isinstance(network, ipaddress.IPv6Network) else None
    if mapped is not None and network.prefixlen >= 104:  # noqa: PLR2004  (::ffff:127.0.0.0/104 is 127.0.0.0/8)
        return mapped.is_loopback
    return network.is_loopback
