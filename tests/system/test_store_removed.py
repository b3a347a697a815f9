"""Files of the queue that others remove, replace or empty while the master runs: what was answered is there again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from client.api import Client
from master.engine.engine import WATCH_S
from tests.faults import in_words
from tests.system.lab import Lab
from tests.waiting import PATIENCE_S, until
from wire.errors import StoreUnavailableError


def removed(path: Path) -> None:
    path.unlink()


def replaced(path: Path) -> None:
    draft = path.with_suffix(".draft")
    draft.write_bytes(b"an older one\n")
    draft.replace(path)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def added_to(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"what nobody asked for\n")


@pytest.mark.parametrize("spoil", [removed, replaced, emptied, added_to])
def test_a_journal_that_is_spoilt_under_the_master_has_all_that_was_answered_before_and_after(
    lab: Lab, spoil: Callable[[Path], None]
) -> None:
    lab.start()
    path = lab.task_info / "journal.jsonl"
    with lab.client() as client:
        before = client.submit("true", hold=True)
        spoil(path)
        after = [client.submit("true", hold=True) for _ in range(2)]
    lab.kill_master()
    lab.start()
    assert known(lab) == {before, *after}
    assert "damage" not in lab.muster("status").stdout
    if spoil is not added_to:
        assert f"{path} was " in lab.server_log()


def test_it_is_seen_also_while_nothing_happens(lab: Lab) -> None:
    lab.start()
    path = lab.task_info / "journal.jsonl"
    with lab.client() as client:
        task_id = client.submit("true", hold=True)
    until("all is at rest", lambda: states(lab) == ["online"])
    path.unlink()
    until("it is there again", path.exists, WATCH_S + PATIENCE_S)
    lab.kill_master()
    lab.start()
    assert known(lab) == {task_id}


def test_a_folder_that_is_moved_away_under_the_master_takes_nothing_until_it_is_back(lab: Lab) -> None:
    lab.start()
    away = lab.folder / "away"
    with lab.client() as client:
        before = client.submit("true", hold=True)
        lab.task_info.rename(away)
        with pytest.raises(StoreUnavailableError) as refused:
            client.submit("true", hold=True, request_id="once")
        moved = {"key": "folder_moved", "args": {"folder": str(lab.task_info)}}
        assert (refused.value.key, refused.value.values) == ("not_durable_yet", {"said": moved})
        assert "put it back" in lab.muster("status").stdout
        lab.task_info.mkdir()  # another one by its name is not it
        with pytest.raises(StoreUnavailableError) as refused:
            client.submit("true", hold=True)
        assert (refused.value.key, refused.value.values) == ("disk_refuses", {"said": moved})
        assert list(lab.task_info.iterdir()) == []
        lab.task_info.rmdir()
        away.rename(lab.task_info)
        after = until("it is taken", lambda: taken(client))
    lab.kill_master()
    lab.start()
    assert known(lab) == {before, after}


def test_a_folder_that_was_removed_under_a_master_that_was_killed_is_not_begun_anew_in_silence(
    lab: Lab, tmp_path: Path
) -> None:
    holds = tmp_path / "holds"
    lab.start()
    with lab.client() as client:
        given = [client.submit("true", hold=True), client.submit(f"exec 9>{holds}; flock 9; echo; sleep 1000", gpus=8)]
        until("the task runs", lambda: client.show(given[-1])["state"] == "running")
        until("it holds its lock", holds.exists)
    agent = lab.agent_pid("node0")
    shutil.rmtree(lab.task_info)
    lab.kill_master()
    done = lab.muster("up", "--detach")
    assert done.returncode == 1
    assert in_words(done.stderr, "queue_gone", folder=str(lab.task_info))
    assert "store_corrupt: " in done.stderr
    assert "muster up --skip-damaged" in done.stderr
    assert lab.muster("up", "--detach", "--skip-damaged").returncode == 0
    assert in_words(lab.muster("status").stdout, "queue_begun_anew", folder=str(lab.task_info))
    with lab.client() as client:
        fresh = client.submit(f"flock -n {holds} true", gpus=8)
        assert fresh > max(given)
        (found,) = until("what still runs is told", lambda: client.unknown_attempts("node0"))
        assert (found["task"], found["gpus"]) == (given[-1], list(range(8)))
        client.end_attempt("node0", found["launch_id"])
        assert client.wait([fresh], timeout=PATIENCE_S)[fresh]["state"] == "succeeded"
    assert lab.agent_pid("node0") == agent
    assert lab.muster("down").returncode == 0
    lab.start()
    assert known(lab) == {fresh}


def test_an_older_copy_of_the_folder_gives_no_id_again(lab: Lab) -> None:
    lab.start()
    with lab.client() as client:
        before = client.submit("true", hold=True)
    lab.stop_master()
    shutil.copytree(lab.task_info, lab.folder / "backup")
    lab.start()
    with lab.client() as client:
        since = [client.submit("true", hold=True) for _ in range(3)]
    lab.stop_master()
    shutil.rmtree(lab.task_info)
    (lab.folder / "backup").rename(lab.task_info)
    lab.start()
    with lab.client() as client:
        fresh = client.submit("true", hold=True)
    assert fresh > since[-1]
    assert known(lab) == {before, fresh}


def taken(client: Client) -> int | None:
    with suppress(StoreUnavailableError):
        return client.submit("true", hold=True, request_id="once")
    return None


def known(lab: Lab) -> set[int]:
    with lab.client() as client:
        return {task["id"] for task in client.tasks(ended=True)}


def states(lab: Lab) -> list[str]:
    with lab.client() as client:
        return [node["state"] for node in client.nodes()]
