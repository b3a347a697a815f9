"""A session of every request that the client knows, good and bad, each answer checked field by field, type by type.

What it needs: a master whose home has the visible folder `data`, and the environment `plain`, without frameworks. It
leaves the folder and the queue as it found them, but for the tasks that it made, which have ended.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.desktop.client import DesktopClient, Frame, Tables
from tests.waiting import NeverError

Row = dict[str, Any]
Show = Callable[[int], object]

DIGITS = re.compile(r"[0-9]{14}")
UNKNOWN = "00009999999999"
ODD: tuple[Any, ...] = (None, 5, True, 1.5, [], {}, [None], {"a": 1}, "", "; touch pwned", "../../etc", "x" * 5000)
"""What no button of the client sends."""
PATIENCE_S = 120.0
"""For a turn among two hundred tasks."""
EMPTY_FOLDER = {"folder": [], "file": [], "curr_path": ""}


def tell(client: DesktopClient, home: Path, name: str, show: Show) -> None:
    """All of it. `name`: of the folder that is worked in, the caller's own."""
    roots(client)
    environments(client)
    files(client, home, name)
    forms(client)
    tasks(client, name, show)
    logs(client, home)
    assert client.reply("get_root").info[0] == "data", "and the connection is as good as new"


def roots(client: DesktopClient) -> None:
    for info in ODD:
        assert client.ask("get_root", info)[0] == "data"
    for mode in ("nothing", "", "recv_err", "mon", "GET_ROOT"):
        client.send(mode, "")  # not answered, and no harm
    client.data.send(b"not JSON_<END_SEND>__<END_SEND>_[1]_<END_SEND>_{}_<END_SEND>_")
    client.data.send(b'{"mode": "py_v", "ui": "main", "info": "\xff"}_<END_SEND>_')
    assert answered(client.data.next(), "ret_py_v", "main")["res"] == "falied"
    client.data.send(b'{"mode": "get_folder", "ui": "folder_select", "info": "\xff"}_<END_SEND>_')
    assert answered(client.data.next(), "ret_folder", "folder_select") == EMPTY_FOLDER


def answered(frame: Frame, mode: str, ui: str) -> Any:
    """What the frame says, which must be of this mode and for this part of the window."""
    assert (frame.mode, frame.ui) == (mode, ui)
    return frame.info


def environments(client: DesktopClient) -> None:
    assert client.ask("env_list") == ["plain"]
    assert client.ask("env_list", "", "task") == ["plain"]
    assert client.ask("test_env", "plain") == "True"
    is_told(client.ask("py_v", "plain"), "seccess", r"Python 3\.[0-9.]+")
    is_told(client.ask("pkgs", "plain"), "seccess", r"(?s).*")
    is_told(client.ask("cuda_pt", "plain"), "falied", "torch 无法导入：.+")
    is_told(client.ask("cuda_tf", "plain"), "falied", "tensorflow 无法导入：.+")
    unknown: tuple[Any, ...] = ("nowhere", "$(touch pwned)", None, [])
    for info in unknown:
        text = client.ask("test_env", info)
        assert isinstance(text, str)
        assert text not in ("", "True")
        for mode in ("py_v", "cuda_pt", "cuda_tf", "pkgs"):
            is_told(client.ask(mode, info), "falied", ".+")


def is_told(answer: Any, res: str, msg: str) -> None:
    assert {key: type(value) for key, value in answer.items()} == {"res": str, "msg": str}
    assert answer["res"] == res
    assert re.fullmatch(msg, answer["msg"]), answer


