"""Files from people's command lines and programs, through a real master to a real disk and back."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from client.api import Client
from tests.system.lab import ROOT, Lab
from tests.waiting import until
from wire.errors import ConflictError, NotFoundError, UnreachableError
from wire.message import Message

BAR_S = 0.5
"""After so long a bar is drawn."""


class FileLab(Lab):
    """A lab that shows `data` and `envs`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, nodes=0)
        self.write_conf(visible_folders=["data", "envs"])
        (folder / "envs").mkdir()
        self.data = folder / "data"
        self.data.mkdir()

    def files(self, *words: str, here: Path, code: int = 0) -> subprocess.CompletedProcess[bytes]:
        """`muster files WORDS` from the folder `here`, which must end with this code."""
        done = subprocess.run(
            [sys.executable, "-m", "muster", "--conf", str(self.conf), "files", *words],
            cwd=here, env={**self.environment(), "PYTHONPATH": str(ROOT)}, capture_output=True, check=False, timeout=600
        )  # fmt: skip
        assert done.returncode == code, done
        return done


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FileLab]:
    """One master for all."""
    made = FileLab(tmp_path_factory.mktemp("files") / "lab")
    made.start()
    yield made
    assert made.close() == []


@pytest.fixture
def lab(running: FileLab) -> Iterator[FileLab]:
    """Its folders, empty."""
    yield running
    subprocess.run(["rm", "-rf", str(running.data)], check=True)
    running.data.mkdir()


@pytest.fixture
def client(lab: FileLab) -> Iterator[Client]:
    """A connection."""
    with lab.client() as made:
        yield made


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Where somebody sits."""
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


def tree(folder: Path) -> dict[str, bytes | None]:
    """Everything in a folder: the content of files, None for folders."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_a_folder_goes_there_and_back_whole(lab: FileLab, here: Path) -> None:
    project = here / "项目 1"
    (project / "src" / "empty").mkdir(parents=True)
    (project / "src" / "train.py").write_text("print()")
    (project / "run.sh").write_text("#!/bin/sh")
    (project / "run.sh").chmod(0o755)
    (project / "weights").write_bytes(os.urandom(3_000_001))
    (project / os.fsdecode(b"\xca\xfd.txt")).write_text("gbk")
    (project / "link").symlink_to("run.sh")
    (project / "loop").symlink_to("..")
    os.mkfifo(project / "fifo")
    done = lab.files("put", "-r", "项目 1", "data", here=here)
    assert b"skipped: " in done.stderr
    assert done.stdout == b""
    expected = tree(project)
    for left_out in ("loop", "fifo"):
        del expected[left_out]
    assert tree(lab.data / "项目 1") == expected
    assert (lab.data / "项目 1/run.sh").stat().st_mode & 0o111
    lab.files("get", "-r", "data/项目 1", "back", here=here)
    assert tree(here / "back") == expected
    assert (here / "back/run.sh").stat().st_mode & 0o111
    assert lab.files("put", "项目 1", "data", here=here, code=1).stderr.endswith(b"with all that is in it\n")


