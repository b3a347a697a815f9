"""What a master of a version before left in its folder, whole or damaged, is to this one what it was to that one, and
stays so for that one until it is of the new format: then the copy is, which is kept beside."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from master.core.people import marks
from master.durable import failpoint, upgrade
from tests import landed
from tests.landed_load import outcome
from tests.system.lab import ROOT, Lab
from tests.waiting import until
from wire.errors import UnreachableError
from wire.message import Message

JOURNAL = "journal.jsonl"
COMPACTS = "compaction.done:1000000"
"""A master that is armed so compacts whenever it wrote, and never dies of it."""
LOADER = Path(landed.__file__).with_name("landed_load.py")
OPEN = """
import sys
from pathlib import Path
from master.durable.disk import OsDisk
from master.durable.store import Store
Store(Path(sys.argv[1]), OsDisk()).open()
"""
Change = Callable[[Path], object]


class Left(NamedTuple):
    """What a master left when it was killed. `compacted`: it had cut its journal into the queue files."""

    version: str
    code: Path
    task_info: Path
    compacted: bool


def answers(lab: Lab) -> bool:
    """Is there a master?"""
    with suppress(UnreachableError), lab.client() as client:
        return bool(client.info())
    return False


def live(lab: Lab, code: Path, *, compacts: bool) -> None:
    """Some days of a lab in a second: tasks of every state that a dead master can leave, and what is no task."""
    lab.code = code
    lab.write_conf(scheduler={"grace_s": 2.0, "keep_history": 2})
    lab.start(COMPACTS if compacts else "")
    until("the master answers", lambda: answers(lab))
    node = lab.nodes[0]
    hold = f"until [ -e '{lab.folder}/go' ]; do sleep 0.1; done; exit"
    ids = landed.ask(
        code,
        lab.conf,
        *(("submit", [f"exit {number}"], {"name": f"任务 {number}", "project": "p"}) for number in range(6)),
        ("submit", [f"{hold} 5"], {"gpus": 2, "variables": {"A": '"\n'}, "request_id": "once"}),
        ("submit", [["echo", "a b"]], {"gpu_ids": [3, 5], "node": node, "hold": True}),
        ("submit", [f"{hold} 0"], {"gpus": 1, "time_limit_s": 999.5, "cpus": 1}),
    )
    running = [ids[6], ids[8]]
    with lab.client() as client:
        until("the short ones have ended", lambda: {task["id"] for task in client.tasks(active=True)} == set(ids[6:]))
        until("both run", lambda: all(client.show(number)["state"] == "running" for number in running))
    more = landed.ask(
        code,
        lab.conf,
        ("submit", ["true"], {"gpus": 8, "after": [{"id": running[0], "on": "any"}], "priority": 3}),
        ("submit", ["true"], {"gpus": 8, "urgent": True}),
        ("submit", ["true"], {"gpus": 8, "name": "gone"}),
        ("submit", ["true"], {"gpus": 8}),
        ("submit", ["true"], {"name": "removed", "hold": True}),
        ("drain", [node, "dust"], {"gpus": [7]}),
    )
    landed.ask(
        code,
        lab.conf,
        ("cancel", [[more[2], more[4]]], {}),
        ("move", [more[3], 3], {}),
        ("remove", [more[4]], {}),
        ("tasks", [], {"active": False, "ended": True}),
    )
    lab.kill_master()
    if compacts:
        write_some_more(lab, code, running)


def write_some_more(lab: Lab, code: Path, running: list[int]) -> None:
    """Have the journal hold records again, which the last compaction may have cut to its first line."""
    lab.start()
    landed.ask(code, lab.conf, ("submit", ["true"], {"name": "the last", "hold": True}))
    with lab.client() as client:
        until("both run on", lambda: all(client.show(number)["state"] == "running" for number in running))
    lab.kill_master()


@pytest.fixture(
    scope="module",
    params=[("before", False), ("before", True), ("earlier", False)],  # which compacts after megabytes only
    ids=lambda param: f"{param[0]}-{'compacted' if param[1] else 'journal'}",
)
def left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Left]:
    version, compacted = request.param
    root = tmp_path_factory.mktemp("left")
    code = landed.unpack(version, root / "code")
    lab = Lab(root / "lab", nodes=1)
    try:
        live(lab, code, compacts=compacted)
        (lab.folder / "go").touch()
        until("its tasks end without it", lambda: not lab.attempts_alive())
    finally:
        (lab.folder / "go").touch()
        outlived = lab.close()
    assert outlived == []
    yield Left(version, code, lab.task_info, compacted)
    shutil.rmtree(root)


def edit(name: str, change: Callable[[bytes], bytes]) -> Change:
    """That change to one file."""

    def work(folder: Path) -> None:
        path = folder / name
        path.write_bytes(change(path.read_bytes()))

    return work


def without(name: str) -> Change:
    """The folder without that file."""
    return lambda folder: (folder / name).unlink(missing_ok=True)


def flip(data: bytes) -> bytes:
    """One bit of the middle is another one."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


