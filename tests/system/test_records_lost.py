"""Records of attempts are lost while no agent runs: deleted, moved away, emptied, cut off, overwritten. Nothing that
lives is given up or started twice, and a cancel reaches it or says that it does not. What lives is read in /proc."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from client.api import Client
from tests.soak import one_in
from tests.system.lab import Lab
from tests.system.lost_records import FAULTS, Fault
from tests.testbed import processes
from tests.waiting import until


def lives(pid: int) -> bool:
    return processes.state(pid) not in ("", "Z", "X")


def said(path: Path) -> list[int]:
    """The pids that a task wrote there, one for each start."""
    with suppress(FileNotFoundError):
        return [int(word) for word in path.read_text(encoding="ascii").split()]
    return []


def began(path: Path) -> int:
    return until(f"a pid in {path.name}", lambda: said(path))[0]


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])


def kill_and_wait(*pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until("they are dead", lambda: not any(map(lives, pids)))


def lose(lab: Lab, fault: Fault, *shims: int) -> None:
    """Master and agent die, and these shims; then the records are lost; then a master starts."""
    folder = lab.agent_folder("node0")
    agent = lab.agent_pid("node0")
    lab.kill_master()
    kill_and_wait(*(pid for pid in (agent, *shims) if pid is not None))
    fault(folder / "attempts")
    lab.start()


def until_online(client: Client) -> None:
    until("the node is online", lambda: client.node("node0")["state"] == "online")


def nothing_starts(client: Client, started: Path) -> int:
    """A task for all GPUs waits, although the master has planned since; its id."""
    waits = client.submit(f"echo $$ >>{started}", gpus=8)
    until("a reason", lambda: client.why(waits)["details"] or client.why(waits)["reason"])
    assert said(started) == []
    return waits


@pytest.mark.parametrize("fault", one_in(3, FAULTS))
def test_what_lives_is_held_and_cancelled_and_tells_its_exit_code(lab: Lab, tmp_path: Path, fault: Fault) -> None:
    gate = tmp_path / "gate"
    lab.start()
    with lab.client() as client:
        ends = client.submit(f"echo $$ >>{tmp_path}/ends; until [ -e {gate} ]; do sleep 0.05; done; exit 7", gpus=2)
        stays = client.submit(
            ["env", "-i", "/bin/bash", "-c", f"echo $$ >>{tmp_path}/stays; exec /bin/sleep 1000"], gpus=6
        )
        client.wait([ends, stays], 60, until="started")
        pids = [began(tmp_path / "ends"), began(tmp_path / "stays")]
    lose(lab, fault)
    with lab.client() as client:
        until_online(client)
        assert list(map(lives, pids)) == [True, True]
        second = nothing_starts(client, tmp_path / "second")
        gate.touch()
        ended = client.wait([ends], 60)[ends]
        assert (ended["state"], ended["exit_code"]) == ("failed", 7)
        assert said(tmp_path / "second") == []
        client.cancel([stays])
        until("what was cancelled is dead", lambda: not lives(pids[1]))
        assert client.wait([stays, second], 60)[second]["state"] == "succeeded"
        assert client.show(stays)["state"] == "cancelled"
    assert [len(said(tmp_path / name)) for name in ("ends", "stays", "second")] == [1, 1, 1]


@pytest.mark.parametrize("fault", one_in(4, FAULTS))
def test_without_its_shim_it_is_known_by_what_the_master_wrote_down(lab: Lab, tmp_path: Path, fault: Fault) -> None:
    lab.start()
    with lab.client() as client:
        script = f"echo $$ >>{tmp_path}/first; exec /bin/sleep 1000"
        first = client.submit(["env", "-i", "/bin/bash", "-c", script], gpus=8)
        client.wait([first], 60, until="started")
        pid = began(tmp_path / "first")
    lose(lab, fault, parent_of(pid))
    with lab.client() as client:
        until_online(client)
        assert lives(pid)
        second = nothing_starts(client, tmp_path / "second")
        client.cancel(everything=True, states=["running"])
        until("what was cancelled is dead", lambda: not lives(pid))
        assert client.wait([first, second], 60)[second]["state"] == "succeeded"
    assert [len(said(tmp_path / name)) for name in ("first", "second")] == [1, 1]


@pytest.mark.parametrize("fault", one_in(5, FAULTS))
def test_what_cannot_be_proven_to_be_its_own_is_not_signalled_and_holds_its_gpus(
    lab: Lab, tmp_path: Path, fault: Fault
) -> None:
    lab.start()
    with lab.client() as client:
        daemon = f"setsid bash -c 'echo $$ >>{tmp_path}/daemon; exec sleep 1000' & echo $$ >>{tmp_path}/first; wait"
        first = client.submit(daemon, gpus=4)
        client.wait([first], 60, until="started")
        command, left = began(tmp_path / "first"), began(tmp_path / "daemon")
        # All of its session dies with the shim; the daemon has a session of its own.
        session = [command, *(child for child in processes.children(command) if child != left)]
    lose(lab, fault, parent_of(command), *session)
    with lab.client() as client:
        until_online(client)
        until("its master says so", lambda: client.show(first)["warning"])
        second = nothing_starts(client, tmp_path / "second")
        assert client.why(second)["details"] or client.why(second)["reason"]
        assert str(left) in str(client.why(first)["warning"])
        done = client.cancel([first])
        assert (done["signalled"], str(left) in done["refused"][str(first)]) == ([], True), done
        told = lab.muster("cancel", str(first))
        assert told.returncode == 1
        assert "nothing was signalled" in told.stderr + told.stdout
        assert str(left) in lab.muster("queue").stdout
        assert lives(left)
        kill_and_wait(left)
        assert client.wait([first, second], 60)[second]["state"] == "succeeded"
        assert client.show(first)["state"] in ("cancelled", "lost")
    assert [len(said(tmp_path / name)) for name in ("first", "second")] == [1, 1]