def test_what_is_there_is_listed_shown_and_put_in_order(lab: FileLab, here: Path) -> None:
    (here / "a.txt").write_text("hello\n")
    lab.files("mkdir", "-p", "data/runs/1", here=here)
    lab.files("put", "a.txt", "data/runs/1", here=here)
    assert lab.files("roots", here=here).stdout == lab.files("ls", here=here).stdout == b"data\nenvs\n"
    assert lab.files("cat", "data/runs/1/a.txt", here=here).stdout == b"hello\n"
    lab.files("cp", "-r", "data/runs/1", "data/runs/2", here=here)
    lab.files("mv", "data/runs/1/a.txt", "data/runs/b.txt", here=here)
    (lab.data / "runs/.hidden").touch()
    (lab.data / "runs/li\x1bnk").symlink_to("b.txt")
    assert lab.files("ls", "data/runs", here=here).stdout == b"1/\n2/\nb.txt\nli\\x1bnk@\n"
    assert lab.files("ls", "-a", "data/runs", here=here).stdout.startswith(b".hidden\n")
    long = lab.files("ls", "-l", "data/runs", here=here).stdout.decode().splitlines()
    assert long[3].split()[:2] == ["-rw-r--r--", "6B"]
    entries = json.loads(lab.files("ls", "data/runs/2", "--json", here=here).stdout)
    assert [(entry["name"], entry["size"]) for entry in entries] == [("a.txt", 6)]
    assert json.loads(lab.files("--json", "cat", "data/runs/b.txt", here=here).stdout)["text"] == "hello\n"
    refused = lab.files("cp", "data/runs/b.txt", "data/runs/2/a.txt", here=here, code=1)
    told = Message("is_there", path="data/runs/2/a.txt")
    assert refused.stderr.decode() == f"error: conflict: {told}\n"
    lab.files("cp", "-f", "data/runs/b.txt", "data/runs/2/a.txt", here=here)
    assert b"error: conflict: " in lab.files("rm", "data/runs", here=here, code=1).stderr
    assert json.loads(lab.files("rm", "-r", "data/runs", "--json", here=here).stdout) == [
        {"path": "data/runs", "deleted": 7}
    ]
    assert lab.files("rm", "data/none", here=here, code=1).stderr.startswith(b"error: not_found: ")
    lab.files("rm", "-f", "data/none", here=here)


def test_forcing_does_not_make_a_deletion_of_what_nobody_may_reach(lab: FileLab, here: Path) -> None:
    refused = lab.files("rm", "-rf", "train_logs", "data//none", here=here, code=1)
    assert refused.stderr.startswith(b"error: not_found: 'train_logs': not in a visible folder")
    assert refused.stderr.count(b"\n") == 1


def test_one_refusal_does_not_stop_the_others(lab: FileLab, here: Path) -> None:
    done = lab.files("mkdir", "data/a", "nowhere/b", "data/c", here=here, code=1)
    assert done.stderr.count(b"\n") == 1
    assert sorted(tree(lab.data)) == ["a", "c"]
    (lab.data / "x").touch()
    (here / "y").touch()
    done = lab.files("get", "data/x", "data/none", ".", here=here, code=1)
    assert (here / "x").exists()
    done = lab.files("put", "y", "none", "data", here=here, code=1)
    assert b"none" in done.stderr
    assert (lab.data / "y").exists()


def test_names_that_are_no_text_can_be_typed(lab: FileLab, here: Path) -> None:
    raw = os.fsdecode(b"data/\xca\xfd")
    (lab.folder / raw).write_text("gbk")
    assert lab.files("cat", raw, here=here).stdout == b"gbk"
    lab.files("get", raw, here=here)
    assert (here / os.fsdecode(b"\xca\xfd")).read_text() == "gbk"
    (name,) = [entry["name"] for entry in json.loads(lab.files("ls", "data", "--json", here=here).stdout)]
    lab.files("mv", f"data/{name}", "data/plain", here=here)
    assert sorted(tree(lab.data)) == ["plain"]


def test_the_longest_names_travel_too(lab: FileLab, here: Path) -> None:
    """While a download is collected its name is longer still."""
    names = ["数" * 85, "数" * 84 + "集", "x" * 255]
    for name in names:
        (here / name).write_bytes(os.urandom(100))
    lab.files("put", *names, "data", here=here)
    back = here / "back"
    back.mkdir()
    lab.files("get", *(f"data/{name}" for name in names), "back", here=here)
    assert tree(back) == tree(lab.data) == {name: (here / name).read_bytes() for name in names}


def test_a_link_is_sent_under_its_own_name(lab: FileLab, here: Path) -> None:
    (here / "model-17.pt").write_text("weights")
    (here / "latest.pt").symlink_to("model-17.pt")
    lab.files("put", "latest.pt", "data", here=here)
    assert tree(lab.data) == {"latest.pt": b"weights"}
    lab.files("put", "-r", ".", "data", here=here)
    assert sorted(tree(lab.data)) == ["here", "here/latest.pt", "here/model-17.pt", "latest.pt"]