def files(client: DesktopClient, home: Path, name: str) -> None:
    top, folder = f"/data/{name}", home / "data" / name

    def operate(mode: str, name: str, old_name: str = "", root: str = f"{top}/") -> Any:
        return client.ask("file_operate", {"mode": mode, "root": root, "name": name, "old_name": old_name})

    text = "# 字 \"'_<END_SEND>_\r\n"
    content = base64.b64encode(text.encode()).decode("ascii")
    assert operate("mkdir", name, root="/data/") == "success"
    assert operate("mkdir", "sub") == "success"
    assert operate("touch", "a.py") == "success"
    assert client.ask("save_file", {"path": f"{top}/a.py", "content": content}) == "success"
    assert (folder / "a.py").read_bytes() == text.encode()
    opened = client.ask("get_file", f"{top}/a.py")
    assert opened == {"file_name": f"~{top}/a.py", "content": content, "state": "success"}
    assert operate("mv", "b 字.py", "a.py") == "success"
    shown = {"folder": ["sub"], "file": ["b 字.py"], "curr_path": top}
    for path, ui in ((top, "main"), (f"{top}/", "folder_select"), (f"{top}/sub/..", "main")):
        assert client.ask("get_folder", path, ui) == shown
    assert client.ask("get_folder", "/data/..") == EMPTY_FOLDER
    refusals = [operate("mkdir", "sub"), operate("touch", "sub"), operate("mv", "x", "nowhere"), operate("rm", "sub")]
    refusals += [operate("touch", "x", root="/etc/"), operate("mkdir", "../x"), client.ask("rm_file", f"{top}/nowhere")]
    assert client.ask("get_folder", f"{top}/nowhere") == EMPTY_FOLDER
    for path in ("/etc/passwd", "/data", "/", *ODD):
        assert client.ask("get_folder", path) in (EMPTY_FOLDER, client.ask("get_folder", "/data"))
        failed = client.ask("get_file", path)
        assert failed == {"file_name": f"~{path if isinstance(path, str) else ''}", "content": "", "state": "failed"}
        refusals += [
            client.ask("rm_file", path),
            client.ask("save_file", path),
            client.ask("save_file", {"path": path, "content": content}),
            client.ask("file_operate", path),
            operate("touch", "", root=path),
        ]
    assert [text for text in refusals if not isinstance(text, str) or text in ("", "success")] == []
    assert client.ask("rm_file", f"{top}/b 字.py") == "success"
    assert "Directory not empty" in client.ask("rm_file", top)
    assert client.ask("rm_file", f"{top}/sub") == "success"
    assert client.ask("rm_file", top) == "success"
    assert not folder.exists()


def forms(client: DesktopClient) -> None:
    """Tasks that cannot be."""
    bad: list[dict[str, Any]] = [
        {"exec": ""}, {"exec": None}, {"exec": 5}, {"exec": "a\0b"}, {"need_gpus": "x"}, {"need_gpus": "-1"},
        {"need_gpus": 1.5}, {"path": "/../../etc"}, {"path": None}, {"slaver": "nowhere"},
        {"prev": UNKNOWN}, {"prev": "x"}, {"envs": "a;b"}, {"is_urgent": "yes"}, {"is_reuse_gpu": []},
    ]  # fmt: skip
    for keys in bad:
        text = client.add(**{"command": "true", **keys})
        assert text != "", keys
        assert "\n" not in text
    for info in ODD:
        for mode in ("add_task", "change_task"):
            text = client.ask(mode, info, "task_ctrl")
            assert isinstance(text, str)
            assert text != ""


