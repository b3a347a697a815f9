"""A lab that runs under a version before goes on under this one: what runs there is adopted with its shims, what ended
meanwhile is known with its exit code, what waits starts once, and the agents are followed by this version's."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import landed
from tests.soak import one_in
from tests.system.conftest import LabMaker
from tests.system.lab import ROOT, Lab
from tests.system.oracle import Oracle
from tests.system.test_failpoints import finish, start_clients
from tests.waiting import until

if TYPE_CHECKING:
    from client.shapes import Node, Task

GPUS = 4
LONG_S = 300.0
CRASHES = (
    "launch.before_sync",
    "launch.after_sync",
    "launch.after_send",
    "started.received",
    "exit.received",
    "exit.after_sync",
    "compaction.renamed:2",
    "compaction.journal_renamed",
)
"""Where the master of before dies, as its own module of failpoints names them."""


class OldLab:
    """A lab under the code of a version before, and its tasks by the names that this test gives them.

    `starts` are the lines that tasks write when they begin: their id, launch id and pid.
    """

    def __init__(self, lab: Lab, code: Path, stack: ExitStack) -> None:
        self.lab = lab
        self.code = lab.code = code
        self.ids: dict[str, int] = {}
        self._stack = stack
        self.told = lab.folder / "starts"

    def work(self, awaits: str, code: int) -> str:
        """A command that says that it began, waits for a file and ends with a code."""
        return f"{self._say}; until [ -e {self.lab.folder / awaits} ]; do sleep 0.2; done; exit {code}"

    def stubborn(self) -> str:
        """A command that only KILL ends."""
        return f"trap '' TERM; {self.work('never', 0)}"

    def quick(self, code: int) -> str:
        """A command that says that it began, and ends."""
        return f"{self._say}; exit {code}"

    @property
    def _say(self) -> str:
        return f'echo "$MUSTER_TASK_ID $MUSTER_LAUNCH_ID $$" >> {self.told}'

    def let_go(self, what: str) -> None:
        """Make the file that tasks wait for."""
        (self.lab.folder / what).touch()

    def ask(self, *calls: tuple[str, list[Any], dict[str, Any]]) -> list[Any]:
        """Ask the old master through its own client."""
        return landed.ask(self.code, self.lab.conf, *calls)

    def submit(self, **tasks: tuple[str, dict[str, Any]]) -> None:
        """Queue tasks under these names, through the old client."""
        calls = [("submit", [command], {"name": name, **keys}) for name, (command, keys) in tasks.items()]
        self.ids.update(zip(tasks, self.ask(*calls), strict=True))

    def tasks(self) -> dict[str, Task]:
        """All tasks as the master of this moment tells them."""
        with self.lab.client() as client:
            return {task["name"]: task for task in client.tasks(active=True, ended=True)}

    def states(self, *names: str) -> list[tuple[str, int | None]]:
        """The state and exit code of these tasks."""
        tasks = self.tasks()
        return [(tasks[name]["state"], tasks[name]["exit_code"]) for name in names]

    def await_states(self, **states: tuple[str, int | None]) -> None:
        """Wait until these tasks are so."""
        wanted = list(states.values())
        until(f"{states}", lambda: self.states(*states) == wanted, seen=lambda: self.states(*states))

    def node(self, name: str) -> Node:
        """A node as the master of this moment tells it."""
        with self.lab.client() as client:
            return next(node for node in client.nodes() if node["name"] == name)

    def starts(self) -> dict[str, list[tuple[str, int]]]:
        """The launch ids and pids under which each task began."""
        lines = self.told.read_text(encoding="ascii").splitlines() if self.told.exists() else []
        found: dict[str, list[tuple[str, int]]] = {name: [] for name in self.ids}
        names = {number: name for name, number in self.ids.items()}
        for number, launch_id, pid in map(str.split, lines):
            found[names[int(number)]].append((launch_id, int(pid)))
        return found

    def alive(self, *names: str) -> dict[str, tuple[str, int]]:
        """The launch id and the pid of those of these tasks whose command lives."""
        pids = {process.pid: process.launch_id for process in self.lab.attempts_alive()}
        first = {name: self.starts()[name][0] for name in names if self.starts()[name]}
        return {name: (launch_id, pid) for name, (launch_id, pid) in first.items() if pids.get(pid) == launch_id}

    def freeze(self, node: str) -> int:
        """Stop a node's agent as a hanging machine would, until `thaw`; its pid."""
        pid = self.lab.agent_pid(node)
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        self._stack.callback(thaw, pid)
        return pid


