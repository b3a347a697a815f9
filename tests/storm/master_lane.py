"""The lives of the master, one after the other, each with the end that the plan has for it.

A life begins with a start, armed if its end is a failpoint. What is damaged is damaged between two lives; then a start
has to be refused, the way out is followed, and the life goes on from there.
"""

from __future__ import annotations

import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from master.durable.failpoint import TRAFFIC
from tests.storm import damage
from tests.storm.ground import GPUS, Ground, registry_garbage
from tests.storm.line import Line
from tests.storm.pace import Going
from tests.storm.plan import REFUSED, Strike
from tests.storm.watchers import FilesWatcher, wait_until
from tests.system.lab import rewrite

REACHED_S = 60.0
HURRY_S = 0.7
STARTED_S = 60.0
FULL_DISK_S = 60.0
"""A start may be refused for so long while the queue's disk is full."""
SYNC_FAILED = 74
"""The status of a master whose sync failed (EX_IOERR)."""
INJECT = ("-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=1")


class MasterLane:
    """Ends and starts the master. `done`: strikes by kind; `reached`: of each failpoint how often; `recovery_s`: from a
    start to the first answer."""

    def __init__(self, place: Ground, going: Going, files: FilesWatcher) -> None:
        self.done: Counter[str] = Counter()
        self.reached: Counter[str] = Counter()
        self.problems: list[str] = []
        self.recovery_s: list[float] = []
        self.starts = 0
        self.refused_starts = 0
        self.out = place.lab.folder / "master.out"
        self._said_before = 0
        self.disk_is_mine = threading.Lock()
        """Held while files are damaged and put back: nobody fills the disk meanwhile."""
        self._place = place
        self._lab = place.lab
        self._going = going
        self._feed = going.feed
        self._files = files
        self._chance = random.Random(f"{going.seed}.master")

    def rage(self, lives: tuple[Strike, ...], share: float) -> None:
        """All lives. `share`: how many jobs come with each phase."""
        for phase, strike in enumerate(lives):
            self._going.say(f"{phase + 1}/{len(lives)} {strike}")
            self._going.pace.reach(phase)
            self._feed.let(int(share * (phase + 1)))
            before = len(self.problems)
            self._live(strike)
            self._going.last.over()
            self.done[strike.kind] += 1
            for problem in self.problems[before:]:
                self._going.say(f"PROBLEM: {problem}")

    def start(self) -> bool:
        """Start a master that is to stay; whether it answers."""
        began = time.monotonic()
        while True:
            self._launch()
            said = self._await_answer()
            if said is None:
                self.recovery_s.append(time.monotonic() - began)
                return True
            if not self._excused(began):
                self.problems.append(f"the master did not start: {said}")
                return False

    def _excused(self, began: float) -> bool:
        """Is the queue's disk full, or was it a moment ago? Then another try is due."""
        excused = self._place.disk.is_full or (time.monotonic() - began < FULL_DISK_S and self._said_full())
        if excused:
            self.refused_starts += 1
            time.sleep(0.2)
        return excused

    def _said_full(self) -> bool:
        return "No space left" in self._last_words()

    def _launch(self, failpoint: str = "") -> None:
        self._said_before = self.out.stat().st_size if self.out.exists() else 0
        self._lab.master = self._lab.launch_master(failpoint)
        self.starts += 1

    def _await_answer(self) -> str | None:
        """None when the master answers; else what it said instead."""
        master = self._lab.master
        if master is None:
            return "there is none"

        def came() -> bool:
            if master.poll() is not None:
                return True
            with Line(self._lab.ports["data_port"], timeout=5.0) as line:
                return bool(line.call("server.info")["pid"] == master.pid)

        problem = wait_until("an answer", came, STARTED_S)
        if problem is not None:
            self._lab.kill_master()
        elif master.poll() is not None:
            self._lab.master = None
            problem = f"it ended with {master.returncode}: {self._last_words()}"
        return problem

    def _last_words(self) -> str:
        """What the master said that was started last; those before it wrote into the same file."""
        return self.out.read_bytes()[self._said_before :].decode("utf-8", "replace").strip()[-2000:]

    # -- ends -------------------------------------------------------------------------------------------------

    def _live(self, strike: Strike) -> None:
        if strike.kind == "failpoint":
            self._until_failpoint(strike.what)
        elif strike.kind == "damage":
            self._damaged(strike.what)
        elif self.start():
            if strike.kind == "failing sync":
                self._fail_a_sync()
            else:
                time.sleep(strike.seconds)
            self._kill()

    def _kill(self) -> None:
        master = self._lab.master
        if master is not None and master.poll() is not None:
            self.problems.append(f"the master ended by itself with {master.returncode}: {self._last_words()}")
        self._lab.kill_master()

    def _until_failpoint(self, what: str) -> None:
        name = what.partition(":")[0]
        if name == "start.torn_kept":
            with self.disk_is_mine:
                damage.strike(self._lab.task_info, "torn tail", self._chance)
        began = time.monotonic()
        while True:
            self._launch(what)
            code = self._await_end(name)
            if code == -signal.SIGKILL:
                self.reached[name] += 1
                return
            if code is None:
                self.problems.append(f"nothing came by {what} within {REACHED_S:.0f} s")
                self._lab.kill_master()
                return
            if not self._excused(began):
                self.problems.append(f"armed with {what} the master ended with {code}: {self._last_words()}")
                return

    def _await_end(self, name: str) -> int | None:
        """The status that an armed master ended with; None when it does not end."""
        master = self._lab.master
        deadline = time.monotonic() + REACHED_S
        while master is not None and time.monotonic() < deadline:
            with suppress(subprocess.TimeoutExpired):
                code = master.wait(HURRY_S)
                self._lab.master = None
                return code
            if self._feed.idle or name not in TRAFFIC:
                self._push_for(name)
        return None

    def _push_for(self, failpoint: str) -> None:
        """Something that comes by there. What starts in the commit that it was submitted in is no submit to the
        failpoints: of several that want all GPUs of one node, all but the first have to wait."""
        if not failpoint.startswith("submit."):
            self._feed.push()
            return
        node = self._chance.choice(self._lab.nodes)
        for _ in range(3):
            self._feed.push(node, gpus=GPUS)

    def _fail_a_sync(self) -> None:
        """From now on the disk has an error for the next sync. The process has to end."""
        master = self._lab.master
        if master is None:
            return
        words = ["strace", "-f", "-qq", "-o", "/dev/null", *INJECT, "-p", str(master.pid)]
        with subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as strace:
            self._feed.push()
            code = None
            deadline = time.monotonic() + REACHED_S
            while code is None and time.monotonic() < deadline:
                with suppress(subprocess.TimeoutExpired):
                    code = master.wait(HURRY_S)
                if code is None:
                    self._feed.push()
            strace.terminate()
            told = strace.communicate()[1].decode(errors="replace")
        if code == SYNC_FAILED:
            self._lab.master = None
        else:
            self.problems.append(
                f"a sync failed and the master did not end with {SYNC_FAILED} but {code} ({told.strip()})"
            )

    # -- damage -----------------------------------------------------------------------------------------------

    def _damaged(self, what: str) -> None:
        if what == "registry garbage":
            if self.start():
                self._spoil_registry()
                self._kill()
            return
        with self.disk_is_mine, self._files.paused:
            started = self._damage_and_follow(what)
        if started:
            self._await_work()
            self._kill()

    def _damage_and_follow(self, what: str) -> bool:
        folder, backup = self._lab.task_info, self._lab.folder / "backup"
        damage.keep_copy(folder, backup)
        kinds = [what, *(kind for kind in ("record flipped", "journal gone", "torn tail") if kind != what)]
        for kind in kinds:
            with suppress(damage.DamageError):
                name = damage.strike(folder, kind, self._chance)
                break
        if kind in damage.CUT_OFF:
            return self.start() and self._is_told_until_seen(kind)
        self._launch()
        said = self._await_answer()
        if said is None:
            self.problems.append(f"{kind}: the master started over it and said nothing ({name})")
            self._lab.kill_master()
        elif name not in said or "backup" not in said:
            self.problems.append(f"{kind}: the refusal does not name {name} with a way out: {said}")
        else:
            self.reached[f"{REFUSED}{kind}"] += 1
        damage.put_back(folder, backup)
        return self.start()

    def _is_told_until_seen(self, kind: str) -> bool:
        """What was cut off is told to whoever looks, until somebody says that he has seen it."""
        if self._comes(f"{kind}: the cut is told", lambda line: "cut off" in str(line.call("server.info")["damage"])):
            if self._comes("somebody has seen it", lambda line: line.call("server.seen") is not None):
                self._comes("it is told no more", lambda line: not line.call("server.info")["damage"])
            self.reached[f"{REFUSED}{kind}"] += 1
        return True

    def _spoil_registry(self) -> None:
        good = self._lab.registry.read_text(encoding="utf-8")
        rewrite(self._lab.registry, registry_garbage(self._chance.random()))
        try:
            if not self._comes("the registry's fault is told", lambda line: line.call("server.info")["registry_fault"]):
                return
            with Line(self._lab.ports["data_port"]) as line:
                served = {node["name"] for node in line.call("node.list")}
            if served != set(self._lab.nodes):
                self.problems.append(f"with a spoiled registry the nodes are {sorted(served)}")
        finally:
            rewrite(self._lab.registry, good)
        if self._comes("the registry is whole again", lambda line: not line.call("server.info")["registry_fault"]):
            self.reached[f"{REFUSED}registry garbage"] += 1

    def _await_work(self) -> None:
        """See the repaired lab take a change before it is killed."""
        self._feed.push()
        self._comes("it answers", lambda line: line.call("server.info"))

    def _comes(self, what: str, asked: Callable[[Line], object]) -> bool:
        def answered() -> object:
            with Line(self._lab.ports["data_port"]) as line:
                return asked(line)

        problem = wait_until(what, answered, STARTED_S)
        if problem is not None:
            self.problems.append(problem)
        return problem is None


def queue_disk_strikes(lane: MasterLane, place: Ground, going: Going, strikes: tuple[tuple[int, Strike], ...]) -> int:
    """Fill the queue's disk, each time for a while, whatever the master does meanwhile; how often."""
    for phase, strike in strikes:
        going.pace.wait(phase)
        with lane.disk_is_mine:
            place.disk.fill()
            time.sleep(strike.seconds)
            place.disk.free()
        going.last.over()
    return len(strikes)
