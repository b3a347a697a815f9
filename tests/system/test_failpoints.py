"""One exact crash each: at every step of submit, launch, start and exit, in the master, the agent and the shim."""

from __future__ import annotations

from pathlib import Path

import pytest

from master.durable import failpoint
from tests.runner.verdict import nothing_found
from tests.system import books
from tests.system.chaos import AGENT_FAILPOINTS, SHIM_KILLS, Gate, Submitter, let_share
from tests.system.conftest import LabMaker
from tests.system.failpoints import IN_EACH_RUN, some
from tests.system.lab import Lab
from tests.system.oracle import Job, Oracle
from tests.waiting import until

SHAPES = ((1, 0, 0), (0, 3, 0), (8, 0, 0), (1, 0, 3), (2, 137, 0), (1, 2, 3), (0, 0, 0), (1, 0, 1), (3, 1, 0))
"""GPUs and exit code of each job, and how many of the oracle's UNITS it shares of a GPU (0: it has it alone)."""


@pytest.fixture
def lab(make_system_lab: LabMaker) -> Lab:
    """One lab with one node whose GPUs can be shared, not started yet."""
    lab = make_system_lab(nodes=1)
    let_share(lab)
    return lab


def start_clients(lab: Lab, oracle: Oracle, *, share: bool = True) -> tuple[list[Job], list[Submitter]]:
    """Two clients that submit a handful of jobs while the fault is there. `share`: the lab's GPUs can be shared."""
    shapes = [shape for shape in SHAPES if share or not shape[2]]
    jobs = [Job(number, gpus, code, 0.02, units=units) for number, (gpus, code, units) in enumerate(shapes)]
    gate = Gate(0)
    gate.end()
    timed = [(0, job) for job in jobs]
    clients = [Submitter(lab, oracle, timed[one::2], gate, f"half {one}") for one in range(2)]
    for client in clients:
        client.start()
    return jobs, clients


def finish(lab: Lab, oracle: Oracle, jobs: list[Job], clients: list[Submitter], *, lost: int = 0) -> None:
    """Wait for the end of all, and read the books."""
    for client in clients:
        client.join(60)
        assert client.problems == []
        assert not client.is_alive()
    with lab.client() as asking:
        until("every task has ended", lambda: not asking.tasks(active=True))
    nothing_found(books.audit_running(lab, oracle, jobs, lost=lost))


TRAFFIC = [f"{name}{count}" for name in failpoint.TRAFFIC for count in ("", ":2")]
COMPACTION = [*failpoint.COMPACTION, "compaction.renamed:3", "compaction.done:2"]
AGENT = sorted(set(AGENT_FAILPOINTS) - SHIM_KILLS)
ALL = {*TRAFFIC, *failpoint.START, *COMPACTION, *AGENT_FAILPOINTS}


@pytest.mark.parametrize("case", some(TRAFFIC))
def test_a_master_that_dies_here_comes_back_and_every_task_runs_once(lab: Lab, oracle: Oracle, case: str) -> None:
    lab.start(case)
    jobs, clients = start_clients(lab, oracle)
    lab.await_failpoint()
    lab.start()
    finish(lab, oracle, jobs, clients)


@pytest.mark.parametrize("name", some(failpoint.START))
def test_a_master_that_dies_while_it_starts_starts_the_next_time(lab: Lab, oracle: Oracle, name: str) -> None:
    lab.start()
    jobs, clients = start_clients(lab, oracle)
    until("something is in the journal", lambda: any(job.id for job in jobs))
    lab.kill_master()
    if name == "start.torn_kept":
        with (lab.task_info / "journal.jsonl").open("ab") as journal:
            journal.write(b"0123abcd 9999 9998 {")
    lab.start(name)
    lab.await_failpoint()
    lab.start()
    finish(lab, oracle, jobs, clients)


@pytest.mark.parametrize("case", some(COMPACTION))
def test_a_master_that_dies_while_it_compacts_has_every_task_once(lab: Lab, oracle: Oracle, case: str) -> None:
    if case == "compaction.archived":
        lab.write_conf(scheduler={"grace_s": 2.0, "keep_history": 0})
    lab.start(case)
    jobs, clients = start_clients(lab, oracle)
    lab.await_failpoint()
    lab.write_conf(scheduler={"grace_s": 2.0})
    lab.start()
    finish(lab, oracle, jobs, clients)


@pytest.mark.parametrize("name", some(AGENT))
def test_an_agent_that_dies_here_comes_back_and_every_task_runs_once(lab: Lab, oracle: Oracle, name: str) -> None:
    lab.start()
    armed = lab.arm_agent("node0", name)
    jobs, clients = start_clients(lab, oracle)
    until("the failpoint is reached", lambda: not armed.exists())
    finish(lab, oracle, jobs, clients)


@pytest.mark.parametrize("name", some(sorted(SHIM_KILLS)))
def test_a_shim_that_dies_here_costs_at_most_the_knowledge_of_one_exit(lab: Lab, oracle: Oracle, name: str) -> None:
    lab.start()
    armed = lab.arm_agent("node0", name)
    jobs, clients = start_clients(lab, oracle)
    until("the failpoint is reached", lambda: not armed.exists())
    finish(lab, oracle, jobs, clients, lost=1)
    with lab.client() as asking:
        lost = [task for task in asking.tasks(active=False, ended=True) if task["state"] == "lost"]
    assert len(lost) == (0 if name == "shim.after_exit_record" else 1)
    assert all("unknown" in (task["reason"] or "") for task in lost)


def test_every_failpoint_of_the_agent_is_tried_here() -> None:
    sources = Path(books.__file__).parents[2] / "monitor" / "agent"
    text = "".join(path.read_text(encoding="utf-8") for path in sources.rglob("*.py"))
    named = {part.split('"')[1] for part in text.split("reach(self._folder, ")[1:]}
    assert named == set(AGENT_FAILPOINTS)


def test_each_run_tries_a_third_of_the_cases_and_some_for_each_promise() -> None:
    chosen = [case for cases in IN_EACH_RUN.values() for case in cases]
    assert set(chosen) <= ALL
    assert len(chosen) == len(set(chosen))
    assert len(ALL) / 3.2 < len(chosen) < len(ALL) / 2.8
    assert all(IN_EACH_RUN.values())