CHANGES: dict[str, Change] = {
    "as it was left": lambda _: None,
    "its last record torn": edit(JOURNAL, lambda data: data[:-7]),
    "something after the last record": edit(JOURNAL, lambda data: data + b"0123abcd 9999 9998 {"),
    "a record damaged": edit(JOURNAL, flip),
    "an emptied journal": edit(JOURNAL, lambda _: b""),
    "no journal": without(JOURNAL),
    "no sums": without("queues.sums"),
    "no ids": without("ids"),
    "no reserve": without("reserve"),
    "a waiting task edited": edit("wait_task.json", lambda data: data.replace(b'"gpus":8', b'"gpus":6')),
    "laid out anew": edit("hist_task.json", lambda data: json.dumps(json.loads(data), indent=4).encode()),
    "a queue damaged": edit("hist_task.json", lambda data: data[:-3]),
    "no state": without("state.json"),
    "no queue": without("exec_task.json"),
}
PERMITS = ("", "edits", "damage")
ALWAYS_ALIKE = ("as it was left", "its last record torn", "no reserve")
"""What the earlier version takes as we do. It knew no permits, and of damage less."""


def test_every_kind_of_folder_is_what_it_was(left: Left, tmp_path: Path) -> None:
    kinds = [(name, permit) for name in CHANGES for permit in PERMITS]
    if left.version == "earlier":
        kinds = [(name, "") for name in ALWAYS_ALIKE]
    folders: dict[str, list[tuple[str, str]]] = {"theirs": [], "ours": []}
    for number, (name, permit) in enumerate(kinds):
        for whose, made in folders.items():
            copy = tmp_path / whose / str(number)
            shutil.copytree(left.task_info, copy, ignore=shutil.ignore_patterns("lock"))
            CHANGES[name](copy)
            made.append((str(copy), permit))
    found = zip(loaded(left.code, folders["theirs"]), kinds, strict=True)
    theirs = [in_new_words(one, permit) for one, (_, permit) in found]
    ours = [outcome(Path(folder), permit) for folder, permit in folders["ours"]]
    if left.version == "earlier":
        for before, now in zip(theirs, ours, strict=True):
            without_news(before, now)
    assert {kind: told for kind, *two in zip(kinds, theirs, ours, strict=True) if (told := differing(*two))} == {}
    assert_it_is_worth_it(left, dict(zip(kinds, ours, strict=True)))


