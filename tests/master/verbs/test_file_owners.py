"""Files that have owners, over the wire: every verb that names a path, in both dialects, and the verbs that tell of a
place by the way."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from master.files.owners import Owners
from master.files.service import Files
from master.ports import port_server
from master.verbs.access import ALL_SCOPES, USER_SCOPES, Caller, who
from master.verbs.table import VERBS
from tests.desktop.client import DesktopClient
from tests.desktop.place import VISIBLE, DesktopPlace, in_loop, with_client
from tests.master.in_process import InProcess, Peer, began_before, run
from tests.master.verbs.test_preflight import let_all_search

RULES: Any = {"data/{user}": "own", "data/groups/{group}": "group"}
ANN = Caller("127.0.0.1", "ann", "user", USER_SCOPES, "local", counted_as="ann")
BOB = Caller("127.0.0.1", "bob", "user", USER_SCOPES, "local", counted_as="bob", groups=frozenset({"vision"}))
ADMIN = Caller("127.0.0.1", "root", "admin", ALL_SCOPES, "local", counted_as="root")
NAMES_NO_PATH = {"file.roots"}


def questions(folder: str) -> dict[str, list[dict[str, Any]]]:
    """Every verb of files, about `folder`, in an order in which all can be done."""
    ours = "data/bob"
    return {
        "file.make": [{"path": f"{folder}/new", "kind": "folder"}, {"path": f"{folder}/empty", "kind": "file"}],
        "file.write": [{"path": f"{folder}/file", "content": base64.b64encode(b"hers").decode()}],
        "file.list": [{"path": folder}],
        "file.stat": [{"path": f"{folder}/file"}],
        "file.read": [{"path": f"{folder}/file"}],
        "file.copy": [{"from": f"{folder}/file", "to": f"{ours}/a"}, {"from": f"{ours}/f", "to": f"{folder}/b"}],
        "file.move": [{"from": f"{folder}/b", "to": f"{ours}/c"}, {"from": f"{ours}/f", "to": f"{folder}/d"}],
        "file.delete": [{"path": f"{folder}/d"}],
        "file.upload_begin": [{"path": f"{folder}/up", "size": 3}],
        "file.upload_piece": [{"path": f"{folder}/up", "upload": "0" * 16, "offset": 0, "content": "AAAA"}],
        "file.upload_commit": [{"path": f"{folder}/up", "upload": "0" * 16, "size": 3}],
        "file.upload_cancel": [{"path": f"{folder}/up", "upload": "0" * 16}],
    }


def lab(folder: Path) -> InProcess:
    """A master with a folder each for ann and bob, and a file in bob's."""
    for name in ("data/ann", "data/bob", "data/x"):
        (folder / name).mkdir(parents=True)
    (folder / "data/bob/f").write_text("his")
    return InProcess(folder)


async def peer_as(master: InProcess, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> Peer:
    master.place.files = Files(master.folder, ("data",), owners=Owners(RULES))
    monkeypatch.setattr(port_server, "by_kernel", lambda _peer, **_: lambda _people, _now: caller)
    peer = await master.peer()
    await peer.answer(peer.ask("no.such.verb"))
    return peer


def test_every_verb_of_files_is_asked_here() -> None:
    assert questions("").keys() == {name for name in VERBS if name.startswith("file.")} - NAMES_NO_PATH


@pytest.mark.parametrize("folder", ["data/ann", "data/nobody", "data/ann/none", "data/groups/nlp"])
def test_no_verb_touches_or_tells_of_what_is_anothers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    async def story() -> None:
        async with lab(tmp_path) as master:
            (tmp_path / "data/ann/file").write_text("hers")
            peer = await peer_as(master, BOB, monkeypatch)
            for verb, asked in questions(folder).items():
                for params in asked:
                    code, told = await peer.refusal(verb, **params)
                    assert code == "forbidden", (verb, told)
                    assert "not yours" in told

    run(story())
    assert sorted(path.name for path in tmp_path.glob("data/*/*")) == ["f", "file"]


@pytest.mark.parametrize(
    ("caller", "folder"),
    [(ADMIN, "data/ann"), (BOB, "data/bob/own"), (BOB, "data/groups/vision"), (ADMIN, "data/nobody")],
)
def test_an_admin_and_the_owner_do_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caller: Caller, folder: str
) -> None:
    async def story() -> None:
        async with lab(tmp_path) as master:
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
            peer = await peer_as(master, caller, monkeypatch)
            begun = ""
            for verb, asked in questions(folder).items():
                for params in asked:
                    if "upload" in params:
                        params["upload"] = begun
                    done = await peer.call(verb, **params)
                    begun = done["upload"] if verb == "file.upload_begin" else begun

    run(story())


def test_lists_hold_what_one_may_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with lab(tmp_path) as master:
            for caller, expected in ((ANN, ["ann"]), (BOB, ["bob"]), (ADMIN, ["ann", "bob", "x"])):
                peer = await peer_as(master, caller, monkeypatch)
                assert [entry["name"] for entry in (await peer.call("file.list", path="data"))["entries"]] == expected
                assert (await peer.call("file.roots"))["folders"] == [{"name": "data", "exists": True}]

    run(story())


