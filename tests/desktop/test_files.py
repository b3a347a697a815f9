"""The desktop client's requests about files: what its tree, its editor and its dialogs are answered."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from master.desktop import files
from tests.desktop.client import DesktopClient
from tests.desktop.place import DesktopPlace, with_client

EMPTY = {"folder": [], "file": [], "curr_path": ""}


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")


def test_the_tree_is_walked_as_the_client_walks_it(tmp_path: Path) -> None:
    def story(client: DesktopClient, _master: DesktopPlace) -> None:
        for name in ("data/b", "data/a/deep", "data/.hidden", "data/with blank", "data/字"):
            (tmp_path / name).mkdir(parents=True)
        for name in ("data/x.txt", "data/.secret", "data/a/y.py"):
            (tmp_path / name).write_text("", encoding="utf-8")
        (tmp_path / "data/out").symlink_to("/etc")
        assert client.ask("get_root") == ["data", "envs"]
        shown = client.ask("get_folder", "/data")
        assert shown == {"folder": ["a", "b", "with blank", "字"], "file": ["x.txt"], "curr_path": "/data"}
        assert client.ask("get_folder", "/data/", "folder_select") == shown
        deeper = client.ask("get_folder", shown["curr_path"] + "/a")
        assert deeper == {"folder": ["deep"], "file": ["y.py"], "curr_path": "/data/a"}
        assert client.ask("get_folder", "/data/a/..") == shown
        assert client.ask("get_folder", "/data/..")["curr_path"] == ""

    with_client(tmp_path, story)


def test_a_large_folder_is_shown_whole_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LISTED_AT_ONCE", 3)
    monkeypatch.setattr(files, "MOST_LISTED", 9)

    def story(client: DesktopClient, _master: DesktopPlace) -> None:
        names = [f"{number:02}.jpg" for number in range(12)]
        for name in names[:8]:
            (tmp_path / "data" / name).touch()
        assert client.ask("get_folder", "/data")["file"] == names[:8]
        for name in names[8:]:
            (tmp_path / "data" / name).touch()
        assert client.ask("get_folder", "/data")["file"] == names[:9]

    with_client(tmp_path, story)


@pytest.mark.parametrize(
    "path",
    ["/nowhere", "/data/nowhere", "/data/x.txt", "/logs", "/", "", "/../..", "/data/../../etc", "/data/out", "/etc",
     "/data/a\0b", "~", "/data/" + "x" * 5000, None, 5, [], {}],
)  # fmt: skip
def test_what_is_no_folder_of_ours_leads_back_to_the_top(tmp_path: Path, path: Any) -> None:
    def story(client: DesktopClient, _master: DesktopPlace) -> None:
        (tmp_path / "data/x.txt").write_text("", encoding="utf-8")
        (tmp_path / "data/out").symlink_to("/etc")
        assert client.ask("get_folder", path) == EMPTY

    with_client(tmp_path, story)


def test_a_text_is_opened_and_saved_whole(tmp_path: Path) -> None:
    def story(client: DesktopClient, _master: DesktopPlace) -> None:
        text = "line\r\n字 \"'_<END_SEND>_\n"
        assert client.ask("save_file", {"path": "/data/new.py", "content": b64(text)}) == "success"
        assert (tmp_path / "data/new.py").read_bytes() == text.encode()
        opened = client.ask("get_file", "/data/new.py")
        assert opened == {"file_name": "~/data/new.py", "content": b64(text), "state": "success"}
        large = "x" * (2 << 20)
        assert client.ask("save_file", {"path": "/data/new.py", "content": b64(large)}) == "success"
        assert base64.b64decode(client.ask("get_file", "/data/new.py")["content"]) == large.encode()
        assert client.ask("save_file", {"path": "/data/new.py", "content": ""}) == "success"
        assert client.ask("get_file", "/data/new.py")["content"] == ""
        in_lines = base64.encodebytes(b"x" * 200).decode("ascii")
        assert client.ask("save_file", {"path": "/data/new.py", "content": in_lines}) == "success"
        assert (tmp_path / "data/new.py").read_bytes() == b"x" * 200

    with_client(tmp_path, story)


def test_what_cannot_be_shown_whole_is_not_shown_so_that_it_cannot_be_saved_damaged(tmp_path: Path) -> None:
    def story(client: DesktopClient, _master: DesktopPlace) -> None:
        (tmp_path / "data/binary").write_bytes(b"\x00\xff\xfe")
        (tmp_path / "data/huge").write_bytes(b"x" * (9 << 20))
        (tmp_path / "data/out").symlink_to("/etc/passwd")
        for name in ("binary", "huge", "nowhere", "out", ".", "../../etc/passwd"):
            path = f"/data/{name}"
            assert client.ask("get_file", path) == {"file_name": f"~{path}", "content": "", "state": "failed"}
        odd: list[Any] = [None, 5, {}, []]
        for bad in odd:
            assert client.ask("get_file", bad) == {"file_name": "~", "content": "", "state": "failed"}

    with_client(tmp_path, story)


def test_files_and_folders_are_made_renamed_and_deleted(tmp_path: Path) -> None:
    def story(client: DesktopClient, _master: DesktopPlace) -> None:
        def operate(mode: str, name: str, old_name: str = "", root: str = "/data/") -> Any:
            return client.ask("file_operate", {"mode": mode, "root": root, "name": name, "old_name": old_name})

        assert operate("mkdir", "new folder") == "success"
        assert (tmp_path / "data/new folder").is_dir()
        assert operate("touch", "a.txt", root="/data/new folder/") == "success"
        assert (tmp_path / "data/new folder/a.txt").read_bytes() == b""
        assert operate("mv", "字", "new folder") == "success"
        assert (tmp_path / "data/字/a.txt").exists()
        assert client.ask("rm_file", "/data/字/a.txt") == "success"
        assert client.ask("rm_file", "/data/字/") == "success"
        assert list((tmp_path / "data").iterdir()) == []

        (tmp_path / "data/there").mkdir()
        refusals = [
            operate("mkdir", "there"),
            operate("touch", "there"),
            operate("mv", "x", "nowhere"),
            operate("mv", "x", ""),
            operate("mkdir", ""),
            operate("mkdir", "../x"),
            operate("mkdir", "..", root="/"),
            operate("mkdir", "x", root="/"),
            operate("mkdir", "x", root="/data/../../"),
            operate("rm", "there"),
            client.ask("file_operate", None),
            client.ask("file_operate", {"mode": "mkdir"}),
            client.ask("rm_file", "/data/nowhere"),
            client.ask("rm_file", "/data"),
            client.ask("rm_file", "/"),
            client.ask("rm_file", "/data/../../x"),
            client.ask("rm_file", None),
            client.ask("save_file", {"path": "/data/x", "content": "not base64!"}),
            client.ask("save_file", {"path": "/etc/x", "content": ""}),
            client.ask("save_file", {"path": "/data/there", "content": ""}),
            client.ask("save_file", "x"),
        ]
        for text in refusals:
            assert isinstance(text, str)
            assert text not in ("", "success")
        assert [path.name for path in (tmp_path / "data").iterdir()] == ["there"]
        assert not (tmp_path.parent / "x").exists()

    with_client(tmp_path, story)