def thaw(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """What is undone before the lab is ended: no agent stays frozen."""
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize(("version", "end"), [("before", "killed"), ("earlier", "asked")])
def test_a_live_lab_moves_over(
    make_system_lab: LabMaker, stack: ExitStack, tmp_path: Path, version: str, end: str
) -> None:
    old = OldLab(make_system_lab(nodes=4, gpus=GPUS), landed.unpack(version, tmp_path / "code"), stack)
    lab = old.lab
    lab.write_conf(scheduler={"grace_s": LONG_S})
    lab.start()
    until("all nodes are online", lambda: all(old.node(name)["state"] == "online" for name in lab.nodes))
    versions = {old.node(name)["agent_version"] for name in lab.nodes}
    frozen = fill(old)
    running = old.alive("long", "stubborn", "away", "leaving")
    assert len(running) == 4
    if end == "killed":
        lab.kill_master()
    else:
        lab.stop_master()
    old.let_go("meanwhile")
    until("some end while there is no master", lambda: not old.alive("short", "away_short"))

    lab.code = ROOT
    lab.write_conf(scheduler={"grace_s": 0.5})
    lab.start()
    old.await_states(short=("failed", 6), stubborn=("cancelled", 137), cancelled=("cancelled", None))
    assert old.states("good", "bad", "late") == [("succeeded", 0), ("failed", 3), ("timed_out", 143)]
    assert old.states("long", "away", "leaving") == [("running", None)] * 3
    assert old.states("away_short", "between") == [("running", None), ("starting", None)]
    assert old.states("behind", "held", "after") == [("waiting", None), ("held", None), ("waiting", None)]
    for pid in frozen:
        thaw(pid)
    with lab.client() as client:
        client.release(old.ids["held"])
    old.await_states(away_short=("failed", 7), between=("running", None), away=("running", None))
    del running["stubborn"]
    assert old.alive(*running) == running
    assert {old.node(name)["agent_version"] for name in lab.nodes[:3]}.isdisjoint(versions)

    old.let_go("go")
    old.await_states(
        long=("failed", 5), away=("failed", 8), leaving=("failed", 9), between=("failed", 4), behind=("succeeded", 0)
    )
    old.await_states(held=("succeeded", 0), after=("failed", 2), pointless=("cancelled", None))
    never_began = {"cancelled", "pointless"}
    assert {name: len(lines) for name, lines in old.starts().items()} == {
        name: 0 if name in never_began else 1 for name in old.ids
    }
    assert {task["name"]: task["attempt"] for task in old.tasks().values() if task["attempt"] != 1} == dict.fromkeys(
        never_began, 0
    )
    assert [gpu["held_by"] for name in lab.nodes[:3] for gpu in old.node(name)["gpus"]] == [[]] * 3 * GPUS
    until("nothing is left of it", lambda: not lab.attempts_alive() and not lab.strays())


@pytest.mark.parametrize("point", one_in(3, CRASHES))
def test_a_master_of_before_that_died_here_is_followed_and_every_task_runs_once(
    lab: Lab, oracle: Oracle, tmp_path: Path, point: str
) -> None:
    lab.code = landed.unpack("before", tmp_path / "code")
    lab.start(point)
    jobs, clients = start_clients(lab, oracle, share=False)  # which that version does not know
    lab.await_failpoint()
    lab.code = ROOT
    lab.start()
    finish(lab, oracle, jobs, clients)


def fill(old: OldLab) -> list[int]:
    """Bring tasks into every state there is; the agents that are frozen now: of the node that the master knows to be
    unreachable, and of the one that was just sent a launch."""
    on = [{"node": name, "gpus": 1} for name in old.lab.nodes]
    old.submit(
        good=(old.quick(0), {}),
        bad=(old.quick(3), {}),
        late=(old.work("never", 0), {"time_limit_s": 0.5}),
        long=(old.work("go", 5), {**on[0], "gpus": 2}),
        short=(old.work("meanwhile", 6), on[0]),
        stubborn=(old.stubborn(), on[0]),
        away_short=(old.work("meanwhile", 7), on[2]),
        away=(old.work("go", 8), on[2]),
        leaving=(old.work("go", 9), on[3]),
        held=(old.quick(0), {"hold": True, "node": old.lab.nodes[0]}),
    )
    names = ("long", "short", "stubborn", "away_short", "away", "leaving")
    until("they run", lambda: len(old.alive(*names)) == len(names))
    old.await_states(
        good=("succeeded", 0),
        bad=("failed", 3),
        late=("timed_out", 143),
        **dict.fromkeys(names, ("running", None)),
    )
    frozen = [old.freeze(old.lab.nodes[2])]
    long, first = old.ids["long"], old.lab.nodes[0]
    old.submit(
        behind=(old.quick(0), {"node": first, "gpus": GPUS}),
        after=(old.quick(2), {"node": first, "after": [{"id": long, "on": "fail"}]}),
        pointless=(old.quick(0), {"after": [{"id": long, "on": "ok"}]}),
        cancelled=(old.quick(0), {"node": first, "gpus": GPUS}),
    )
    old.ask(("cancel", [[old.ids["cancelled"], old.ids["stubborn"]]], {}), ("remove_node", [old.lab.nodes[3]], {}))
    until("it is away", lambda: old.node(old.lab.nodes[2])["state"] == "unreachable")
    frozen.append(old.freeze(old.lab.nodes[1]))
    old.submit(between=(old.work("go", 4), on[1]))
    old.await_states(between=("starting", None), stubborn=("running", None))
    return frozen
