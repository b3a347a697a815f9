"""What the tasks of a run write down themselves, past everything that the queue believes.

Each takes a kernel lock for its task and for each of its GPUs without waiting, and holds them until the last process
of its tree is gone: a second holder fails at once and says so. It appends start and end to a file on its machine's own
disk. Bash and `flock` only; nothing here, nor in what reads it back, knows a word of our code.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

DISK = "/var/tmp/witness"  # noqa: S108  (of a host, whose disk is its own)

_SCRIPT = """\
# . witness.sh CODE NAP [leftover]: hold what this attempt was given, for NAP seconds, then end with CODE.
witness_conflict() { echo "$MUSTER_LAUNCH_ID $1 on $MUSTER_NODE" >>"$witness/conflicts"; exit 99; }
if exec {witness_fd}>"$witness_shared/task-$MUSTER_TASK_ID"; then
    flock -n "$witness_fd" || witness_conflict "task $MUSTER_TASK_ID"
else
    echo "unlocked $MUSTER_LAUNCH_ID $MUSTER_TASK_ID" >>"$witness/told"
fi 2>/dev/null
for witness_gpu in ${CUDA_VISIBLE_DEVICES//,/ }; do
    exec {witness_fd}>"$witness/locks/gpu$witness_gpu"
    flock -n "$witness_fd" || witness_conflict "gpu $witness_gpu"
done
echo "start $MUSTER_LAUNCH_ID $MUSTER_TASK_ID $MUSTER_NODE $$ $EPOCHREALTIME $CUDA_VISIBLE_DEVICES" >>"$witness/told"
if [ "$3" = leftover ]; then setsid sleep 8 & fi
sleep "$2"
echo "end $MUSTER_LAUNCH_ID $1 $EPOCHREALTIME" >>"$witness/told"
if [ "$1" = 137 ]; then kill -KILL $$; fi
exit "$1"
"""


@dataclass
class Testimony:
    """All that was told. `starts`: how often each launch id; `launches`: the launch ids of each task; `ends`: the code
    that each was about to end with; `conflicts`: what was held twice; `unlocked`: those that could not take the task's
    lock, for the folder of these locks was gone just then."""

    __test__ = False

    starts: dict[str, int] = field(default_factory=dict)
    launches: dict[int, set[str]] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)
    unlocked: int = 0


class Witness:
    """The witness on every host. `shared`: a folder that all of them and this machine see; `disks`: where this machine
    sees each host's `DISK`."""

    def __init__(self, shared: Path, disks: Sequence[Path]) -> None:
        self._disks = disks
        shared.mkdir()
        shared.chmod(0o777)
        for disk in disks:
            (disk / "locks").mkdir(parents=True)
            for made in (disk, disk / "locks"):
                made.chmod(0o777)  # the tasks' account is not ours
            variables = f"witness={DISK} witness_shared={shlex.quote(str(shared))}\n"
            (disk / "witness.sh").write_text(variables + _SCRIPT, encoding="utf-8")

    @staticmethod
    def command(code: int, nap_s: float, *, leftover: bool) -> str:
        """The bash line of a task."""
        return shlex.join([".", f"{DISK}/witness.sh", str(code), str(nap_s), *(["leftover"] if leftover else [])])

    def testimony(self) -> Testimony:
        """What was told so far."""
        found = Testimony()
        for disk in self._disks:
            for line in _lines(disk / "told"):
                _take(found, line.split(" "))
            found.conflicts += _lines(disk / "conflicts")
        return found


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def _take(found: Testimony, words: list[str]) -> None:
    kind, launch = words[:2]
    if kind == "start":
        found.starts[launch] = found.starts.get(launch, 0) + 1
        found.launches.setdefault(int(words[2]), set()).add(launch)
    elif kind == "end":
        found.ends[launch] = int(words[2])
    elif kind == "unlocked":
        found.unlocked += 1
