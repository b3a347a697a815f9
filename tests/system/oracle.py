"""What really happened, told by the tasks themselves, past everything that Muster believes.

Each part of an attempt takes a kernel lock for itself and for each of its GPUs without waiting, and holds them until
the last process of its tree is gone; a second holder is a conflict, and so is another attempt of the task that lives,
or began later. Of a GPU that is shared it takes as many of the locks of its UNITS as it asked for of its memory. It
appends its start and its end to a file. What it leaves behind lives for seconds only, so that it also ends where its
shim was killed and nobody else would end it. Written in bash with `flock`: an oracle has to cost little, or it would be
what is measured.
"""

from __future__ import annotations

import random
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_SCRIPT = """\
# . oracle.sh CODE NAP UNITS [leftover]: hold what this attempt was given, for NAP seconds or until there is a file NAP,
# then end with CODE. UNITS: of each GPU, 0 for all of it.
muster_conflict() { echo "$MUSTER_LAUNCH_ID $1 on $MUSTER_NODE" >>"$muster_disk/conflicts"; exit 99; }
muster_task=$muster_here/locks/task-$MUSTER_TASK_ID
exec {muster_fd}>"$muster_task.$MUSTER_ATTEMPT.${NODE_RANK:-0}"
flock -n "$muster_fd" || muster_conflict "task $MUSTER_TASK_ID"
for muster_other in "$muster_task".*; do
    muster_attempt=${muster_other#"$muster_task."}
    muster_attempt=${muster_attempt%.*}
    [ "$muster_attempt" -le "$MUSTER_ATTEMPT" ] || muster_conflict "task $MUSTER_TASK_ID after attempt $muster_attempt"
    [ "$muster_attempt" -eq "$MUSTER_ATTEMPT" ] || flock -n -s "$muster_other" true ||
        muster_conflict "task $MUSTER_TASK_ID beside attempt $muster_attempt"
done
for muster_gpu in ${CUDA_VISIBLE_DEVICES//,/ }; do
    muster_lock=$muster_disk/locks/$MUSTER_NODE-gpu$muster_gpu
    exec {muster_fd}>"$muster_lock"
    if [ "$3" = 0 ]; then
        flock -n "$muster_fd" || muster_conflict "gpu $muster_gpu"
        continue
    fi
    flock -n -s "$muster_fd" || muster_conflict "gpu $muster_gpu, of which others have all,"
    muster_left=$3
    for muster_unit in $muster_units; do
        [ "$muster_left" -gt 0 ] || break
        exec {muster_fd}>"$muster_lock.$muster_unit"
        if flock -n "$muster_fd"; then muster_left=$((muster_left - 1)); else exec {muster_fd}>&-; fi
    done
    [ "$muster_left" = 0 ] || muster_conflict "gpu $muster_gpu, whose memory others have,"
done
echo "start $MUSTER_LAUNCH_ID $MUSTER_TASK_ID $MUSTER_NODE $$ $EPOCHREALTIME $CUDA_VISIBLE_DEVICES" \\
    >>"$muster_disk/oracle"
if [ "$4" = leftover ]; then setsid sleep 8 & fi
case "$2" in
    /*) until [ -e "$2" ]; do sleep 0.1; done ;;
    *) sleep "$2" ;;
esac
echo "end $MUSTER_LAUNCH_ID $1 $EPOCHREALTIME" >>"$muster_disk/oracle"
if [ "$1" = 137 ]; then kill -KILL $$; fi
exit "$1"
"""
FOREVER_S = 300
NARROW, NARROW_GPUS = "narrow", 3
"""A project whose tasks may have no more GPUs than this at a time."""
CAP = 2
"""So many tasks of an array run at once."""
UNITS = 4
"""Of a GPU's memory: shares are counted in these."""
UNIT_MIB = 1000


@dataclass
class Job:
    """One task as the clients know it. It naps for `nap_s` seconds, or until there is a file `awaits`. `doomed`: it
    would sleep for ever and is cancelled. `retries`: so often it is tried again, always with the same end. `nodes`: on
    so many at once; `units`: of each GPU it shares so much, 0: it has them alone. `project`: in which it is filed;
    `paused`: it is to stand still for a moment; `elastic`: it may get more GPUs or fewer while it runs. `array`: with
    how many others it is filed in one array, itself included. `id`: what was answered."""

    number: int
    gpus: int
    code: int
    nap_s: float
    leftover: bool = False
    doomed: bool = False
    id: int = 0
    awaits: Path | None = None
    retries: int = 0
    nodes: int = 1
    units: int = 0
    project: str = ""
    paused: bool = False
    elastic: bool = False
    array: int = 0

    @property
    def state(self) -> str:
        """How it has to end."""
        return "cancelled" if self.doomed else "failed" if self.code else "succeeded"