def test_a_folder_in_the_way_of_a_download_is_told_before_it_begins(lab: FileLab, here: Path) -> None:
    (lab.data / "x").write_text("file")
    (here / "x").mkdir()
    refused = lab.files("get", "data/x", here=here, code=1).stderr
    assert refused == b"error: bad_request: ./x is a folder here; data/x is none: name another target\n"
    assert tree(here) == {"x": None}


def test_paths_that_begin_with_a_dash(lab: FileLab, here: Path) -> None:
    (here / "-r").write_text("x")
    lab.files("put", "--", "-r", "data/-r", here=here)
    lab.files("mv", "--", "data/-r", "data/-f", here=here)
    assert sorted(tree(lab.data)) == ["-f"]


@pytest.mark.parametrize(
    "words", [("put", "x"), ("ls", "-r", "data"), ("cat",), ("mv", "data/x"), ("rename", "a", "b"), ()]
)
def test_wrong_usage_is_told_in_one_line(lab: FileLab, here: Path, words: tuple[str, ...]) -> None:
    done = lab.files(*words, here=here, code=2)
    assert done.stderr.startswith(b"error: usage: ")
    assert done.stderr.count(b"\n") == 1


def test_progress_is_told_and_adds_up(client: Client, lab: FileLab, here: Path) -> None:
    content = os.urandom(5 * (1 << 20) + 17)
    (here / "big").write_bytes(content)
    seen: list[tuple[int, int]] = []
    entry = client.files.upload(str(here / "big"), "data/big", progress=lambda *at: seen.append(at))
    assert (entry["size"], (lab.data / "big").read_bytes()) == (len(content), content)
    assert seen[0] == (1 << 20, len(content))
    assert seen[-1] == (len(content), len(content))
    assert seen == sorted(seen)
    with pytest.raises(ConflictError):
        client.files.upload(str(here / "big"), "data/big", overwrite=False)
    seen.clear()
    assert client.files.download("data/big", str(here / "back"), progress=lambda *at: seen.append(at))
    assert (here / "back").read_bytes() == b"".join(client.files.pieces("data/big")) == content
    assert seen[-1] == (len(content), len(content))
    assert sorted(tree(here)) == ["back", "big"]


class _Interrupted(Exception):  # noqa: N818  (what a test raises in the middle of a transfer)
    """Somebody pressed Ctrl-C."""


def _after(pieces: int) -> object:
    def progress(done: int, _total: int) -> None:
        if done >= pieces << 20:
            raise _Interrupted

    return progress


def test_a_download_that_was_cut_off_goes_on_where_it_was(client: Client, lab: FileLab, here: Path) -> None:
    content = os.urandom(6 << 20)
    (lab.data / "big").write_bytes(content)
    with pytest.raises(_Interrupted):
        client.files.download("data/big", str(here / "big"), progress=_after(4))  # type: ignore[arg-type]
    assert not (here / "big").exists()
    first: list[int] = []
    client.files.download("data/big", str(here / "big"), progress=lambda done, _: first.append(done))
    assert first[0] == 4 << 20, "what was there was not fetched again"
    assert (here / "big").read_bytes() == content
    # Another version is another file.
    with pytest.raises(_Interrupted):
        client.files.download("data/big", str(here / "other"), progress=_after(4))  # type: ignore[arg-type]
    newer = os.urandom(6 << 20)
    (lab.data / "big").write_bytes(newer)
    client.files.download("data/big", str(here / "other"))
    assert (here / "other").read_bytes() == newer


def test_a_file_that_changes_meanwhile_is_told(client: Client, lab: FileLab, here: Path) -> None:
    path = lab.data / "big"
    path.write_bytes(bytes(3 << 20))
    assert not client.files.download("data/big", str(here / "big"), progress=lambda *_: path.touch())
    assert (here / "big").stat().st_size == 3 << 20
    path.write_bytes(bytes(3 << 20))
    with pytest.raises(ConflictError, match="shorter"):
        client.files.download("data/big", str(here / "cut"), progress=lambda *_: os.truncate(path, 10))


