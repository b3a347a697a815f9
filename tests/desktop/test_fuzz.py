"""Nothing that a desktop client sends, however broken, ends another client's connection, blocks the loop, reaches a
shell or leaves the visible folders. `MUSTER_FUZZ=50000` in the environment: so many cases instead of 5,000."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from master.desktop import logs, send_queue
from master.desktop.pushes import TaskPushes
from tests.desktop.arrivals import TERMINATOR
from tests.desktop.client import REPLIES, form, request
from tests.desktop.place import DesktopPlace, ThisMachine
from tests.desktop.test_tasks import check_lists
from tests.master.in_process import DATA
from tests.waiting import within
from wire.agent import Probed

CASES = int(os.environ.get("MUSTER_FUZZ", "5000"))
FRAMES_A_CASE = 5
ORDINARY = 100
"""So many requests in turn are the measure of how long one turn of the loop may be: of this machine, on this day."""
EVIL = [
    "../../etc/passwd", "/data/../../x", "/etc/passwd", "$(touch PWNED)", "; touch PWNED;", "`touch PWNED`",
    "| touch PWNED", "\n touch PWNED", "'", '"', "\\", "\0", "{}", "-rf", "--", "~", "字" * 50, "😀", TERMINATOR,
    f'"{TERMINATOR}"', "data", "/data", "/data/", "/data/link", "/data/link/x", "data/x", "00000000000001", "1", "-1",
    "９", "1e5", "true", "base", "plain",
]  # fmt: skip
TEXTS = st.sampled_from(EVIL) | st.text(max_size=20) | st.lists(st.sampled_from(EVIL), max_size=3).map("".join)
JSON = st.recursive(
    TEXTS | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda some: st.lists(some, max_size=3) | st.dictionaries(TEXTS, some, max_size=3),
    max_leaves=6,
)
FORMS = st.dictionaries(st.sampled_from(sorted(form("x"))), TEXTS | JSON, max_size=4).map(
    lambda keys: {**form("x"), **keys}
)
FILES = st.fixed_dictionaries({
    "mode": st.sampled_from(["mkdir", "touch", "mv", "rm"]), "root": TEXTS, "name": TEXTS, "old_name": TEXTS,
    "path": TEXTS, "content": TEXTS,
})  # fmt: skip
INFOS = TEXTS | JSON | FORMS | FILES
REQUESTS = st.builds(request, st.sampled_from([*REPLIES, "nothing"]), INFOS, st.sampled_from(["main", "task"]))
FRAMES = st.one_of(
    REQUESTS,
    REQUESTS,
    REQUESTS,
    st.tuples(REQUESTS, st.integers(0, 60)).map(lambda both: both[0][: -both[1]]),
    st.tuples(REQUESTS, st.integers(0, 60), st.binary(max_size=3)).map(
        lambda all_: all_[0][: all_[1]] + all_[2] + all_[0][all_[1] :]
    ),
    st.binary(max_size=60),
    st.sampled_from(
        [TERMINATOR.encode(), b"CLIEND_CLOSE" + TERMINATOR.encode(), b'{"mode": "', b"[" * 5000, b"\x16\x03\x01"]
    ),
)
CASE = st.lists(FRAMES, min_size=FRAMES_A_CASE, max_size=FRAMES_A_CASE)
END = TERMINATOR.encode()


def is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def is_answer(value: dict[str, Any]) -> bool:
    known: bool = set(value) == {"res", "msg"} and value["res"] in ("seccess", "falied")
    return known and isinstance(value["msg"], str)


def is_folder(value: Any) -> bool:
    keys = value.keys() == {"folder", "file", "curr_path"} and isinstance(value["curr_path"], str)
    return keys and is_texts(value["folder"]) and is_texts(value["file"])


def is_file(value: Any) -> bool:
    good: bool = value["state"] == "success" or (value["state"] == "failed" and value["content"] == "")
    return set(value) == {"file_name", "content", "state"} and good and str(value["file_name"]).startswith("~")


def is_done(value: Any) -> bool:
    return value.keys() == {"task_id", "info"} and value["info"] == "" and len(value["task_id"]) == 14


def is_stopped(value: Any) -> bool:
    return value["info"] in ("success", "failed") and isinstance(value["task_id"], str)


def is_text(value: Any) -> bool:
    return isinstance(value, str)


SHAPES = {
    "ret_root": is_texts,
    "ret_env_list": is_texts,
    "ret_py_v": is_answer,
    "ret_cuda_pt": is_answer,
    "ret_cuda_tf": is_answer,
    "ret_pkgs": is_answer,
    "ret_folder": is_folder,
    "ret_file": is_file,
    "ret_del_task": is_done,
    "ret_resub_task": is_done,
    "ret_stop_task": is_stopped,
}


class Silent(ThisMachine):
    """Answers every question with garbage, at once."""

    async def probe(self, *_what: Any, **_how: Any) -> Probed:
        """Nothing of ours is in it."""
        return Probed(op="probed", probe_id="", code=1, output="?", truncated=False, error="")


class Fuzzed:
    """One master that lives through all cases, with a client that watches beside the one that sends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.runner = asyncio.Runner()
        self.longest = self.ordinary = 0.0
        self.beaten_at = 0.0
        for made in (self.home, folder / "outside"):
            made.mkdir()
        (folder / "outside/kept").write_text("kept", encoding="utf-8")
        self.runner.run(self._open())

    async def _open(self) -> None:
        self.master = await DesktopPlace(self.home).__aenter__()
        self.master.place.fleet = Silent()  # type: ignore[assignment]
        self.master.online()
        self.master.limit(env_requests_per_minute=1_000_000_000)
        (self.home / "data/link").symlink_to(self.folder / "outside")
        self.watching = await asyncio.open_connection(*self.master.address(DATA))
        await self._watch()  # who has asked for nothing is not waited for long, and the first case is
        began = time.thread_time()
        for _ in range(ORDINARY):
            await self._watch()
        self.ordinary = time.thread_time() - began
        self.beaten_at = time.thread_time()
        self.beat = asyncio.create_task(self._beat())
        await asyncio.sleep(0)  # begun later, it would count what hypothesis does before the first case

    async def _beat(self) -> None:
        while True:
            self._seen_beating()
            await asyncio.sleep(0.005)

    def _seen_beating(self) -> None:
        # What it works, and not how long that takes: a busy machine, or a slow disk, is no request's fault.
        now = time.thread_time()
        self.longest = max(self.longest, now - self.beaten_at)
        self.beaten_at = now

    def case(self, frames: list[bytes], *, known: bool) -> None:
        """Send these over a connection of their own, and see that the other client does not notice. `known`: the
        connection begins with a request, so that it is a desktop client's whatever follows."""
        gc.disable()  # hypothesis keeps millions of things by and by; looking through them is not the master's work
        try:
            self.runner.run(within(60, self._case(frames, known=known)))
        finally:
            gc.enable()

    async def _case(self, frames: list[bytes], *, known: bool) -> None:
        self.beaten_at = time.thread_time()  # between two cases the loop stands still, and nobody holds it up
        reader, writer = await asyncio.open_connection(*self.master.address(DATA))
        for frame in [request("get_root", "")] * known + frames:
            writer.write(frame)
        await writer.drain()
        if known:
            # Twice: the first may be half of one that was cut off.
            writer.write(END + END + request("get_root", "", "the last"))
            while (reply := await read(reader)) is not None and reply["ui"] != "the last":
                shape = SHAPES.get(reply["mode"], is_text)
                assert reply["mode"] in REPLIES.values()
                assert shape(reply["info"]), reply
        await self._watch()
        writer.close()
        self._seen_beating()

    async def _watch(self) -> None:
        self.watching[1].write(request("get_root", ""))
        assert await read(self.watching[0]) == {"mode": "ret_root", "ui": "main", "info": ["data", "envs"]}

    def close(self) -> None:
        """Stop it, and see that all is where it belongs."""
        self.runner.run(self._close())
        self.runner.close()
        assert [path.name for path in (self.folder / "outside").iterdir()] == ["kept"]
        assert sorted(path.name for path in self.folder.iterdir()) == ["home", "outside"]
        assert list(self.folder.rglob("PWNED")) == []
        made = {path.name for path in self.home.iterdir()}
        assert made == {"conf.json", "data", "envs", "logs", "server.news.log", "task_info"} & made | {
            "data",
            "envs",
            "logs",
        }
        assert self.longest < 20 * self.ordinary, "the loop was held up"

    async def _close(self) -> None:
        self.beat.cancel()
        frame = TaskPushes(self.master.engine, str(self.home)).frame() or b""
        check_lists(json.loads(frame.removesuffix(END))["info"])
        self.watching[1].close()
        await self.master.__aexit__()


async def read(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """The next frame; None at the end."""
    try:
        frame = await reader.readuntil(END)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    assert frame.isascii()
    value: dict[str, Any] = json.loads(frame.removesuffix(END))
    assert list(value) == ["mode", "ui", "info"]
    return value


def test_no_request_harms_anybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_queue, "GAP_S", 0.0)
    monkeypatch.setattr(logs, "AWAITED_S", 0.01)
    fuzzed = Fuzzed(tmp_path)

    @settings(max_examples=CASES // FRAMES_A_CASE, suppress_health_check=list(HealthCheck))
    @given(CASE, st.sampled_from([True, True, True, False]))
    def harmless(frames: list[bytes], known: bool) -> None:  # noqa: FBT001
        fuzzed.case(frames, known=known)

    try:
        harmless()
    finally:
        fuzzed.close()
