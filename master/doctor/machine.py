"""Findings about a node's machine: its Python, agent, clock and disks, and whether a task could start. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from master.core.nodes.inventory import Facts
from master.core.nodes.node import Restriction
from master.doctor.finding import (
    ACCOUNT,
    AGENT,
    CLOCK,
    CONDA,
    DISK,
    ENVIRONMENT,
    PYTHON,
    START,
    TAKES_TASKS,
    Finding,
    fault,
    heard,
    ok,
    skipped,
    warning,
)
from master.doctor.scripts import Disk, complaint
from master.nodes.registry import NodeConfig
from master.secrets.log_rights import Readers
from wire.agent import Probed
from wire.message import Message, names

CLOCK_S = 2.0
"""More than this apart, times in logs mislead and NFS and make think that files are of the future."""
LOW_MIB = 1024
EMPTY_MIB = 64
_MIB = 1 << 20
_GIB_MIB = 1024
TOLD = 6
"""So many accounts are named in a line."""
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
AGAIN = Message("do_look_and_ask_again")


def python(version: str) -> Finding:
    """The Python that the agent runs on."""
    return ok(PYTHON, Message("doctor_python", version=version))


def agent(config: NodeConfig, version: str, ours: str, age_s: float | None) -> Finding:
    """The agent's version and the master's, digests of archives; how long it has been running, None where nobody
    knows."""
    since = "" if age_s is None else Message("doctor_running_for", span=_span(age_s))
    if version == ours:
        return ok(AGENT, Message("doctor_agent", version=version, since=since))
    do = Message("do_restart_agent", name=config.name)
    if config.traits.dials_in:
        do = Message("do_read_why_not_taken_over")
    return warning(AGENT, Message("doctor_agent_other", version=version, ours=ours, since=since), do)


def account(facts: Facts) -> Finding:
    """Tell with which account's permissions tasks run on the node."""
    if facts.can_run_as:
        return ok(ACCOUNT, Message("doctor_as_owners"))
    if not facts.account:
        return skipped(ACCOUNT, Message("doctor_account_unknown"))
    if facts.uid == 0:
        return warning(ACCOUNT, Message("doctor_root_bound"), Message("do_give_capabilities"))
    return ok(ACCOUNT, Message("doctor_one_account", account=facts.account))


def no_accounts(strangers: Sequence[str]) -> list[Finding]:
    """The finding about users without an account on a node where tasks run as their owners."""
    if not strangers:
        return []
    return [warning(ACCOUNT, Message("doctor_no_accounts", users=names(strangers, TOLD)), Message("do_make_accounts"))]


def changed_id(why: Message | None) -> list[Finding]:
    """Whether it took the machine id of another node; `why` says so."""
    if why is None:
        return []
    return [warning(AGENT, why, Message("do_give_machine_id", name=why.args["name"], node=why.args["node"]))]


def own_account(restriction: Restriction | None, *, is_opened: bool, keeps_out: Sequence[str] = ()) -> list[Finding]:
    """Return the findings about tasks that run as the master's own account on the node. `is_opened`: an admin allowed
    other users' tasks there again; `keeps_out`: the users whose tasks never run there."""
    if restriction is not None and keeps_out:
        users = names(keeps_out, TOLD)
        return [warning(ACCOUNT, Message("doctor_keeps_out", users=users), Message("do_let_users_in"))]
    if restriction is not None:
        return [ok(ACCOUNT, restriction.why)]
    if is_opened:
        return [warning(ACCOUNT, Message("doctor_own_account_open"), Message("do_use_another_account"))]
    return []


def files(facts: Facts, *, acts: bool, is_shared: bool) -> list[Finding]:
    """Whether files and logs are touched with the rights that tasks have there, if these are their owners'. `acts`: the
    master does so; `is_shared`: there are users."""
    if not facts.can_run_as or not (acts or is_shared):
        return []
    if acts:
        return [ok(ACCOUNT, Message("doctor_files_as_owners"))]
    return [warning(ACCOUNT, Message("doctor_files_as_master"), Message("do_let_master_act"))]


def log_readers(found: Readers) -> Finding:
    """Whether the account that the desktop PCs use over SSH can read logs, as far as it can be told: it is the master's
    own where conf.json names no group."""
    group = found.group
    if found.others or not found.is_named:
        return ok(ACCOUNT, Message("doctor_log_readers", group=group, accounts=names(found.others, TOLD)))
    return warning(ACCOUNT, Message("doctor_no_log_readers", group=group), Message("do_join_log_group", group=group))


def closed_name(why: Message) -> Finding:
    """Warn of a name of conf.json that is closed to desktop clients; `why` says which key to change."""
    return warning(ACCOUNT, why, Message("do_change_key", key=str(why.args["key"])))


def environment(config: NodeConfig, login_fault: str) -> Finding:
    """Whether tasks begin with what a log-in there gives; `login_fault`: why they do not."""
    if not login_fault:
        return ok(ENVIRONMENT, Message("doctor_environment"))
    do = Message("do_mend_profile_of_account", name=config.name)
    if config.user_name:
        do = Message("do_mend_profile", name=config.name, user=config.user_name)
    return warning(ENVIRONMENT, heard(login_fault), do)


def _span(seconds: float) -> str:
    for unit, letter in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.0f} {letter}"
    return f"{max(seconds, 0):.0f} s"


def clock(asked_at: float, told: float, answered_at: float) -> Finding:
    """The node's clock said `told` somewhen between two readings of ours; all in seconds since the epoch."""
    offset = told - (asked_at + answered_at) / 2
    doubt = max(answered_at - asked_at, 0.0) / 2
    says = Message("doctor_clock_ahead", seconds=offset, doubt=doubt)
    if offset <= 0:
        says = Message("doctor_clock_behind", seconds=-offset, doubt=doubt)
    return warning(CLOCK, says, Message("do_set_clock")) if abs(offset) - doubt > CLOCK_S else ok(CLOCK, says)