def test_two_downloads_of_one_file_to_one_place_do_not_mix(client: Client, lab: FileLab, here: Path) -> None:
    (lab.data / "big").write_bytes(bytes(3 << 20))

    def again(*_: int) -> None:
        with lab.client() as other, pytest.raises(ConflictError, match="already"):
            other.files.download("data/big", str(here / "big"))

    client.files.download("data/big", str(here / "big"), progress=again)
    assert (here / "big").stat().st_size == 3 << 20


def test_an_upload_that_is_given_up_leaves_nothing(client: Client, lab: FileLab, here: Path) -> None:
    (here / "big").write_bytes(bytes(4 << 20))
    with pytest.raises(_Interrupted):
        client.files.upload(str(here / "big"), "data/big", progress=_after(2))  # type: ignore[arg-type]
    assert tree(lab.data) == {}
    with pytest.raises(ConflictError, match="are here"):
        client.files.upload(str(here / "big"), "data/big", progress=lambda *_: os.truncate(here / "big", 1 << 20))
    assert tree(lab.data) == {}
    assert client.files.roots() == ["data", "envs"], "the connection is good for more"


def test_an_upload_outlives_its_master(tmp_path: Path, here: Path) -> None:
    lab = FileLab(tmp_path / "lab")
    lab.start()
    content = os.urandom(8 << 20)
    (here / "big").write_bytes(content)
    restarted = threading.Event()

    def restart(done: int, _total: int) -> None:
        if done == 4 << 20:
            lab.kill_master()
            lab.start()
            restarted.set()

    try:
        with lab.client() as client:
            client.files.upload(str(here / "big"), "data/big", progress=restart)
        assert restarted.is_set()
        assert tree(lab.data) == {"big": content}
    finally:
        assert lab.close() == []


def test_a_bar_is_drawn_on_a_terminal_only(lab: FileLab, here: Path) -> None:
    (lab.data / "big").write_bytes(bytes(40 << 20))
    command = [sys.executable, "-m", "muster", "--conf", str(lab.conf), "files", "get", "data/big", f"{here}/big"]
    shown = _held_up(lab, here, ["script", "-qec", shlex.join(command), "/dev/null"])
    assert b"data/big" in shown
    assert b"of 40M" in shown
    assert shown.endswith(b"\r\x1b[K")
    (here / "big").unlink()
    assert _held_up(lab, here, command) == b""


def _held_up(lab: FileLab, here: Path, command: list[str]) -> bytes:
    """What a transfer writes to stderr, or to its terminal, while the master stands still for longer than it takes
    until a bar is drawn."""
    assert lab.master is not None
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=lab.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as transfer:
        begun = until("the transfer has begun", lambda: list(here.glob("*.part")), turn=partial(time.sleep, 0.002))
        lab.master.send_signal(signal.SIGSTOP)
        assert begun[0].exists()  # it is not over yet
        passed = time.monotonic() + 2 * BAR_S
        until("the bar is due", lambda: time.monotonic() > passed)
        lab.master.send_signal(signal.SIGCONT)
        shown: bytes = transfer.communicate(timeout=600)[0]
        assert transfer.returncode == 0
    return shown


def test_what_cannot_be_is_an_error_of_the_api(client: Client, lab: FileLab, here: Path) -> None:
    assert lab.data.exists()
    with pytest.raises(NotFoundError):
        client.files.list("data/none")
    with pytest.raises(FileNotFoundError):
        client.files.upload(str(here / "none"), "data/x")
    with pytest.raises(NotFoundError):
        client.files.download("data/none", str(here / "x"))
    assert tree(here) == {}
    client.files.make_file("data/f")
    client.files.write("data/f", b"1")
    client.files.make_folder("data/d")
    client.files.move("data/f", "data/d/f")
    assert client.files.copy("data/d", "data/e")["files"] == 1
    assert client.files.delete("data/d", recursive=True) == 2
    assert [entry["name"] for entry in client.files.list("data")] == ["e"]


def test_without_a_master_it_is_exit_3(tmp_path: Path, here: Path) -> None:
    lab = FileLab(tmp_path / "lab")
    assert lab.files("ls", "data", here=here, code=3).stderr.startswith(b"error: unreachable: ")
    with pytest.raises(UnreachableError):
        lab.client()
