"""Who asks for much over many connections and reads nothing: what the master keeps for them has an end, and the others
are answered as before."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.attack.test_many_ids import Follower
from tests.rights import need_users
from tests.system.lab import Lab
from tests.waiting import until

HELD = 16 << 20
CONNECTIONS = 24
TASKS, COMMAND = 4000, "true " + "x" * 2000
LIST = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "task.list", "params": {}}).encode() + b"\n"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    need_users()
    lab = Lab(tmp_path, nodes=1)
    lab.write_conf(limits={"held_bytes": HELD})
    lab.start()
    yield lab
    assert lab.close() == []


def most_memory(lab: Lab) -> int:
    """The most bytes in RAM that the master ever had."""
    assert lab.master is not None
    lines = Path(f"/proc/{lab.master.pid}/status").read_text(encoding="ascii").splitlines()
    [kib] = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(kib) << 10


def is_closed(follower: Follower) -> bool:
    """Did the master end it? Nothing is read from it."""
    return follower.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) != b"\x01"


def test_answers_that_nobody_reads_count_as_kept_for_their_user_and_for_nobody_else(lab: Lab) -> None:
    with lab.client() as owner:
        owner.submit_batch([COMMAND] * TASKS, hold=True)
        for name in ("eve", "ann"):
            owner.people.add(name, role="viewer")
        eves, anns = (owner.people.new_token(name)["token"] for name in ("eve", "ann"))
    with ExitStack() as many:
        other = Follower(lab, anns)
        many.callback(other.close)
        unread = []
        for _ in range(CONNECTIONS):
            unread.append(Follower(lab, eves))
            many.callback(unread[-1].close)
        before = most_memory(lab)
        for one in unread:
            one.socket.sendall(LIST)
        until("what they hold has an end", lambda: any(map(is_closed, unread)))
        assert len(other.call("task.list")["result"]["tasks"]) == TASKS
        kept = [one for one in unread if not is_closed(one)]
        assert kept, "one answer is no more than one user may have"
        assert len(json.loads(kept[0].line())["result"]["tasks"]) == TASKS
        assert most_memory(lab) - before < 4 * HELD
        assert "limits.held_bytes" in lab.server_log()


def test_an_answer_longer_than_a_users_share_arrives_with_who_reads_it(lab: Lab) -> None:
    lab.stop_master()
    lab.write_conf(limits={"held_bytes": 5 << 20})  # the answer has some 13 MB; four times the share is never exceeded
    lab.start()
    with lab.client() as owner:
        owner.submit_batch([COMMAND] * TASKS, hold=True)
        owner.people.add("eve", role="viewer")
        token = owner.people.new_token("eve")["token"]
    eve = Follower(lab, token)
    try:
        assert len(eve.call("task.list")["result"]["tasks"]) == TASKS
    finally:
        eve.close()
    assert "limits.held_bytes" not in lab.server_log()