def masters_clock(why: Message) -> Finding:
    """The master's own clock is behind, or has leapt; `why` says what to do, too."""
    return warning(CLOCK, why, Message("do_set_masters_clock"))


def masters_ids(fault: Message) -> Finding:
    """The master cannot write the file that shows whether its journal lost its end."""
    return warning(DISK, Message("doctor_ids", said=fault), Message("do_let_ids_be_written"))


def takes_tasks(name: str, cordons: Mapping[str, Message], *, schedulable: bool) -> list[Finding]:
    """Why it is given no tasks, by who said so; `schedulable`: the registry's word."""
    # Of the shared folders there is a finding of its own.
    found = [
        warning(TAKES_TASKS, reason, _once_more(kind, name)) for kind, reason in cordons.items() if kind != "folders"
    ]
    if not schedulable:
        found.append(warning(TAKES_TASKS, Message("doctor_not_schedulable"), Message("do_schedule", name=name)))
    return found or [ok(TAKES_TASKS, Message("doctor_takes_tasks"))]


def _once_more(kind: str, name: str) -> Message:
    """Return the cure for a node that takes no tasks, by the kind of its obstacle."""
    cures = {
        "drained": Message("do_resume", name=name),
        "sick": Message("do_mend_and_resume", name=name),
        "resting": Message("do_wait_or_resume", name=name),
        "stopped": Message("do_start_agent", name=name),
        "leaving": Message("do_wait_or_register"),
        "changing": Message("do_wait_or_put_back"),
        "same": Message("do_as_it_says", name=name),
    }
    return cures.get(kind, Message("do_show_node"))


# -- disks ----------------------------------------------------------------------------------------------------


def disks(found: Iterable[Disk]) -> list[Finding]:
    """Check the free space on the disks that hold these folders. One disk is reported once, with all of its folders."""
    by_device: dict[int, list[Disk]] = {}
    findings = []
    for disk in found:
        if disk.error:
            says = Message("doctor_disk_error", path=disk.path, said=heard(disk.error))
            findings.append(fault(DISK, says, Message("do_look_at_path", path=disk.path)))
        else:
            by_device.setdefault(disk.device, []).append(disk)
    return findings + [_room([disk.path for disk in same], same[0]) for same in by_device.values()]


def _room(paths: list[str], disk: Disk) -> Finding:
    where = tuple(dict.fromkeys(paths))
    free_mib = disk.free // _MIB
    room = Message("doctor_disk", paths=where, free=_size(free_mib), size=_size(disk.size // _MIB))
    do = Message("do_make_room", path=paths[0])
    if disk.files and not disk.files_free:
        return fault(DISK, Message("doctor_disk_no_files", paths=where), do)
    if free_mib < LOW_MIB:
        return (fault if free_mib < EMPTY_MIB else warning)(DISK, room, do)
    return ok(DISK, room)


def _size(mib: int) -> str:
    return f"{mib / _GIB_MIB:.1f} GiB" if mib >= _GIB_MIB else f"{mib} MiB"


# -- tasks ----------------------------------------------------------------------------------------------------


def conda(prefix: str, version: str) -> Finding:
    """`base` was activated; `version`: of its Python."""
    return ok(CONDA, Message("doctor_conda", prefix=prefix, version=version))


def no_base(name: str, prefix: str, why: Message) -> Finding:
    """`base` cannot be activated."""
    return fault(CONDA, why, Message("do_look_at_conda", name=name, prefix=prefix))


SIGNS_OF_CONDA = ("conda-meta", "bin/activate", "bin/conda", "condabin")


def only_venvs(prefix: str) -> Finding:
    """A prefix may be a folder of virtual environments, each of which brings what it needs."""
    return skipped(CONDA, Message("doctor_only_venvs", prefix=prefix))


def no_conda_as_root() -> Finding:
    """Skip the check for root: anybody who may write into a shared folder decides what runs from it."""
    return skipped(CONDA, Message("doctor_no_conda_as_root"))


def no_conda_as_admin() -> Finding:
    """Likewise, where the agent has the rights of root, or of the account that runs the master, and no other."""
    return skipped(CONDA, Message("doctor_no_conda_as_admin"))


def no_conda(prefix: str) -> Finding:
    """The lab has none."""
    return skipped(CONDA, Message("doctor_no_conda", prefix=prefix))


def start(root: str, logs: str, user: str, probed: Probed) -> Finding:
    """Could a task start, in `root`, with its log in `logs`? `user`: whose process it would be."""
    who = heard(user) if user else Message("doctor_account_there")
    said = [line for line in probed["output"].splitlines() if line.startswith("muster-doctor ")]
    last = said[-1].split(" ", 1)[1] if said else ""
    if last.startswith("started"):
        return ok(START, Message("doctor_start", root=root, logs=logs))
    if last == "no-folder":
        return fault(START, Message("doctor_no_log_folder", logs=logs), Message("do_mount", folder=logs))
    if last == "no-file":
        return fault(START, Message("doctor_no_log", logs=logs), Message("do_let_write", who=who, logs=logs))
    why = complaint(probed)
    if why.startswith(f"{root}:"):
        return fault(START, Message("doctor_no_start", said=heard(why)), Message("do_mount_and_let_in", who=who))
    if why.startswith("/bin/bash:"):
        return fault(START, heard(why), Message("do_install_bash"))
    return fault(START, Message("doctor_bash_failed", said=heard(why)), AGAIN)


def silent(check: str, why: Message | str) -> Finding:
    """A question got no answer."""
    return fault(check, heard(why), AGAIN)