def test_the_desktop_client_goes_the_same_way(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        for name in ("ann", "desktop"):
            (tmp_path / "data" / name).mkdir()
            (tmp_path / "data" / name / "f").write_text(f"of {name}")
        (tmp_path / "data/desktop/l").symlink_to("../ann")

        def owned() -> None:
            master.place.files = Files(tmp_path, VISIBLE, owners=Owners(RULES))

        in_loop(master, owned)
        assert client.ask("get_root") == list(VISIBLE)
        assert client.ask("get_folder", "/data")["folder"] == ["desktop"]
        assert client.ask("get_file", "/data/desktop/f")["state"] == "success"
        for folder in ("/data/ann", "/data/desktop/l"):
            assert client.ask("get_folder", folder) == {"folder": [], "file": [], "curr_path": ""}
            assert client.ask("get_file", f"{folder}/f")["state"] == "failed"
            assert client.ask("save_file", {"path": f"{folder}/f", "content": ""}) != "success"
            for mode in ("mkdir", "touch", "mv"):
                wanted = {"mode": mode, "root": folder, "name": "new", "old_name": "f"}
                assert client.ask("file_operate", wanted) != "success"
            assert client.ask("rm_file", f"{folder}/f") != "success"
        assert [path.name for path in (tmp_path / "data/ann").iterdir()] == ["f"]
        assert (tmp_path / "data/ann/f").read_text() == "of ann"

    with_client(tmp_path, story)


def test_logs_in_a_folder_that_would_be_somebodys_own_are_shown_to_their_owners_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`data/task_logs` is to `data/{user}` the folder of a user of that name."""

    async def story() -> None:
        async with lab(tmp_path) as master:
            logs = tmp_path / "data/task_logs"
            logs.mkdir()
            master.place.log_folder = str(logs)
            (logs / "1.log").write_text("his own")
            (logs / "2.log").write_text("hers")
            bob, ann = [await peer_as(master, caller, monkeypatch) for caller in (BOB, ANN)]
            for peer, log in ((bob, "data/task_logs/1.log"), (ann, "data/task_logs/2.log"), (bob, "data/bob/trap")):
                await peer.call("task.submit", command="true", hold=True, log=log)
            began_before(master.core, 1, 2)
            (tmp_path / "data/bob/trap").symlink_to("../task_logs/2.log")
            assert base64.b64decode((await bob.call("log.read", id=1))["data"]) == b"his own"
            assert base64.b64decode((await ann.call("log.read", id=2))["data"]) == b"hers"
            code, told = await bob.refusal("log.read", id=3)
            assert (code, "you are shown 3.log only" in told) == ("forbidden", True)
            assert (await bob.refusal("file.list", path="data/task_logs"))[0] == "forbidden"

    run(story())


def test_a_log_that_was_to_lie_in_anothers_folder_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with lab(tmp_path) as master:
            (tmp_path / "data/ann/diary").write_text("hers")
            (tmp_path / "data/bob/l").symlink_to("../ann/diary")
            (tmp_path / "logs").mkdir()
            (tmp_path / "logs/3.log").symlink_to("../data/ann/diary")
            peer = await peer_as(master, BOB, monkeypatch)
            for log in ("data/ann/diary", "data/bob/l", None, "data/bob/f"):
                await peer.call("task.submit", command="true", hold=True, **({} if log is None else {"log": log}))
            began_before(master.core, 3)
            assert (await peer.refusal("log.read", id=1))[0] == "forbidden"
            for number in (2, 3):
                assert (await peer.call("log.read", id=number))["data"] == ""
            assert base64.b64decode((await peer.call("log.read", id=4))["data"]) == b"his"
            admin = await peer_as(master, ADMIN, monkeypatch)
            for number in (1, 2, 3):
                assert base64.b64decode((await admin.call("log.read", id=number))["data"]) == b"hers"

    run(story())


@pytest.mark.usefixtures("unhurried_look")
def test_what_is_missing_for_a_task_tells_nothing_of_anothers_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with lab(tmp_path) as master:
            let_all_search(tmp_path)
            (tmp_path / "data/ann/sub").mkdir()
            (tmp_path / "data/bob/l").symlink_to("../ann")
            peer = await peer_as(master, BOB, monkeypatch)

            async def missing(path: str) -> int:
                return len((await peer.call("task.places", cwd=f"{tmp_path}/{path}"))["missing"])

            assert await missing("data/ann/sub") == await missing("data/ann/none") == 0
            assert await missing("data/bob/l/sub") == await missing("data/bob/l/none") == 1
            assert await missing("data/bob") == 0
            assert await missing("data/bob/none") == 1
            assert await missing("elsewhere") == 1
            peer = await peer_as(master, ADMIN, monkeypatch)
            assert (await missing("data/ann/sub"), await missing("data/ann/none")) == (0, 1)

    run(story())


def test_who_somebody_is_to_the_files_follows_from_the_caller() -> None:
    assert who(BOB) == ("bob", frozenset({"vision"}), False)
    assert who(ADMIN).sees_all
    assert not who(Caller("10.0.0.1", "desktop", "user", USER_SCOPES, "desktop", all_tasks=True)).sees_all
    assert who(Caller("10.0.0.1")).user == ""
