"""What really happened, told by the tasks themselves, past everything that Muster believes.

Each attempt takes a kernel lock for its task and for each of its GPUs without waiting, and holds them until the last
process of its tree is gone; a second holder is a conflict. It appends its start and its end to a file. What it
leaves behind lives for seconds only, so that it also ends where its shim was killed and nobody else would end it.
Written in bash with `flock`: an oracle has to cost little, or it would be what is measured.
"""

from __future__ import annotations

import random
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_SCRIPT = """\
# . oracle.sh CODE NAP [leftover]: hold what this attempt was given, for NAP seconds or until there is a file NAP, then
# end with CODE.
muster_conflict() { echo "$MUSTER_LAUNCH_ID $1 on $MUSTER_NODE" >>"$muster_disk/conflicts"; exit 99; }
exec {muster_fd}>"$muster_here/locks/task-$MUSTER_TASK_ID"
flock -n "$muster_fd" || muster_conflict "task $MUSTER_TASK_ID"
for muster_gpu in ${CUDA_VISIBLE_DEVICES//,/ }; do
    exec {muster_fd}>"$muster_disk/locks/$MUSTER_NODE-gpu$muster_gpu"
    flock -n "$muster_fd" || muster_conflict "gpu $muster_gpu"
done
echo "start $MUSTER_LAUNCH_ID $MUSTER_TASK_ID $MUSTER_NODE $$ $EPOCHREALTIME $CUDA_VISIBLE_DEVICES" \\
    >>"$muster_disk/oracle"
if [ "$3" = leftover ]; then setsid sleep 8 & fi
case "$2" in
    /*) until [ -e "$2" ]; do sleep 0.02; done ;;
    *) sleep "$2" ;;
esac
echo "end $MUSTER_LAUNCH_ID $1 $EPOCHREALTIME" >>"$muster_disk/oracle"
if [ "$1" = 137 ]; then kill -KILL $$; fi
exit "$1"
"""
FOREVER_S = 300


@dataclass
class Job:
    """One task as the clients know it. It naps for `nap_s` seconds, or until there is a file `awaits`. `doomed`: it
    would sleep for ever and is cancelled. `id`: what was answered."""

    number: int
    gpus: int
    code: int
    nap_s: float
    leftover: bool = False
    doomed: bool = False
    id: int = 0
    awaits: Path | None = None

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
        jobs.append(job)
    return jobs


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
        self.script.write_text(here + _SCRIPT, encoding="utf-8")

    def command(self, job: Job) -> str:
        """The bash line that makes a task of this job."""
        nap = str(job.awaits or job.nap_s)
        words = [".", str(self.script), str(job.code), nap, *(["leftover"] if job.leftover else [])]
        return shlex.join(words)

    def starts(self) -> Counter[str]:
        """How often each launch id was started."""
        return Counter(words[1] for words in self._lines("oracle") if words[0] == "start")

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
