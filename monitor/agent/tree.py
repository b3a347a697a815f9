"""Processes: who is alive, who descends from whom, what belongs to an attempt, and signals that never reach a stranger.

It owns reading /proc and sending signals. It knows nothing of attempts, graces and deadlines.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Set, Tuple

MARK = "MUSTER_LAUNCH_ID"
MOST_OF_GROUPS = 1000
"""Characters: they are written into a record, which is to fit into a block of the disk."""


class Process(NamedTuple):
    """A process: its start time (clock ticks since boot) tells it from a later one with the same pid."""

    pid: int
    parent: int
    start: int
    state: str
    session: int = 0
    group: int = 0


class Trace(NamedTuple):
    """By what the tree of an attempt is known without its shim: the command's pid, which is its session's number too,
    and its start; the processes, by pid and start, that were seen to belong to it. A variable alone would not do: a
    program may clean its environment, and others may set it. `uid`: whose processes are believed in what they carry;
    None: everybody's. `strict`: its record was lost, so nobody here saw it begin. Then the launch id in a process's
    environment only makes it a candidate, and so does its process group. `cgroups`: those of its own that were seen.
    `home`: the control group of the service or log-in in which it began (`group_apart`): there another account's
    process that carries the id is a candidate, too, for nobody but root puts a process into it."""

    launch_id: str
    pid: Optional[int]
    start: Optional[int]
    members: Set[Tuple[int, int]]
    uid: Optional[int] = None
    strict: bool = False
    cgroups: FrozenSet[bytes] = frozenset()
    home: str = ""


class Tree(NamedTuple):
    """The living processes of an attempt. `members`: they are proven to be of it, and may be signalled. `candidates`:
    they may be of it, and nothing proves that. `cgroups`: those of members that this process is not in."""

    members: List[Process]
    candidates: List[Process]
    cgroups: FrozenSet[bytes]


def look(pid: int) -> Optional[Process]:
    """The process with this pid (also a zombie), or None."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            text = file.read(4096)
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    return Process(pid, int(fields[1]), int(fields[19]), fields[0].decode(), int(fields[3]), int(fields[2]))


def is_alive(pid: Optional[int], start: Optional[int]) -> bool:
    """Whether that very process lives (a zombie does not)."""
    if not pid:
        return False
    found = look(pid)
    return found is not None and found.start == start and found.state not in "ZX"


