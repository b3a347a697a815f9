"""What stands where an id belongs is a number or it is nothing: no path is ever made of it, whichever way it comes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from master.verbs.table import VERBS
from tests.desktop.client import DesktopClient
from tests.system.lab import PORTS
from tests.wrong_input.mistakes import Lab8
from wire.errors import BadRequestError, NotFoundError

HOSTILE = [
    "../x", "../../conf.json", "..", ".", "/etc/passwd", "1/../2", "1.log", "1\x00", "１", "0x1", " 1", "1e0",
    1.5, -1, 0, True, None, [], {}, ["../x"], {"id": "../x"},
]  # fmt: skip
ABSURD = [2**63, 10**30]
"""Numbers, but of no task."""
THEIRS = ("task_info", "state", "master.out", "server_log", "train_logs/desktop")
ID_KEYS = ("id", "ids", "after")
MORE: dict[str, dict[str, object]] = {
    "task.move": {"position": 1},
    "task.edit": {"changes": {"priority": 1}},
    "task.submit": {"command": "true"},
    "log.search": {"pattern": "x"},
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab8]:
    """One running master, with a file beside its logs that only a path could lead to."""
    made = Lab8(tmp_path_factory.mktemp("lab"))
    made.start()
    (made.folder / "x.log").write_text("nobody's business", encoding="utf-8")
    with made.client() as client:
        client.wait([client.submit("echo of task one", node="node0")])
    yield made
    left = made.close()
    made.no_traceback()
    assert not left


def _takes(verb: str) -> list[str]:
    """The keys of a verb's parameters in which ids are given."""
    return [field.name for field in msgspec.structs.fields(VERBS[verb].params) if field.name in ID_KEYS]


CASES = [(verb, key) for verb in VERBS if verb.startswith(("task.", "log.")) for key in _takes(verb)]


def _files(folder: Path) -> dict[str, int]:
    """Everything in the lab's folder but what the master and its agents write for themselves, with its size."""
    return {
        str(path): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and not str(path.relative_to(folder)).startswith(THEIRS)
    }


def test_every_verb_about_one_task_is_tried() -> None:
    tried = {verb for verb, _ in CASES}
    assert {"task.show", "task.why", "task.cancel", "task.edit", "task.retry", "task.remove", "log.read"} <= tried


@pytest.mark.parametrize(("verb", "key"), CASES)
def test_what_is_no_number_is_refused_by_its_key_and_no_file_is_touched(lab: Lab8, verb: str, key: str) -> None:
    before = _files(lab.folder)
    with lab.client() as client:
        for hostile in HOSTILE:
            for value in [hostile] if key == "id" else [[hostile]]:
                with pytest.raises(BadRequestError, match=key):
                    client.call(verb, {**MORE.get(verb, {}), key: value})
        for number in ABSURD if key == "id" else []:  # of a list, each one is answered for itself
            with pytest.raises((BadRequestError, NotFoundError)):
                client.call(verb, {**MORE.get(verb, {}), key: number if key == "id" else [number]})
        assert client.info()["tasks"]["succeeded"] == 1
    assert _files(lab.folder) == before


@pytest.mark.parametrize("mode", ["get_train_log_path", "stop_task", "del_task", "resub_task"])
def test_the_desktop_client_reaches_nothing_by_an_id_that_is_a_path(lab: Lab8, mode: str) -> None:
    before = _files(lab.folder)
    with DesktopClient({name: ("127.0.0.1", lab.keys["socket_info"][name]) for name in PORTS}) as client:
        for hostile in HOSTILE:
            reply = client.reply(mode, hostile)
            if mode == "get_train_log_path":
                assert reply.info == str(lab.folder / "train_logs/desktop/unknown.txt"), hostile
        assert [row["state"] for row in client.tasks()["hist"]] == ["accp"]
    assert _files(lab.folder) == before


def test_a_predecessor_that_is_a_path_is_told_to_the_desktop_client(lab: Lab8) -> None:
    with DesktopClient({name: ("127.0.0.1", lab.keys["socket_info"][name]) for name in PORTS}) as client:
        for hostile in ("../x", "/etc/passwd", "..", "1/../2"):
            assert client.add("true", prev=hostile)
        assert client.tasks()["wait"] == []
