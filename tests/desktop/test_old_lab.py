"""The old system's own files: what a desktop client sees of them after `muster init --from`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.desktop.client import DesktopClient, form
from tests.desktop.test_tasks import check_lists
from tests.old_lab import FROZEN, PORTS, edit_json, lay_out
from tests.system.lab import ROOT
from tests.waiting import until

NOTHING_LISTENS = 1
FILES = ("wait_task.json", "exec_task.json", "hist_task.json")


def old_entries(name: str) -> list[dict[str, Any]]:
    """What the old master had written."""
    entries: list[dict[str, Any]] = json.loads((FROZEN / "master/task_info" / name).read_text(encoding="utf-8"))
    return entries


@pytest.fixture
def client(tmp_path: Path, free_ports: list[int]) -> Iterator[DesktopClient]:
    """A window on a master that has taken the old lab over. Its nodes are switched off."""
    folder = lay_out(tmp_path / "gpulab", free_ports)
    registry = folder / "gpu_slaver_info.json"
    nodes = json.loads(registry.read_text(encoding="utf-8"))
    off = [{**node, "ip": "127.0.0.1", "port": NOTHING_LISTENS} for node in nodes]
    registry.write_text(json.dumps(off, ensure_ascii=False), encoding="utf-8")
    init = [sys.executable, "-m", "master", "init", "--from", str(folder)]
    subprocess.run(init, cwd=ROOT, check=True, timeout=60, stdout=subprocess.DEVNULL)
    edit_json(folder / "conf.json", limits={"waiting_tasks": 100})
    up = [sys.executable, "-m", "master", "--conf", str(folder / "conf.json")]
    with (tmp_path / "out").open("wb") as out, subprocess.Popen(up, cwd=ROOT, stdout=out, stderr=out) as master:
        ports = dict(zip(PORTS, free_ports, strict=True))
        try:
            until("it listens", lambda: (tmp_path / "out").read_text() or "serving" in server_log(folder))
            with DesktopClient({name: ("127.0.0.1", port) for name, port in ports.items()}) as one:
                yield one
                assert one.read_err == []
        finally:
            master.terminate()
            assert master.wait(60) == 0, (tmp_path / "out").read_text(encoding="utf-8")


def server_log(folder: Path) -> str:
    path = folder / "server_log.log"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def as_form(entry: dict[str, Any], state: str) -> dict[str, Any]:
    """The row that the client should be shown for an entry of the old files."""
    known = {key: value for key, value in entry.items() if key in form("")}
    path = f"/{entry['path'].strip('/')}/"
    return {**form(""), **known, "path": path, "need_gpus": str(entry["need_gpus"]), "state": state}


def test_the_old_systems_tasks_are_shown_for_what_they_are(client: DesktopClient) -> None:
    lists = client.tasks()
    check_lists(lists)
    waiting = [as_form(entry, "wait") for entry in old_entries("wait_task.json")]
    # The old master started urgent ones first, and so do we; else they come in their order.
    assert lists["wait"] == sorted(waiting, key=lambda entry: -entry["is_urgent"])
    assert lists["exec"] == [], "nothing of the old master's runs as far as we can know"
    ran = [as_form(entry, "offline_error") for entry in old_entries("exec_task.json")]
    over = [as_form(entry, entry["state"]) for entry in old_entries("hist_task.json")]
    assert [entry["state"] for entry in over] == ["accp", "err", "term", "offline_error"]
    by_id = {entry["task_id"]: entry for entry in lists["hist"]}
    assert by_id == {entry["task_id"]: entry for entry in (*over, *ran)}
    assert [entry["task_id"] for entry in lists["hist"]] == sorted(by_id)


def test_they_can_be_worked_with(client: DesktopClient, tmp_path: Path) -> None:
    logs = tmp_path / "gpulab/data/task_logs"
    assert client.ask("get_root") == ["data", "envs"]
    assert client.ask("get_train_log_path", "26111812000001") == str(logs / "26111812000001.log")
    assert client.ask("get_folder", "/data/项目")["folder"] == ["检测"]
    entry = client.tasks()["wait"][1]
    assert client.ask("change_task", {**entry, "need_gpus": "1", "state": ""}) == ""
    assert client.tasks()["wait"][1] == {**entry, "need_gpus": "1"}
    again = client.ask("resub_task", "26112105000010")
    assert again == {"task_id": "00000000000001", "info": ""}
    shown = {one["task_id"]: one for one in client.tasks()["wait"]}
    assert shown["00000000000001"]["exec"] == "bash run.sh --epochs 300"
    assert client.ask("del_task", "26112106053964") == {"task_id": "26112106053964", "info": ""}
    assert client.ask("stop_task", "26112106060112") == {"task_id": "26112106060112", "info": "success"}
    assert client.ask("change_task", {**entry_of(client, "hist", "26112019000000"), "state": ""}) == ""
    assert entry_of(client, "wait", "26112019000000")["state"] == "wait"


def entry_of(client: DesktopClient, table: str, task_id: str) -> dict[str, Any]:
    return next(one for one in client.tasks()[table] if one["task_id"] == task_id)
