"""A desktop client that was let do less than others, on its ports. What it may do is walked through in
`tests/attack/test_walk.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from master.core.outcome import Pending
from master.core.people.people import People
from master.ports import connection
from master.verbs.access import by_desktop_client
from tests.desktop.client import DesktopClient, form
from tests.desktop.place import DesktopPlace, with_client
from tests.waiting import until

CLIENT = by_desktop_client("10.0.0.1", "desktop")(People(Pending()), 1.0)
ASKED: dict[str, Any] = {
    "add_task": form("true"),
    "change_task": form("false", task_id="00000000000001"),
    "save_file": {"path": "/data/y", "content": ""},
    "get_folder": "/data",
    "rm_file": "/data/x",
}


def test_a_client_that_may_only_read_goes_on_reading_and_one_that_may_more_does_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer = msgspec.structs.replace(CLIENT, role="viewer", scopes=frozenset({"read"}))

    def story(client: DesktopClient, master: DesktopPlace) -> None:
        monkeypatch.setattr(connection, "by_desktop_client", lambda _address, _user: lambda _people, _now: viewer)
        confined = DesktopClient({name: master.address(name) for name in master.servers})
        for mode, info in ASKED.items():
            confined.reply(mode, info)
        assert "没有权限" in str(confined.ask("add_task", form("true")))
        assert confined.read_err == []
        until("the tables come to who may read them", lambda: confined.train.seen)
        assert client.add("true") == ""
        confined.close()

    with_client(tmp_path, story)


def test_a_client_that_may_not_read_is_told_nothing_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blind = msgspec.structs.replace(CLIENT, scopes=frozenset({"files"}))

    def story(_client: DesktopClient, master: DesktopPlace) -> None:
        monkeypatch.setattr(connection, "by_desktop_client", lambda _address, _user: lambda _people, _now: blind)
        confined = DesktopClient({name: master.address(name) for name in master.servers})
        assert confined.train.ended.wait(60)
        assert confined.monitor.ended.wait(60)
        assert confined.ask("get_root") == ["data", "envs"]
        assert (confined.train.seen, confined.monitor.seen) == ([], [])
        confined.close()

    with_client(tmp_path, story)
