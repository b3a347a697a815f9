"""The verbs about files, over a real socket: what they take, what they give, and that the loop never waits for them."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from master.files import drafts
from master.files.service import Files
from tests.faults import says
from tests.master.durable.storage import hanging
from tests.master.in_process import InProcess, run
from tests.waiting import settled


def lab(tmp_path: Path, **how: Any) -> InProcess:
    """A master that shows `data` and `nfs`."""
    master = InProcess(tmp_path)
    (tmp_path / "data").mkdir()
    master.files = Files(tmp_path, ("data", "nfs"), **how)  # type: ignore[attr-defined]
    return master


async def open_lab(master: InProcess) -> Any:
    """Its first peer."""
    master.place.files = master.files  # type: ignore[attr-defined]
    return await master.peer()


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_a_file_is_written_listed_read_moved_copied_and_deleted(tmp_path: Path) -> None:
    async def story() -> None:
        async with lab(tmp_path) as master:
            peer = await open_lab(master)
            assert await peer.call("file.roots") == {
                "root": str(tmp_path),
                "folders": [{"name": "data", "exists": True}, {"name": "nfs", "exists": False}],
            }
            await peer.call("file.make", path="data/a/b", kind="folder", parents=True)
            await peer.call("file.make", path="data/c/d/empty", kind="file", parents=True)
            assert await peer.call("file.write", path="data/a/x", content=b64(b"hello"), mode=0o600) == {"size": 5}
            assert await peer.call("file.copy", **{"from": "data/a", "to": "data/copy"}) == {
                "files": 1, "folders": 2, "links": 0, "bytes": 5, "skipped": [],
            }  # fmt: skip
            await peer.call("file.move", **{"from": "data/copy/x", "to": "data/y"})
            read = await peer.call("file.read", path="data/y", offset=-4, limit=2)
            assert base64.b64decode(read.pop("data")) == b"el"
            of_file = {"mtime_ns": read["mtime_ns"], "file": read["file"]}
            assert read == {"offset": 1, "size": 5, "mode": 0o600, **of_file}
            await peer.call("file.write", path="data/y", content=b64(b"other"))
            assert (await peer.call("file.read", path="data/y"))["file"] != of_file["file"]
            listing = await peer.call("file.list", path="data")
            assert [(entry["name"], entry["kind"]) for entry in listing["entries"]] == [
                ("a", "folder"), ("c", "folder"), ("copy", "folder"), ("y", "file"),
            ]  # fmt: skip
            assert (await peer.call("file.list", path="data", after="a", limit=1))["truncated"]
            stat = await peer.call("file.stat", path="data/y")
            assert (stat["size"], stat["mode"], stat["link"], stat["hidden"]) == (5, 0o600, False, False)
            assert await peer.call("file.delete", path="data/c", recursive=True) == {"deleted": 3}
            assert sorted(os.listdir(tmp_path / "data")) == ["a", "copy", "y"]  # noqa: PTH208

    run(story())


@pytest.mark.parametrize(
    ("verb", "params", "code"),
    [
        ("file.list", {"path": "../data"}, "bad_request"),
        ("file.list", {"path": "secret"}, "not_found"),
        ("file.read", {"path": "data/out"}, "forbidden"),
        ("file.read", {"path": "data/none"}, "not_found"),
        ("file.write", {"path": "data/x", "content": "no base64!"}, "bad_request"),
        ("file.write", {"path": "data/x", "content": "", "mode": 0o4755}, "bad_request"),
        ("file.make", {"path": "data/x", "kind": "device"}, "bad_request"),
        ("file.make", {"path": "data", "kind": "folder"}, "conflict"),
        ("file.move", {"from": "data/out", "to": "elsewhere/x"}, "not_found"),
        ("file.copy", {"from": "data/out", "to": "/etc/x"}, "bad_request"),
        ("file.delete", {"path": "data"}, "bad_request"),
        ("file.upload_begin", {"path": "data/x", "size": 1001}, "limit"),
        ("file.upload_piece", {"path": "data/x", "upload": "../x", "offset": 0, "content": ""}, "bad_request"),
        ("file.list", {"path": ""}, "bad_request"),
    ],
)
def test_what_is_refused_has_a_stable_code(tmp_path: Path, verb: str, params: dict[str, Any], code: str) -> None:
    async def story() -> None:
        async with lab(tmp_path, upload_bytes=lambda: 1000) as master:
            (tmp_path / "data/out").symlink_to("/etc/passwd")
            peer = await open_lab(master)
            assert (await peer.refusal(verb, **params))[0] == code
            assert os.listdir(tmp_path / "data") == ["out"]  # noqa: PTH208

    run(story())


def test_an_upload_over_the_wire(tmp_path: Path) -> None:
    async def story() -> None:
        async with lab(tmp_path, book=tmp_path / "drafts.json") as master:
            peer = await open_lab(master)
            begun = await peer.call("file.upload_begin", path="data/x", size=6)
            assert (begun["received"], begun["piece"]) == (0, 1 << 20)
            which = {"path": "data/x", "upload": begun["upload"]}
            assert await peer.call("file.upload_piece", **which, offset=0, content=b64(b"abc")) == {"received": 3}
            assert (await peer.call("file.upload_begin", **which, size=6))["received"] == 3
            await peer.call("file.upload_piece", **which, offset=3, content=b64(b"def"))
            entry = await peer.call("file.upload_commit", **which, size=6)
            assert (entry["name"], entry["size"], (tmp_path / "data/x").read_bytes()) == ("x", 6, b"abcdef")
            other = await peer.call("file.upload_begin", path="data/y", size=6)
            await peer.call("file.upload_cancel", path="data/y", upload=other["upload"])
            assert os.listdir(tmp_path / "data") == ["x"]  # noqa: PTH208

    run(story())


def test_a_user_has_so_many_unfinished_uploads_and_goes_on_with_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafts, "MOST_OF_ONE", 2)

    async def story() -> None:
        async with lab(tmp_path) as master:
            peer = await open_lab(master)
            begun = [await peer.call("file.upload_begin", path=f"data/{name}", size=1) for name in "ab"]
            _, why = await peer.told("file.upload_begin", path="data/c", size=1)
            assert says(why, "uploads_unfinished")
            which = {"path": "data/a", "upload": begun[0]["upload"]}
            assert (await peer.call("file.upload_begin", **which, size=1))["received"] == 0
            await peer.call("file.write", path="data/c", content=b64(b"x"))
            await peer.call("file.upload_cancel", **which)
            await peer.call("file.upload_begin", path="data/c", size=1)

    run(story())


def test_a_storage_that_hangs_keeps_nobody_from_the_others(tmp_path: Path) -> None:
    async def story() -> None:
        async with lab(tmp_path) as master:
            master.files.quick.patience_s = 2.0  # type: ignore[attr-defined]
            peer = await open_lab(master)
            other = await master.peer()
            with hanging(tmp_path / "nfs"):
                asked = [peer.ask("file.list", path="nfs") for _ in range(4)]
                assert (await other.call("file.list", path="data"))["entries"] == []
                assert master.files.quick.running["nfs"] == 4, "they still hang"  # type: ignore[attr-defined]
                for _ in asked:
                    answer = await peer.read()
                    assert answer["error"]["data"]["code"] == "storage"
                code, message = await other.refusal("file.list", path="nfs/x")
                assert (code, "4 calls hang" in message) == ("storage", True)
                assert (await other.call("file.list", path="data"))["entries"] == []
            await settled(lambda: not master.files.quick.running)  # type: ignore[attr-defined]
            assert (await other.refusal("file.list", path="nfs/x"))[0] == "not_found"

    run(story())