def everyone() -> Dict[int, Process]:
    """All processes by pid."""
    found = (look(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {process.pid: process for process in found if process is not None}


def descendants(roots: Iterable[int], processes: Dict[int, Process]) -> List[Process]:
    """Everything below these pids (they themselves left out), without zombies."""
    children: Dict[int, List[Process]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    found: List[Process] = []
    seen: Set[int] = set(roots)
    open_ends = list(seen)
    while open_ends:
        for child in children.get(open_ends.pop(), []):
            if child.pid not in seen:
                seen.add(child.pid)
                open_ends.append(child.pid)
                found.append(child)
    return [process for process in found if process.state not in "ZX"]


def trees(traces: Iterable[Trace]) -> Dict[str, List[Process]]:
    """By launch id the living processes that are proven to be of each attempt, see `search`."""
    return {launch_id: found.members for launch_id, found in search(traces).items()}


def search(traces: Iterable[Trace]) -> Dict[str, Tree]:
    """By launch id the living processes of each attempt: those that carry its mark, are of its session or were seen to
    belong to it, and all that descend from them. Of a `strict` one a mark proves nothing: its processes are the
    recorded one, those of its session and of its own control groups, with its uid and no older than it,
    and what descends from these."""
    processes, known_traces = everyone(), list(traces)
    uids = {trace.launch_id: trace.uid for trace in known_traces}
    marks = {process.pid: _credible_mark(process, uids) for process in processes.values()}
    return {trace.launch_id: _find(trace, processes, marks) for trace in known_traces}


def _find(trace: Trace, processes: Dict[int, Process], marks: Dict[int, str]) -> Tree:
    belongs = _is_proven if trace.strict else _belongs
    roots = {process.pid: process for process in processes.values() if belongs(process, trace, marks, processes)}
    cgroups, may_be = trace.cgroups, []
    if trace.strict:
        cgroups |= _own_cgroups(roots.values())
        may_be = [process for process in processes.values() if _may_belong(process, trace, marks, processes)]
        alike = (process for process in may_be if cgroups and real_uid(process.pid) == trace.uid)
        roots.update((process.pid, process) for process in alike if _cgroup(process.pid) in cgroups)
    elif trace.home:
        may_be = [process for process in processes.values() if _has_left(process, trace, marks)]
    below = (process for process in descendants(roots, processes) if process.pid not in roots)
    others = (process for process in below if marks[process.pid] in ("", trace.launch_id))
    members = [*(process for process in roots.values() if process.state not in "ZX"), *others]
    proven = {process.pid for process in members}
    return Tree(members, [process for process in may_be if process.pid not in proven], cgroups)


def carried(uid: int) -> Dict[str, List[int]]:
    """The pids of this account's living processes by the launch id that they carry."""
    found: Dict[str, List[int]] = {}
    for process in everyone().values():
        mark = _mark(process)
        if mark and real_uid(process.pid) == uid:
            found.setdefault(mark, []).append(process.pid)
    return found


def strays(known: Set[int], uids: Dict[str, Optional[int]]) -> List[Process]:
    """Living children of this process besides `known` and its own forks, and that carry no mark that is believed: what
    fell to it when a shim died, or a parent in a tree without one. `uids`: whose processes are believed, by the launch
    id that they carry; one that has become another account's since is known by having fallen to us alone."""
    myself, own = os.getpid(), command_line(os.getpid())
    children = (process for process in everyone().values() if process.parent == myself and process.pid not in known)
    living = (process for process in children if process.state not in "ZX")
    return [process for process in living if command_line(process.pid) != own and not _credible_mark(process, uids)]


def shim_above(process: Process) -> Optional[Process]:
    """The shim of this command, if it lives: an agent's fork that leads a session of its own."""
    above = look(process.parent)
    is_fork = above is not None and above.session == above.pid and b"\0--state\0" in command_line(above.pid)
    return above if is_fork else None


def may_signal(process: Process) -> bool:
    """Whether this process may signal it; also of one that is gone, of which nothing is in the way."""
    try:
        os.kill(process.pid, 0)
    except PermissionError:
        return False
    except OSError:
        return True
    return True


def is_our_users(process: Process, *, is_owners: bool = False) -> bool:
    """Whether we may signal it; not so where it is another account's. Root may signal all: its are those of root's, and
    those of which it `is_owners` word that they run as others, or over which its shim still stands."""
    try:
        os.kill(process.pid, 0)
    except OSError:
        return False
    return os.geteuid() != 0 or is_owners or _is_roots(process) or _is_roots(shim_above(process))


def _is_roots(process: Optional[Process]) -> bool:
    try:
        return process is not None and os.stat(f"/proc/{process.pid}").st_uid == 0
    except OSError:
        return False


def _belongs(process: Process, trace: Trace, marks: Dict[int, str], processes: Dict[int, Process]) -> bool:
    mark = marks[process.pid]
    if mark:
        return mark == trace.launch_id
    return (process.pid, process.start) in trace.members or _is_of_session(process, trace, processes)


def _is_proven(process: Process, trace: Trace, _marks: Dict[int, str], processes: Dict[int, Process]) -> bool:
    if (process.pid, process.start) in trace.members:
        return True
    return _is_of_session(process, trace, processes) and real_uid(process.pid) == trace.uid


def _is_of_session(process: Process, trace: Trace, processes: Dict[int, Process]) -> bool:
    if not trace.pid or trace.start is None:
        return False
    if process.pid == trace.pid:
        return process.start == trace.start
    return _is_its_number(trace, processes) and process.session == trace.pid and process.start >= trace.start


def _is_its_number(trace: Trace, processes: Dict[int, Process]) -> bool:
    """It may have become that of another session or group; it is that one's leader who shows it."""
    leader = processes.get(trace.pid or 0)
    return leader is None or leader.start == trace.start


def _may_belong(process: Process, trace: Trace, marks: Dict[int, str], processes: Dict[int, Process]) -> bool:
    is_old = trace.start is not None and process.start < trace.start
    if is_old or process.state in "ZX":
        return False
    # Only who descends from its leader is of a session: it may have become another account's, as by sudo.
    if _is_of_session(process, trace, processes):
        return True
    is_of_group = trace.pid is not None and process.group == trace.pid and _is_its_number(trace, processes)
    is_alike = marks[process.pid] == trace.launch_id or is_of_group
    return is_alike and real_uid(process.pid) == trace.uid


def _has_left(process: Process, trace: Trace, marks: Dict[int, str]) -> bool:
    """May it be of an attempt whose session and tree it left when it became another account's? A process that
    only claims so is not in the attempt's control groups."""
    if marks[process.pid] or process.state in "ZX" or (trace.start is not None and process.start < trace.start):
        return False
    return _mark(process) == trace.launch_id and group_apart(process.pid) == trace.home


def group_apart(pid: int) -> str:
    """The control group of the service, or of the log-in, that a process is of, as systemd makes them; what leaves its
    session stays there. "" where there is none, or the first process of the machine is in it, as in a container."""
    apart = set(_cgroup(pid).split(b"\n")) - set(_cgroup(1).split(b"\n"))
    units = (line for line in apart if line.startswith(b"0::") or b":name=systemd:" in line)
    found = os.fsdecode(b"\n".join(sorted(line for line in units if line.endswith((b".service", b".scope")))))
    return found if len(found) <= MOST_OF_GROUPS else ""


def _own_cgroups(processes: Iterable[Process]) -> FrozenSet[bytes]:
    """The control groups of processes that are not ours as well: by a group that others share nothing is known."""
    return frozenset(_cgroup(process.pid) for process in processes) - {_cgroup(os.getpid()), b""}


def send(processes: Iterable[Process], number: int) -> None:
    """Signal these very processes; those that are gone are passed over, and so are those we may not signal."""
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):  # what we may not signal goes on being waited for
            _send(process, number)


def stands(process: Process) -> bool:
    """Does it do nothing before somebody continues it? So does one that waits for a disk or a driver, where nothing
    reaches it, and is to stop before it does anything else."""
    is_to_stop = process.state == "D" and _has_signal(process.pid, signal.SIGSTOP, (b"SigPnd:", b"ShdPnd:"))
    return process.state in "Tt" or is_to_stop


def heeds(process: Process, number: int) -> bool:
    """Has it a handler for this signal, or does it block it, so that it would not just die of it?"""
    return _has_signal(process.pid, number, (b"SigCgt:", b"SigBlk:"))


def terminate(processes: Iterable[Process]) -> None:
    """TERM, and CONT for those that are stopped and could not hear it."""
    members = list(processes)
    send(members, signal.SIGTERM)
    send(members, signal.SIGCONT)


def _send(process: Process, number: int) -> None:
    opener = getattr(os, "pidfd_open", None)
    if opener is None:
        if _is_same(process):
            os.kill(process.pid, number)
        return
    fd = opener(process.pid)
    try:
        if _is_same(process):
            sender = getattr(signal, "pidfd_send_signal")  # noqa: B009  (Python 3.8 has none)
            sender(fd, number)
    finally:
        os.close(fd)


def _is_same(process: Process) -> bool:
    found = look(process.pid)
    return found is not None and found.start == process.start


def _mark(process: Process) -> str:
    """The launch id in its environment, "" where there is none."""
    environ = b"" if process.state in "ZX" else _environ(process.pid)
    _, is_there, rest = environ.partition(b"\0%s=" % MARK.encode())
    return os.fsdecode(rest.partition(b"\0")[0]) if is_there else ""


def _credible_mark(process: Process, uids: Dict[str, Optional[int]]) -> str:
    """The same, unless somebody else poses as part of an attempt; `uids`: whose attempts are, where that is known."""
    mark = _mark(process)
    uid = uids.get(mark)
    return mark if uid is None or real_uid(process.pid) in (uid, None) else ""


def _has_signal(pid: int, number: int, sets: Tuple[bytes, ...]) -> bool:
    """Whether it is in one of these sets of the process."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            masks = [int(line.split()[1], 16) for line in file if line.startswith(sets)]
    except OSError:
        return False
    return any(mask >> (number - 1) & 1 for mask in masks)


def real_uid(pid: int) -> Optional[int]:
    """Return the uid of a process; its folder in /proc belongs to root if the program protects itself from tracing."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"Uid:"):
                    return int(line.split()[1])
    except OSError:
        return None
    return None


def command_line(pid: int) -> bytes:
    """Its words, each with a zero byte behind it; nothing where it is gone."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _cgroup(pid: int) -> bytes:
    """Its control groups, as the kernel tells them; nothing where that cannot be read."""
    try:
        with open(f"/proc/{pid}/cgroup", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _environ(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return b"\0" + file.read()
    except OSError:
        return b""  # gone, or not ours to read
