"""A shim stands by before its launch is known: nobody sees it, it ends with its agent, and no launch hangs on it."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from tests.agent.small_master import Link, Node, alive, descriptors, known
from tests.waiting import until


def children_of(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except FileNotFoundError:
        return []
    return [int(word) for word in text.split() if alive(int(word))]


def spare_of(node: Node, link: Link) -> int:
    """The shim that stands by: it leads a session, as the sampler does not, and has nothing under it."""

    def find() -> int | None:
        for pid in node.children(link):
            with suppress(ProcessLookupError):  # those of the launch before go just now
                if os.getsid(pid) == pid and not children_of(pid):
                    return pid
        return None

    found: int = until("a spare", find)
    return found


def test_the_next_launch_takes_it_and_another_stands_by(node: Node) -> None:
    link = node.up()
    shim = spare_of(node, link)
    node.launch(link, "t1", "sleep 1000")
    pid = link.wait_for("started", "t1")["pid"]
    assert children_of(shim) == [pid]
    assert node.shim_of("t1") == shim
    until("sampler, shim and another spare", lambda: len(node.children(link)) == 3)


def test_it_ends_with_its_agent_and_leaves_nothing(node: Node) -> None:
    link = node.up()
    shim = spare_of(node, link)
    node.kill_agent(link)
    until("the spare's end", lambda: not alive(shim))
    assert list((node.state / "attempts").iterdir()) == []


def test_there_is_none_without_a_master(node: Node) -> None:
    link = node.up()
    shim = spare_of(node, link)
    link.close()
    until("the spare's end", lambda: not alive(shim))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_if_it_is_killed_the_next_launch_gets_another(node: Node, number: int) -> None:
    link = node.up()
    spare = spare_of(node, link)
    os.kill(spare, number)
    until("the spare's end", lambda: not alive(spare))
    assert node.run(link, "t1", "exit 4")["code"] == 4
    assert node.run(link, "t2", "exit 5")["code"] == 5


def test_a_launch_too_long_for_its_pipe_starts_without_it(node: Node) -> None:
    link = node.up()
    spare_of(node, link)
    long = "x" * 100_000
    end = node.run(link, "t1", "echo ${#A} ${#B}", env={"A": long, "B": long})
    assert end["code"] == 0
    assert node.text("t1").startswith("100000 100000\n")


def test_a_kill_on_the_heels_of_its_launch_is_obeyed(node: Node) -> None:
    link = node.up()
    for number in range(10):
        spare_of(node, link)
        node.launch(link, f"t{number}", "sleep 1000")
        link.kill(f"t{number}")
        assert link.wait_for("exit", f"t{number}")["cause"] == "killed"


def test_a_shim_that_dies_while_the_log_hangs_leaves_nothing_that_could_begin_later(node: Node, tmp_path: Path) -> None:
    link = node.up()
    spare_of(node, link)
    pipe = tmp_path / "hung.log"
    os.mkfifo(pipe)
    node.launch(link, "t1", "exec sleep 1000", log_path=str(pipe))
    shim = node.shim_of("t1")
    assert (node.link().inventory["t1"]["state"], children_of(shim)) == ("claimed", [])
    again = node.link()
    os.kill(shim, signal.SIGKILL)
    assert again.wait_for("exit", "t1")["cause"] == "unknown"
    with pipe.open("r+b", buffering=0):  # now it could be opened
        again.ping()
        assert node.carriers("t1") == []


def test_a_time_limit_holds_while_the_log_hangs(node: Node, tmp_path: Path) -> None:
    link = node.up()
    pipe = tmp_path / "hung.log"
    os.mkfifo(pipe)
    end = node.run(link, "t1", "true", log_path=str(pipe), time_limit_s=0.2)
    assert (end["cause"], end["code"], end["started_at"]) == ("timed_out", None, None)


WITHOUT_VFORK = b"def is_possible() -> bool:\n    return False\n\n\ndef was_possible() -> bool:"


@pytest.fixture
def old(node: Node) -> Node:
    """A node whose C library is too old to begin a session by vfork."""
    node.change_archive({"agent/attempt/spawn.py": (b"def is_possible() -> bool:", WITHOUT_VFORK)})
    return node


def test_without_vfork_a_process_of_its_own_becomes_the_command(old: Node) -> None:
    link = old.up()
    end = old.run(link, "t1", "echo $$ $MUSTER_LAUNCH_ID; exit 3", log_new=True)
    assert (end["cause"], end["code"]) == ("exited", 3)
    assert old.text("t1").splitlines()[0].endswith(known("t1"))
    end = old.run(link, "t2", ["/no/such/program"])
    assert (end["cause"], end["error"]) == (
        "not_started",
        f"the program /no/such/program does not exist on {socket.gethostname()}",
    )


def test_without_vfork_the_record_stays_locked_until_the_command_runs(old: Node, tmp_path: Path) -> None:
    """The shim dies while the command's process still opens its log: nobody may call the attempt over before it did."""
    link = old.up()
    pipe = tmp_path / "hung.log"
    os.mkfifo(pipe)
    old.launch(link, "t1", "exec sleep 1000", log_path=str(pipe))
    shim = old.shim_of("t1")
    command = until("the command's process", lambda: children_of(shim))[0]
    record = str(old.claim("t1") / "record")
    until("the lock", lambda: record in descriptors(command).values())
    os.kill(shim, signal.SIGKILL)
    old.kill_agent(link)
    again = old.up()
    assert again.inventory["t1"]["state"] == "claimed"
    again.ping()
    assert old.link().inventory["t1"]["state"] == "claimed"
    with pipe.open("rb", buffering=0):  # now it can be opened, and the command runs
        until("the command", lambda: old.carriers("t1"))
        assert old.carriers("t1") == [command]
        last = old.link()
        last.kill("t1")
        assert last.wait_for("exit", "t1")["cause"] == "killed"
