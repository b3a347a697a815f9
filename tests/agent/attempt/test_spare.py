"""A shim stands by before its launch is known: nobody sees it, it ends with its agent, and no launch hangs on it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.agent.small_master import Link, Node, alive, descriptors
from tests.waiting import until


def children_of(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except FileNotFoundError:
        return []
    return [int(word) for word in text.split() if alive(int(word))]


def spare_of(node: Node, link: Link) -> tuple[int, int]:
    """The shim that stands by, and the process under it that will become a command."""

    def find() -> tuple[int, int] | None:
        for pid in node.children(link):
            below = children_of(pid)
            with suppress(ProcessLookupError):  # those of the launch before go just now
                if len(below) == 1 and os.getsid(below[0]) == below[0] and os.getsid(pid) == pid:
                    return pid, below[0]
        return None

    found: tuple[int, int] = until("a spare", find)
    return found


def test_the_next_launch_takes_it_and_another_stands_by(node: Node) -> None:
    link = node.up()
    shim, command = spare_of(node, link)
    node.launch(link, "t1", "sleep 1000")
    assert link.wait_for("started", "t1")["pid"] == command
    assert node.shim_of("t1") == shim
    until("sampler, shim and another spare", lambda: len(node.children(link)) == 3)


def test_it_ends_with_its_agent_and_leaves_nothing(node: Node) -> None:
    link = node.up()
    shim, command = spare_of(node, link)
    node.kill_agent(link)
    until("the spare's end", lambda: not alive(shim) and not alive(command))
    assert list((node.state / "attempts").iterdir()) == []


def test_there_is_none_without_a_master(node: Node) -> None:
    link = node.up()
    shim, command = spare_of(node, link)
    link.close()
    until("the spare's end", lambda: not alive(shim) and not alive(command))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("which", [0, 1])
def test_if_it_is_killed_the_next_launch_gets_another(node: Node, which: int, number: int) -> None:
    link = node.up()
    spare = spare_of(node, link)
    os.kill(spare[which], number)
    until("the spare's end", lambda: not alive(spare[0]) and not alive(spare[1]))
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


def test_the_record_stays_locked_until_the_command_runs(node: Node, tmp_path: Path) -> None:
    """The shim dies while the command's process still opens its log: nobody may call the attempt over before it did."""
    link = node.up()
    spare_of(node, link)
    pipe = tmp_path / "hung.log"
    os.mkfifo(pipe)
    node.launch(link, "t1", "exec sleep 1000", log_path=str(pipe))
    shim = node.shim_of("t1")
    command = until("the command's process", lambda: children_of(shim))[0]
    record = str(node.claim("t1") / "record")
    until("the lock", lambda: record in descriptors(command).values())
    os.kill(shim, signal.SIGKILL)
    node.kill_agent(link)
    again = node.up()
    assert again.inventory["t1"]["state"] == "claimed"
    again.ping()
    assert node.link().inventory["t1"]["state"] == "claimed"
    with pipe.open("rb", buffering=0):  # now it can be opened, and the command runs
        until("the command", lambda: node.carriers("t1"))
        assert node.carriers("t1") == [command]
        last = node.link()
        last.kill("t1")
        assert last.wait_for("exit", "t1")["cause"] == "killed"