def make_jobs(count: int, chance: random.Random) -> list[Job]:
    """Jobs of 0 to 8 GPUs: most succeed, some fail, leave a process behind, kill themselves, or are to be cancelled."""
    jobs = []
    for number in range(count):
        code = chance.choice((0, 0, 0, 0, 1, 2, 7, 137))
        gpus = chance.choice((0, 0, 0, 1, 1, 1, 2, 2, 3, 4, 5, 6, 7, 8))
        job = Job(number, gpus, code, round(chance.uniform(0.0, 0.03), 3), leftover=chance.random() < 0.04)
        if chance.random() < 0.03:
            job.doomed, job.nap_s, job.leftover = True, FOREVER_S, False
        job.retries = chance.choice((0, 0, 1)) if code else 0
        _make_special(job, chance.random(), chance)
        jobs.append(job)
    return jobs


def _make_special(job: Job, kind: float, chance: random.Random) -> None:
    """One in three is more than a task of some GPUs: a gang, a share, one of a project with a quota, or of an array; or
    it is stopped for a moment."""
    if kind < 0.08:
        job.nodes, job.gpus = 2, min(job.gpus, 4)
    elif kind < 0.18:
        job.gpus, job.units = chance.choice((1, 1, 2)), chance.choice((1, 2, 3))
    elif kind < 0.26:
        job.project = NARROW
        job.gpus = min(job.gpus, NARROW_GPUS)
    elif kind < 0.30:
        job.array, job.gpus = chance.randint(2, 4), min(job.gpus, 1)
    elif kind < 0.34 and not job.doomed:
        job.paused, job.nap_s = True, 0.3
    elif kind < 0.37 and not job.doomed:
        job.elastic, job.gpus, job.nap_s = True, chance.choice((1, 2)), 1.0
        job.code, job.retries, job.leftover = 0, 0, False


class Oracle:
    """The files of one run. `folder` is seen by all tasks and has the locks of tasks. Where nodes are machines, `disk`
    is a folder on each one's own disk, for its GPUs and what it tells; `disks` is where this machine sees them."""

    def __init__(self, folder: Path, *, disk: str = "", disks: Sequence[Path] = ()) -> None:
        self.folder = folder
        self._disks = disks or (folder,)
        for place in {folder, *self._disks}:
            (place / "locks").mkdir(parents=True)
            for made in (place, place / "locks"):
                made.chmod(0o777)  # the tasks' account need not be ours
        self.script = folder / "oracle.sh"
        here = f"muster_here={shlex.quote(str(folder))} muster_disk={shlex.quote(disk or str(folder))}\n"
        here += f"muster_units={shlex.quote(' '.join(map(str, range(UNITS))))}\n"
        self.script.write_text(here + _SCRIPT, encoding="utf-8")

    def command(self, job: Job) -> str:
        """The bash line that makes a task of this job."""
        nap, units = str(job.awaits or job.nap_s), str(job.units)
        words = [".", str(self.script), str(job.code), nap, units, *(["leftover"] if job.leftover else [])]
        return shlex.join(words)

    @property
    def checkpoints(self) -> str:
        """What an elastic task goes on from: any task's lock, of which there are always newer ones."""
        return str(self.folder / "locks" / "task-*")

    def starts(self) -> Counter[str]:
        """How often each launch id was started."""
        return Counter(words[1] for words in self._lines("oracle") if words[0] == "start")

    def parts(self) -> dict[int, dict[int, list[tuple[str, str]]]]:
        """For each task and each number of an attempt, what was started: launch ids, and the nodes."""
        found: dict[int, dict[int, list[tuple[str, str]]]] = {}
        for words in self._lines("oracle"):
            if words[0] == "start":
                number = int(words[1].split(".")[1])
                found.setdefault(int(words[2]), {}).setdefault(number, []).append((words[1], words[3]))
        return found

    def attempts(self) -> dict[int, set[str]]:
        """The launch ids that were started for each task."""
        found: dict[int, set[str]] = {}
        for words in self._lines("oracle"):
            if words[0] == "start":
                found.setdefault(int(words[2]), set()).add(words[1])
        return found

    def ends(self) -> dict[str, int]:
        """The code that each launch id was about to end with."""
        return {words[1]: int(words[2]) for words in self._lines("oracle") if words[0] == "end"}

    def conflicts(self) -> list[str]:
        """Every lock that was held by somebody else."""
        return [" ".join(words) for words in self._lines("conflicts")]

    def _lines(self, name: str) -> list[list[str]]:
        paths = [disk / name for disk in self._disks]
        return [line.split() for path in paths if path.exists() for line in path.read_text("utf-8").splitlines()]
