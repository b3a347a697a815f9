"""What a node says of itself: its Python, its agent, its clock, its disks, and whether a task could start. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from master.core.inventory import Facts
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
    ok,
    skipped,
    warning,
    word,
)
from master.doctor.scripts import Disk, complaint
from master.nodes.registry import NodeConfig
from wire.agent import Probed

CLOCK_S = 2.0
"""More than this apart, times in logs mislead and NFS and make think that files are of the future."""
LOW_MIB = 1024
EMPTY_MIB = 64
_MIB = 1 << 20
_GIB_MIB = 1024
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
AGAIN = "look at its load, its storage and `dmesg` there, then ask the doctor again"


def python(version: str) -> Finding:
    """The Python that the agent runs on."""
    return ok(PYTHON, f"Python {version}")


def agent(config: NodeConfig, version: str, ours: str, age_s: float | None) -> Finding:
    """The agent's version and the master's, digests of archives; how long it has been running, None where nobody
    knows."""
    since = "" if age_s is None else f", running for {_span(age_s)}"
    if version == ours:
        return ok(AGENT, f"version {version}{since}")
    cure = f"`muster agents restart {word(config.name)}`"
    if config.driver == "report":
        cure = "the agent's own log on the machine says why it could not take over the master's"
    return warning(AGENT, f"its version is {version}, the master's is {ours}{since}", cure)


def account(facts: Facts) -> Finding:
    """Whose rights tasks have there."""
    if facts.can_run_as:
        return ok(ACCOUNT, "tasks run as their owners, where these have an account there")
    if not facts.account:
        return skipped(ACCOUNT, "its agent does not say as whom it runs")
    if facts.uid == 0:
        cure = "in a container give it CAP_SETUID, CAP_SETGID, CAP_CHOWN and CAP_KILL"
        return warning(ACCOUNT, "its agent is root and cannot run tasks as their owners", cure)
    return ok(ACCOUNT, f"all tasks run as {facts.account}, which keeps nobody's apart from another's")


def environment(config: NodeConfig, login_fault: str) -> Finding:
    """Whether tasks begin with what a log-in there gives; `login_fault`: why they do not."""
    if not login_fault:
        return ok(ENVIRONMENT, "tasks begin with what `bash -l` of that account gives")
    cure = (
        f"mend the .bash_profile or .profile of {word(config.user_name or 'that account')} there: nothing in it may "
        f"wait, exit or start another shell; then `muster agents restart {word(config.name)}`"
    )
    return warning(ENVIRONMENT, login_fault, cure)


def _span(seconds: float) -> str:
    for unit, letter in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= unit:
            return f"{seconds / unit:.0f} {letter}"
    return f"{max(seconds, 0):.0f} s"


def clock(asked_at: float, told: float, answered_at: float) -> Finding:
    """The node's clock said `told` somewhen between two readings of ours; all in seconds since the epoch."""
    offset = told - (asked_at + answered_at) / 2
    doubt = max(answered_at - asked_at, 0.0) / 2
    text = f"{abs(offset):.1f} s {'ahead of' if offset > 0 else 'behind'} the master's (to within {doubt:.1f} s)"
    if abs(offset) - doubt > CLOCK_S:
        cure = "let both follow a time server: `timedatectl set-ntp true`, then `timedatectl` shows whether they do"
        return warning(CLOCK, text, cure)
    return ok(CLOCK, text)


def takes_tasks(name: str, cordons: Mapping[str, object], *, schedulable: bool) -> list[Finding]:
    """Why it is given no tasks, by who said so; `schedulable`: the registry's word."""
    cures = {
        "drained": f"when it may: `muster node resume {word(name)}`",
        "sick": f"find out why with the words above, mend it, then `muster node resume {word(name)}`",
        "resting": f"mend what it says, or wait; `muster node resume {word(name)}` tries at once",
        "stopped": f"`muster agents start {word(name)}`",
        "leaving": "wait for its last task, or write it back into the registry",
        "changing": "wait for its last task, or put the registry back",
    }
    # Of the shared folders there is a finding of its own.
    found = [
        warning(TAKES_TASKS, str(reason), cures.get(kind, "`muster node show` has more"))
        for kind, reason in cordons.items()
        if kind != "folders"
    ]
    if not schedulable:
        cure = f"when it may: `muster node edit {word(name)} schedulable=`"
        found.append(warning(TAKES_TASKS, "`schedulable` is false in the registry", cure))
    return found or [ok(TAKES_TASKS, "it may be given tasks")]


