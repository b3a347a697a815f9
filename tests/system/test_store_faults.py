"""The store under a real master whose system calls fail, and whose files others remove."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from client.api import Client
from master.durable.journal import decode_record, encode_record
from master.engine.engine import EXIT_SYNC_FAILED
from tests.faults import in_words
from tests.soak import one_in
from tests.system.lab import Lab
from tests.system.tracing import injected
from tests.waiting import PATIENCE_S, until
from wire.errors import MusterError, UnreachableError
from wire.message import Message

BULK = ["true", *["x" * 120_000] * 8]
COMPACT_AFTER = 9
"""So many commands of that size are more than a journal may hold before it is compacted."""


def journal(lab: Lab) -> Path:
    return lab.task_info / "journal.jsonl"


def inode(path: Path) -> int:
    return path.stat().st_ino


def submit_bulk(client: Client) -> int:
    return client.submit(BULK, hold=True)


def outgrow_the_journal(lab: Lab) -> list[int]:
    """Submit until the journal has been replaced by a shorter one; the ids that were answered."""
    before = inode(journal(lab))
    with lab.client() as client:
        ids = [submit_bulk(client) for _ in range(COMPACT_AFTER)]
    until("the journal is cut", lambda: inode(journal(lab)) != before)
    return ids


def known_ids(lab: Lab) -> set[int]:
    with lab.client() as client:
        tasks, _ = client.list_tasks(ended=True)
    return {task["id"] for task in tasks}


def test_no_descriptor_left_when_the_journal_has_just_been_replaced_and_no_answer_goes_into_the_old_one(
    lab: Lab, tmp_path: Path
) -> None:
    lab.start()
    assert lab.master is not None
    fault = "openat:error=EMFILE"
    with injected(lab.master.pid, tmp_path / "strace", fault, path=lab.task_info):
        answered = outgrow_the_journal(lab)
        with lab.client() as client, suppress(MusterError):
            answered.append(client.submit("true", hold=True))
    lab.kill_master()
    lab.start()
    assert set(answered) <= known_ids(lab)


@pytest.mark.parametrize("count", one_in(3, range(1, 7)))
def test_killed_at_each_rename_of_a_compaction_it_has_every_task_once(lab: Lab, tmp_path: Path, count: int) -> None:
    lab.start()
    assert lab.master is not None
    until("the agent's archive has its name", lambda: list(lab.state.glob("muster/agent-*.pyz")))
    answered: list[int] = []
    with (
        injected(lab.master.pid, tmp_path / "strace", f"rename:signal=SIGKILL:when={count}"),
        suppress(MusterError),
        lab.client() as client,
    ):
        for _ in range(3 * COMPACT_AFTER):
            answered.append(submit_bulk(client))  # noqa: PERF401  (those answered before the end count)
    assert lab.master.wait(PATIENCE_S) == -signal.SIGKILL
    lab.start()
    assert len(answered) >= COMPACT_AFTER - 1
    assert set(answered) <= known_ids(lab) <= {*answered, answered[-1] + 1}


def test_a_sync_that_fails_ends_the_master_and_what_it_did_not_answer_is_there_once_when_asked_again(
    lab: Lab, tmp_path: Path
) -> None:
    lab.start()
    assert lab.master is not None
    with lab.client() as client:
        first = client.submit("true", hold=True)
        with (
            injected(lab.master.pid, tmp_path / "strace", "fdatasync:error=EIO"),
            pytest.raises(UnreachableError),
        ):
            client.submit("true", hold=True, request_id="again")
    assert lab.master.wait(PATIENCE_S) == EXIT_SYNC_FAILED
    assert "fdatasync failed: [Errno 5]" in lab.server_log()
    lab.start()
    with lab.client() as client:
        second = client.submit("true", hold=True, request_id="again")
        assert client.submit("true", hold=True, request_id="again") == second
    assert known_ids(lab) == {first, second}


SPOILT = {"empty": b"", "garbage": b"}{", "half": b'[\n{"id": 1', "zeros": bytes(512), "missing": None}


FILES = ("wait_task.json", "exec_task.json", "hist_task.json", "state.json", "journal.jsonl")


@pytest.mark.parametrize("name", one_in(3, FILES))
def test_a_file_that_is_empty_missing_or_garbage_is_refused_and_put_back_it_loads(lab: Lab, name: str) -> None:
    lab.start()
    with lab.client() as client:
        task_id = client.submit("true", hold=True)
    lab.kill_master()
    path = lab.task_info / name
    whole = path.read_bytes()
    for what, content in SPOILT.items():
        path.unlink()
        if content is not None:
            path.write_bytes(content)
        code, said = refused(lab)
        assert code == "store_corrupt", what
        assert name in said, what
        assert "backup" in said, what
    path.write_bytes(whole)
    lab.start()
    assert known_ids(lab) == {task_id}


def refused(lab: Lab) -> tuple[str, str]:
    """Start a master that must refuse to; the code and the words of its one line."""
    out = lab.folder / "master.out"
    begin = out.stat().st_size if out.exists() else 0
    process = lab.launch_master()
    try:
        assert process.wait(PATIENCE_S) == 1
    finally:
        process.kill()
        process.wait()
    lines = out.read_bytes()[begin:].decode().splitlines()
    assert len(lines) == 1, lines
    _, code, said = lines[0].split(": ", 2)
    return code, said


def up(lab: Lab, *words: str) -> None:
    """`muster up --detach`, as a person types it; `muster down` ends it."""
    done = lab.muster("up", "--detach", *words)
    assert done.returncode == 0, done.stderr


def down(lab: Lab) -> None:
    assert lab.muster("down").returncode == 0


def test_edited_while_the_master_was_down_the_queue_waits_for_a_yes(lab: Lab) -> None:
    lab.start()
    with lab.client() as client:
        ids = client.submit_batch([f"echo {number}" for number in range(30)], hold=True)
    outgrow_the_journal(lab)
    lab.kill_master()
    path = lab.task_info / "wait_task.json"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"echo 7"', b'"echo 8"'))
    code, said = refused(lab)
    assert code == "store_changed"
    assert str(Message("task_edited", id=ids[7], command="echo 8")) in said
    path.write_text("[]")
    code, said = refused(lab)
    assert f"tasks are missing ({ids[0]}-" in said
    path.write_bytes(whole)
    lab.start()
    assert set(ids) <= known_ids(lab)
    lab.kill_master()
    path.write_bytes(whole.replace(b'"echo 7"', b'"echo 8"'))
    assert lab.muster("up", "--detach").returncode == 1
    up(lab, "--accept-edits")
    with lab.client() as client:
        assert client.show(ids[7])["command"] == "echo 8"
    down(lab)
    lab.start()


def test_the_printed_way_past_a_damaged_journal_leads_to_its_end_with_agents_that_obeyed_what_is_lost(
    lab: Lab, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    lab.start()
    with lab.client() as client:
        runs = client.submit(f"until [ -e {gate} ]; do sleep 0.05; done; exit 7")
        waits = client.submit("true", hold=True)
        blocked = client.submit("sleep 1000", gpus=8, hold=True)
        until("the task runs", lambda: client.show(runs)["state"] == "running")
        assert lab.muster("node", "drain", "node0").returncode == 0
    lab.kill_master()
    lab.start()
    until("the agent obeys the second start", lambda: online(lab))
    lab.kill_master()
    path = journal(lab)
    lines = path.read_bytes().splitlines(keepends=True)
    number = max(index for index, line in enumerate(lines) if b'"lineage"' in line)
    later = encode_later(lines)
    lines[number] = lines[number].replace(b'"lineage"', b'"LINEAGE"')
    path.write_bytes(b"".join([*lines, later]))
    code, said = refused(lab)
    assert code == "store_corrupt"
    assert f"line {number + 1}" in said
    assert "`muster up --skip-damaged`" in said
    up(lab, "--skip-damaged")
    until("the agent obeys", lambda: online(lab))
    with lab.client() as client:
        assert client.show(runs)["state"] == "running"
        assert client.show(blocked)["state"] == "held"
        gate.touch()
        until("it ends", lambda: client.show(runs)["state"] == "failed")
        assert client.show(runs)["exit_code"] == 7
        assert lab.muster("node", "resume", "node0").returncode == 0
        client.release(waits)
        until("it runs", lambda: client.show(waits)["state"] == "succeeded")
    assert "damage   " in lab.muster("status").stdout
    assert "damage   " not in lab.muster("status", "--seen").stdout
    down(lab)
    lab.start()
    until("the agent obeys", lambda: online(lab))
    assert known_ids(lab) == {runs, waits, blocked}


def test_a_journal_that_is_lost_before_the_first_compaction_books_no_gpu_twice_and_keeps_its_agent(
    lab: Lab, tmp_path: Path
) -> None:
    holds = tmp_path / "holds"
    lab.start()
    with lab.client() as client:
        first = client.submit(f"exec 9>{holds}; flock 9; echo; exec sleep 1000", gpus=8)
        until("the task runs", lambda: client.show(first)["state"] == "running")
        until("it holds its lock", holds.exists)
    lab.kill_master()
    agents = []
    for _ in range(2):  # an epoch that is begun twice is obeyed once
        journal(lab).unlink()
        code, _said = refused(lab)
        assert code == "store_corrupt"
        up(lab, "--skip-damaged")
        with lab.client() as client:
            (found,) = until("what still runs is told", lambda: client.unknown_attempts("node0"))
            assert (found["task"], found["gpus"]) == (first, list(range(8)))
            waits = client.submit(f"flock -n {holds} true", gpus=8)
            until("it is told why it waits", partial(_names_the_command, client, waits))
        agents.append(lab.agent_pid("node0"))
        assert in_words(lab.muster("status").stdout, "journal_none_held")
        down(lab)
    up(lab)
    with lab.client() as client:
        until("the node is back", lambda: online(lab))
        client.end_attempt("node0", found["launch_id"])
        assert client.wait([waits], timeout=PATIENCE_S)[waits]["state"] == "succeeded"
    down(lab)
    assert len(list(lab.state.glob("muster/*-node0"))) == 1
    assert None not in agents
    assert agents[0] == agents[1]


def _names_the_command(client: Client, task_id: int) -> bool:
    return "muster node attempts" in str(client.why(task_id))


def encode_later(lines: list[bytes]) -> bytes:
    """A record behind the last one, which names it as synced: what was before it had been answered for."""
    last = decode_record(lines[-1].rstrip(b"\n"))
    assert last is not None
    return encode_record(last.seq + 1, last.seq, b"{}")


def online(lab: Lab) -> bool:
    with lab.client() as client:
        return [node["state"] for node in client.nodes()] == ["online"]


def test_a_zeroed_tail_is_told_until_somebody_has_seen_it_and_no_id_is_given_again(lab: Lab) -> None:
    lab.start()
    with lab.client() as client:
        kept = client.submit("true", hold=True)
        size = journal(lab).stat().st_size
        lost = [client.submit("true", hold=True) for _ in range(5)]
    lab.kill_master()
    data = journal(lab).read_bytes()
    journal(lab).write_bytes(data[:size] + bytes(len(data) - size))
    for _ in range(2):
        lab.start()
        told = lab.muster("status").stdout
        assert "damage   " in told
        assert "journal.torn" in told
        lab.kill_master()
    lab.start()
    with lab.client() as client:
        fresh = client.submit("true", hold=True)
    assert fresh not in {kept, *lost}
    assert "damage" not in lab.muster("status", "--seen").stdout
    lab.kill_master()
    lab.start()
    assert "damage" not in lab.muster("status").stdout


def test_a_journal_cut_where_a_record_ends_is_told_and_no_id_is_given_again(lab: Lab) -> None:
    lab.start()
    with lab.client() as client:
        kept = client.submit("true", hold=True)
        size = journal(lab).stat().st_size
        lost = [client.submit("true", hold=True) for _ in range(5)]
    lab.kill_master()
    with journal(lab).open("r+b") as file:
        file.truncate(size)
    lab.start()
    assert f"ids up to {lost[-1]} had been given" in lab.muster("status").stdout
    with lab.client() as client:
        fresh = client.submit("true", hold=True)
        assert lost[-1] < fresh <= lost[-1] + 2
    lab.kill_master()
    lab.start()
    with lab.client() as client:
        assert client.submit("true", hold=True) == fresh + 1
        assert known_ids(lab) == {kept, fresh, fresh + 1}


def test_while_nothing_can_be_written_what_a_kill_takes_back_is_marked_wherever_it_is_shown(
    lab: Lab, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    lab.start()
    assert lab.master is not None
    with lab.client() as client:
        task_id = client.submit(f"until [ -e {gate} ]; do sleep 0.05; done; exit 7")
        until("the task runs", lambda: client.show(task_id)["state"] == "running")
        assert client.show(task_id)["unsaved"] is False
        full = injected(lab.master.pid, tmp_path / "strace", "write:error=ENOSPC", path=journal(lab))
        with full:
            gate.touch()
            until("its end is known", lambda: client.show(task_id)["state"] == "failed")
            until("the disk refuses it", lambda: client.show(task_id)["unsaved"])
            assert client.tasks(ended=True)[0]["unsaved"] is True
            assert client.info()["unsaved"] == [task_id]
            assert "NOT SAVED" in lab.muster("queue", "--all").stdout
            assert "not saved:" in lab.muster("show", str(task_id)).stdout
            assert f"unsaved  the newest changes of {task_id} are" in lab.muster("status").stdout
            # Nobody builds on it: who waits for the end waits on.
            assert "timeout" in lab.muster("wait", "--timeout", "1", str(task_id)).stderr
            os.kill(lab.master.pid, signal.SIGKILL)
    lab.kill_master()
    lab.start()
    assert lab.master is not None
    with lab.client() as client:
        until("the agent tells it again", lambda: client.show(task_id)["state"] == "failed")
        assert client.show(task_id)["exit_code"] == 7
        until("it is saved", lambda: not client.show(task_id)["unsaved"])
        assert lab.muster("wait", str(task_id)).returncode == 1
        assert "unsaved" not in lab.muster("status").stdout


def test_a_second_master_is_sent_away_although_somebody_removed_the_lock(lab: Lab) -> None:
    lab.start()
    assert lab.master is not None
    for name in ("lock", "lab.json"):  # so that nothing tells whose folder it is
        (lab.task_info / name).unlink()
    # Ports of its own, so that nothing but the folder can keep the second one away.
    other = Lab(lab.folder / "other", nodes=0)
    other.write_conf(task_info=str(lab.task_info), slaver_file=str(lab.registry))
    second = other.launch_master()
    try:
        assert second.wait(PATIENCE_S) == 1
    finally:
        second.kill()
        second.wait()
    said = (other.folder / "master.out").read_text(encoding="utf-8")
    assert said.startswith(f"error: locked: another master (pid {lab.master.pid}) works on {lab.task_info}")
