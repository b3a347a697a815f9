"""Coverage-guided fuzzing of the desktop dialect, by hand: what `test_fuzz` asks, asked by somebody who watches
which lines of ours each input reaches. Not part of `make test`; docs/desktop-client.md says how to run it.

One input is what a client sends on a connection of its own. It goes, cut in two, through the decoder and from there
through the very functions that answer requests, on a real store, real folders, real verbs; only the nodes are feigned.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

atheris: Any = importlib.import_module("atheris")

with atheris.instrument_imports(
    include=["wire", "master.desktop", "master.verbs", "master.files.jail", "master.files.beneath", "master.files.walk"]
):
    from master.core.tasks.task import ACTIVE
    from master.desktop import logs
    from master.desktop.pushes import TaskPushes
    from master.desktop.requests import REQUESTS, answer
    from master.verbs.access import by_desktop_client
    from master.verbs.call import Calls
    from tests.desktop.arrivals import TERMINATOR
    from tests.desktop.client import REPLIES, form, request
    from tests.desktop.place import DesktopPlace
    from tests.desktop.test_fuzz import EVIL, SHAPES, Silent, is_text
    from tests.desktop.test_tasks import check_lists
    from wire import desktop as wire
    from wire.framing import FrameError, LineDecoder, strict_loads

LIMIT = 1 << 20
KEPT = 200
"""Tasks; beyond, the oldest go, or planning would be all that is measured."""
SEEDS = [
    *(request(mode, info) for mode in REPLIES for info in ("", "/data/x", "00000000000001")),
    request("add_task", form(f"echo {TERMINATOR}")),
    request("change_task", form("x", task_id="00000000000001", prev="2", slaver="a")),
    request("save_file", {"path": "/data/x", "content": "eA=="}),
    request("file_operate", {"mode": "mv", "root": "/data/", "name": "y", "old_name": "x"}),
    b'{"mode": "add_task", "info": "open' + TERMINATOR.encode() + request("get_root", ""),
    b"CLIEND_CLOSE" + TERMINATOR.encode(),
]
WORDS = [*EVIL, *REPLIES, *form(""), "root", "name", "old_name", "content", "mkdir", "touch", "mv"]


class Target:
    """A master in this process, and what one input must not do to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.loop = asyncio.new_event_loop()
        for name in ("home", "outside"):
            (folder / name).mkdir()
        (folder / "outside/kept").write_text("kept", encoding="utf-8")
        self.loop.run_until_complete(self._open())
        self.runs = self.requests = 0

    async def _open(self) -> None:
        self.master = await DesktopPlace(self.folder / "home").__aenter__()
        self.master.place.fleet = Silent()  # type: ignore[assignment]
        self.master.online()
        (self.folder / "home/data/link").symlink_to(self.folder / "outside")

    def take(self, data: bytes) -> None:
        """One input: its first two bytes say where it is cut."""
        cut, data = int.from_bytes(data[:2], "big"), data[2:]
        events = wire.Decoder(LIMIT).feed(data)
        in_two = wire.Decoder(LIMIT)
        if [*in_two.feed(data[:cut]), *in_two.feed(data[cut:])] != events:
            raise AssertionError("it matters how the bytes were cut")
        if wire.begins_dialect(data) is False:
            self._lines(data)
        self.loop.run_until_complete(self._answer([one for one in events if isinstance(one, wire.Request)]))
        self.runs += 1
        if self.runs % 1000 == 0:
            self.loop.run_until_complete(self._look_around())

    @staticmethod
    def _lines(data: bytes) -> None:
        for line in LineDecoder(LIMIT).feed(data):
            try:
                strict_loads(line)
            except FrameError:
                continue

    async def _answer(self, requests: list[wire.Request]) -> None:
        calls = Calls(self.master.port_server.dispatcher, by_desktop_client("127.0.0.1", "desktop"))
        for one in requests:
            kind = REQUESTS.get(one.mode)
            if kind is not None:
                mode, info = await answer(kind, calls, one.info)
                frame = wire.encode(mode, info, one.ui)
                self._check(mode, frame)
                self.requests += 1
        core = self.master.core
        idle = [task.id for task in core.tasks.values() if task.state not in ACTIVE]
        for task_id in idle[: -KEPT or None]:
            if task_id in core.tasks:
                self.master.engine.client_change(partial(core.remove, task_id, 1.0, successors=True))
        await asyncio.sleep(0)

    @staticmethod
    def _check(mode: str, frame: bytes) -> None:
        end = TERMINATOR.encode()
        info = json.loads(frame.removesuffix(end))["info"]
        if not (frame.isascii() and frame.count(end) == 1 and mode in REPLIES.values()):
            raise AssertionError(frame)
        if not SHAPES.get(mode, is_text)(info):
            raise AssertionError(frame)

    async def _look_around(self) -> None:
        if [path.name for path in (self.folder / "outside").iterdir()] != ["kept"]:
            raise AssertionError("it left the visible folders")
        if sorted(path.name for path in self.folder.iterdir()) != ["home", "outside"]:
            raise AssertionError("it left the home folder")
        tables = TaskPushes(self.master.engine, str(self.folder / "home")).frame() or b""
        check_lists(json.loads(tables.removesuffix(TERMINATOR.encode()))["info"])
        for path in (self.folder / "home/data").iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != "link":
                path.unlink()


def _hex(word: str) -> str:
    """The bytes of a JSON text's inside, as libFuzzer's dictionaries want them."""
    return "".join(f"\\x{byte:02x}" for byte in json.dumps(word)[1:-1].encode("ascii"))


def main() -> None:
    """Fuzz until the time given to libFuzzer (`-max_total_time=600`) is over."""
    with tempfile.TemporaryDirectory(prefix="muster-fuzz-") as name:
        # libFuzzer ends its process on the spot, so another one is left to tidy up.
        child = os.fork()
        if not child:
            _fuzz(Path(name))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.exit(code)


def _fuzz(folder: Path) -> None:
    """Does not return."""
    logs.AWAITED_S = 0.0
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(SEEDS):
        (corpus / str(number)).write_bytes(b"\0\x05" + seed)
    place = folder / "place"
    place.mkdir()
    words = folder / "words"
    words.write_text("".join(f'"{_hex(word)}"\n' for word in WORDS), encoding="ascii")
    target = Target(place)
    atheris.Setup([*sys.argv, f"-dict={words}", str(corpus)], target.take)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
