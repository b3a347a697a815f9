"""`server.hello`: once it is refused nothing that comes over the connection is done, also what was sent with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from master.start.lab_file import settle
from tests.master.in_process import InProcess, run
from wire.lab import Lab, path_of, read

OURS, OTHER = "1" * 32, "2" * 32


def test_what_was_sent_behind_a_refused_one_is_not_done(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            asked = [
                peer.ask("server.hello", lab=OTHER),
                peer.ask("task.submit", command="true"),
                peer.ask("server.stop"),
                peer.ask("server.hello", lab=OURS),
            ]
            for number in asked:
                answer = await peer.answer(number)
                assert answer["error"]["data"]["code"] == "conflict"
                assert answer["error"]["data"]["args"] == {"lab": str(tmp_path / "conf.json")}
            assert not master.core.tasks
            assert not master.place.stopped
            other = await master.peer()
            assert await other.call("server.hello", lab=OURS) == {"lab": OURS}
            await other.call("task.submit", command="true")

    run(story())


@pytest.mark.parametrize(
    ("identity", "said", "is_meant"),
    [
        (OURS, {"lab": OURS, "conf": "/elsewhere"}, True),
        (OURS, {"lab": OTHER, "conf": "HERE"}, False),
        (OURS, {"conf": "HERE"}, True),
        (OURS, {"conf": "/elsewhere"}, False),
        (OURS, {"conf": "/elsewhere", "file": "64:17"}, True),
        (OURS, {"conf": "/elsewhere", "file": "64:18"}, False),
        (OURS, {}, True),
        ("", {"lab": OURS, "conf": "HERE"}, True),
        ("", {"lab": OURS, "conf": "/elsewhere"}, False),
        ("", {"lab": OURS}, True),
    ],
)
def test_identities_are_compared_and_where_one_is_missing_the_conf_json(
    tmp_path: Path, identity: str, said: dict[str, str], *, is_meant: bool
) -> None:
    conf = str(tmp_path / "conf.json")
    params = {name: value.replace("HERE", conf) for name, value in said.items()}

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            master.place.lab = Lab(identity, conf, "64:17")
            peer = await master.peer()
            answer = await peer.answer(peer.ask("server.hello", **params))
            assert ("error" not in answer) is is_meant, answer

    run(story())


def test_a_stranger_is_not_told_where_the_lab_lies(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            token = (tmp_path / "task_info" / "services" / "web").read_text(encoding="ascii").strip()
            await peer.call("auth.token", token=token)
            await peer.call("auth.relay", **{"from": "10.0.0.9"})
            error = (await peer.answer(peer.ask("server.hello", lab=OTHER)))["error"]
            assert (error["data"]["code"], error["data"]["key"]) == ("conflict", "unnamed_lab")
            assert str(tmp_path) not in str(error)

    run(story())


def copied(folder: Path, of: Path) -> Path:
    """A conf.json with the identity of another one, as a copy of the folder has it."""
    folder.mkdir()
    conf = folder / "conf.json"
    conf.write_text("{}")
    Path(path_of(str(conf))).write_text(json.dumps({"lab": OURS, "conf": str(of)}))
    return conf


def is_meant(running: Lab, said: dict[str, str]) -> bool:
    return running.is_meant(said["lab"], said.get("conf", ""), said.get("file", ""))


def test_two_copies_of_a_folder_that_is_gone_are_two_labs(tmp_path: Path) -> None:
    """Both have its identity, as with a backup that was put back twice, under other names."""
    gone = tmp_path / "gone" / "conf.json"
    first, second = (copied(tmp_path / name, gone) for name in ("first", "second"))
    running = settle(first)
    for other in (read(str(second)), settle(second), read(str(second))):
        assert not is_meant(running, other.said(is_here=True))
    assert is_meant(running, read(str(first)).said(is_here=True))


def test_a_folder_that_was_moved_while_its_master_runs_is_known_by_the_file(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    conf = tmp_path / "before" / "conf.json"
    conf.write_text("{}")
    running = settle(conf)
    (tmp_path / "before").rename(tmp_path / "after")
    moved = read(str(tmp_path / "after" / "conf.json"))
    assert is_meant(running, moved.said(is_here=True))
    assert is_meant(running, moved.said(is_here=False)), "from another machine"