def tasks(client: DesktopClient, name: str, show: Show) -> None:
    """From a form to the history and back."""
    rows = Rows(client, show)
    first = added(client, f"echo {name} one; sleep 600", path="/data", need_gpus="1", is_urgent=1)
    prev = first["task_id"]
    keys: dict[str, Any] = {"prev": prev, "is_urgent": 1, "slaver": "node1", "envs": "plain", "path": "/data/x/"}
    second = added(client, f"echo '{name}' \"two\" 字 $((1+1))", **keys)
    assert second == {
        "task_id": second["task_id"], "envs": "plain", "path": "/data/x/", "exec": f"echo '{name}' \"two\" 字 $((1+1))",
        "need_gpus": "0", "slaver": "node1", "prev": prev, "is_urgent": 1, "is_reuse_gpu": 0, "state": "wait",
    }  # fmt: skip
    assert client.ask("change_task", {**second, "need_gpus": "1", "state": ""}, "task_ctrl") == ""
    rows.find("it is changed", "wait", second["task_id"], need_gpus="1")
    running = rows.find("it runs", "exec", prev)
    assert (running["state"], running["slaver"][:4]) in (("exec", "node"), ("pexec", "node"))
    box(client.reply("change_task", {**running, "exec": "x", "state": ""}, "task_ctrl"), "task_ctrl")
    box(client.reply("del_task", prev))
    again = client.ask("resub_task", second["task_id"])
    assert again["info"] == ""
    assert DIGITS.fullmatch(again["task_id"])
    assert again["task_id"] > second["task_id"]
    assert client.ask("del_task", again["task_id"]) == {"task_id": again["task_id"], "info": ""}
    assert client.ask("stop_task", second["task_id"]) == {"task_id": second["task_id"], "info": "success"}
    assert rows.find("it ended", "hist", second["task_id"])["state"] == "term"
    assert client.ask("stop_task", second["task_id"]) == {"task_id": second["task_id"], "info": "failed"}
    assert client.ask("stop_task", prev) == {"task_id": prev, "info": "success"}
    assert rows.find("it ended", "hist", prev)["state"] == "term"
    assert client.ask("del_task", second["task_id"]) == {"task_id": second["task_id"], "info": ""}
    client.watch("it is gone", lambda tables: not row_of(tables["hist"], second["task_id"]))
    for info in (UNKNOWN, *(odd for odd in ODD if odd != 5)):  # 5 is somebody's task
        box(client.reply("del_task", info))
        box(client.reply("resub_task", info))
        refused = client.ask("stop_task", info)
        assert {key: type(value) for key, value in refused.items()} == {"task_id": str, "info": str}
        assert refused["info"] == "failed"


def added(client: DesktopClient, command: str, **keys: Any) -> Row:
    """File a task; its row, wherever it is shown first."""
    assert client.add(command, **keys) == ""

    def row(tables: Tables) -> Row | None:
        rows = [entry for entries in tables.values() for entry in entries]
        return next((entry for entry in rows if entry["exec"] == command), None)

    return client.watch(f"a row for {command}", row)


def row_of(table: list[Row], task_id: str) -> Row | None:
    return next((entry for entry in table if entry["task_id"] == task_id), None)


class Rows:
    """The rows of tasks, as a client is shown them. `show`: what the master itself says of a task."""

    def __init__(self, client: DesktopClient, show: Show) -> None:
        self._client = client
        self._show = show

    def find(self, what: str, table: str, task_id: str, **keys: str) -> Row:
        """The row of a task in this table, with these values. Raises NeverError, which says where it is instead."""

        def look(tables: Tables) -> Row | None:
            row = row_of(tables[table], task_id)
            return row if row and keys.items() <= row.items() else None

        try:
            return self._client.watch(what, look, PATIENCE_S)
        except NeverError as error:
            last = self._client.train.seen[-1].info
            where = {name: row for name, rows in last.items() if (row := row_of(rows, task_id))}
            told = self._show(int(task_id))
            raise NeverError(f"{error}; the last push has task {task_id} in {where}, the master says {told}") from None


def box(frame: Frame, ui: str = "main") -> None:
    """A refusal that the client shows: the box of `change_task`, with a text."""
    text = answered(frame, "ret_change_task", ui)
    assert isinstance(text, str)
    assert text != ""
    assert "\n" not in text


def logs(client: DesktopClient, home: Path) -> None:
    for info in (*ODD, UNKNOWN):
        assert re.fullmatch(r"/[\w@%+=:,./-]+", client.ask("get_train_log_path", info), re.ASCII)
        assert Path(client.ask("get_server_log", info)).parent == home
    for entry in client.tasks()["hist"][-5:]:
        path = Path(client.ask("get_train_log_path", entry["task_id"]))
        assert path.is_absolute()
        assert path.exists()