def loaded(code: Path, folders: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """What starts of that version make of these folders, each with its permit."""
    return list(json.loads(landed.run(code, "-P", str(LOADER), told=json.dumps(folders))))


KILLED = [("format.copied", 1), ("format.copied", 4), ("format.kept", 1), ("format.renamed", 1), ("format.begun", 1)]


@pytest.mark.parametrize(("point", "count"), KILLED)
def test_a_first_start_that_is_killed_leaves_the_folder_to_the_version_before_or_to_this_one(
    left: Left, tmp_path: Path, point: str, count: int
) -> None:
    assert {name for name, _ in KILLED} == set(failpoint.FORMAT)
    folder, again, was = (copied(left, tmp_path / name) for name in ("killed", "again", "was"))
    for one in (folder, again):
        told = json.dumps([(str(one), "")])
        with pytest.raises(subprocess.CalledProcessError) as killed:
            landed.run(ROOT, "-P", str(LOADER), told=told, MUSTER_FAILPOINT=f"{point}:{count}")
        assert killed.value.returncode == -signal.SIGKILL
    before, theirs = loaded(left.code, [(str(was), ""), (str(folder), "")])
    if point in ("format.renamed", "format.begun"):
        assert theirs == {"refused": "store_corrupt"}
    else:
        assert {**theirs, "files": [name for name in theirs["files"] if name != upgrade.KEPT]} == before
    ours = outcome(again, "")
    assert ours["tasks"] == in_new_words(before)["tasks"]
    assert ours["seq"] >= before["seq"] if left.version == "earlier" else ours["seq"] == before["seq"]


def test_the_version_before_refuses_the_folder_then_in_one_line_and_goes_on_from_the_copy(
    left: Left, tmp_path: Path
) -> None:
    folder, was = copied(left, tmp_path / "task_info"), copied(left, tmp_path / "was")
    assert "tasks" in outcome(folder, "")
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        landed.run(left.code, "-c", OPEN, str(folder))
    said = refusal.value.stderr.strip().splitlines()[-1]
    assert "state.json: it is not what we wrote (Object contains unknown field `format`). Nothing was changed." in said
    shutil.copytree(folder / upgrade.KEPT, folder, dirs_exist_ok=True)  # as docs/moving-over.md says
    before, again = loaded(left.code, [(str(was), ""), (str(folder), "")])
    assert set(before.pop("files")) <= set(again.pop("files"))
    assert again == before


def copied(left: Left, folder: Path) -> Path:
    """What was left, once more."""
    return Path(shutil.copytree(left.task_info, folder, ignore=shutil.ignore_patterns("lock")))


def in_new_words(found: dict[str, Any], permit: str = "") -> dict[str, Any]:
    """What the version before found, as this one should find it; where it starts, this one has kept a copy."""
    if "refused" in found:
        return found
    tasks = {number: landed.as_now(task) for number, task in found["tasks"].items()}
    told = (found["state"].get("damage") or [""])[0]
    was_cut = permit == "damage" and " bytes at the end of journal.jsonl could not be read" in told
    state = (
        with_users_in_doubt(found["state"]) if was_cut or told.startswith("the journal was damaged") else found["state"]
    )
    seq = found["seq"] + was_cut  # the record that says so
    return {**found, "tasks": tasks, "state": state, "seq": seq, "files": sorted([*found["files"], upgrade.KEPT])}


def with_users_in_doubt(state: dict[str, Any]) -> dict[str, Any]:
    """Where a part of the journal is lost, users may have been in it, and no witness of that version says otherwise."""
    told = state["damage"]
    lost, semicolon, ids = told[0].rpartition("; ")
    known = {
        "people": {"next_id": 1 + marks.IDS_SKIPPED, "is_shared": True},
        "own_account": {"closed": True},
        "end_access": True,
    }
    return {**state, **known, "damage": [f"{Message('people_lost', loss=lost)}{semicolon}{ids}"]}


def without_news(before: dict[str, Any], now: dict[str, Any]) -> None:
    """Take out what is kept since the version before: what the queue files were, ids ahead of a torn end, and that it
    was torn."""
    assert now["next_id"] >= before["next_id"]
    now["state"] = {name: now["state"].get(name) for name in before["state"]}
    for found in (before, now):
        for key in ("files", "next_id", "seq"):
            del found[key]


def differing(before: dict[str, Any], now: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What is not alike, by its name, as it was and as it is."""
    return {key: (before.get(key), now.get(key)) for key in before | now if before.get(key) != now.get(key)}


def assert_it_is_worth_it(left: Left, ours: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Those folders held what they were made for."""
    whole = ours["as it was left", ""]
    states = [task.get("state", "waiting") for task in whole["tasks"].values()]
    assert states.count("running") == 2
    assert {"waiting", "held", "cancelled"} <= set(states)
    assert whole["answered"]["once"]
    assert bool(whole["months"]) == left.compacted
    refusals = {name: found.get("refused") for (name, permit), found in ours.items() if not permit}
    assert refusals["as it was left"] is refusals["its last record torn"] is refusals["no reserve"] is None
    if left.version == "before":
        assert {refusals[name] for name in ("no queue", "a queue damaged", "no journal")} == {"store_corrupt"}
        assert (refusals["a waiting task edited"] == "store_changed") == left.compacted
        assert bool(ours["no journal", "damage"]["tasks"]) == left.compacted