# -- disks ----------------------------------------------------------------------------------------------------


def disks(found: Iterable[Disk]) -> list[Finding]:
    """The room on the disks that hold these folders. One disk is told once, with all of its folders."""
    by_device: dict[int, list[Disk]] = {}
    findings = []
    for disk in found:
        if disk.error:
            cure = f"look at {disk.path} there: tasks and the agent need it"
            findings.append(fault(DISK, f"{disk.path}: {disk.error}", cure))
        else:
            by_device.setdefault(disk.device, []).append(disk)
    return findings + [_room([disk.path for disk in same], same[0]) for same in by_device.values()]


def _room(paths: list[str], disk: Disk) -> Finding:
    where = ", ".join(dict.fromkeys(paths))
    free_mib = disk.free // _MIB
    told = f"{where}: {_size(free_mib)} free of {_size(disk.size // _MIB)}"
    cure = f"make room there; `du -xh --max-depth=1 {word(paths[0])} | sort -h` shows what takes it"
    if disk.files and not disk.files_free:
        return fault(DISK, f"{where}: no more files can be made (its inodes are used up)", cure)
    if free_mib < EMPTY_MIB:
        return fault(DISK, told, cure)
    return warning(DISK, told, cure) if free_mib < LOW_MIB else ok(DISK, told)


def _size(mib: int) -> str:
    return f"{mib / _GIB_MIB:.1f} GiB" if mib >= _GIB_MIB else f"{mib} MiB"


# -- tasks ----------------------------------------------------------------------------------------------------


def conda(name: str, prefix: str, error: str, version: str) -> Finding:
    """The activation of `base`: `error` says why it failed, else `version` is that of its Python."""
    if error:
        cure = f"look at {prefix} on {word(name)}: is it whole, is its disk up? Tasks with an `env` would fail there"
        return fault(CONDA, error, cure)
    return ok(CONDA, f"base can be activated in {prefix}: Python {version}")


SIGNS_OF_CONDA = ("conda-meta", "bin/activate", "bin/conda", "condabin")


def only_venvs(prefix: str) -> Finding:
    """A prefix may be a folder of virtual environments, each of which brings what it needs."""
    return skipped(CONDA, f"{prefix} holds no conda of its own; what lies in {prefix}/envs is used without one")


def no_conda_as_root() -> Finding:
    """What lies in a shared folder is whoever's may write there."""
    return skipped(CONDA, "its agent is root, and you have no account there as which to activate it")


def no_conda(prefix: str) -> Finding:
    """The lab has none."""
    return skipped(CONDA, f"the lab has no conda in {prefix} (conf.json's `conda`)")


def start(root: str, logs: str, user: str, probed: Probed) -> Finding:
    """Could a task start, in `root`, with its log in `logs`? `user`: whose process it would be."""
    who = user or "the account there"
    said = [line for line in probed["output"].splitlines() if line.startswith("muster-doctor ")]
    last = said[-1].split(" ", 1)[1] if said else ""
    if last.startswith("started"):
        return ok(START, f"bash started in {root} and could make a log in {logs}")
    if last == "no-folder":
        return fault(START, f"the folder of the logs, {logs}, is not there", f"mount it there (`mount {word(logs)}`)")
    if last == "no-file":
        cure = f"let {who} write into {logs} (owner, mode, a mount that is read-only, a full disk)"
        return fault(START, f"no log can be made in {logs}", cure)
    why = complaint(probed)
    if why.startswith(f"{root}:"):
        return fault(START, f"no task can start in {why}", f"mount it there, and let {who} enter it")
    if why.startswith("/bin/bash:"):
        return fault(START, why, "install bash there: every task is run by it")
    return fault(START, f"bash could not do its work: {why}", AGAIN)


def silent(check: str, why: str) -> Finding:
    """A question got no answer."""
    return fault(check, why, AGAIN)
