"""What the desktop client, or anybody, may delete of a real lab whose logs and environments lie in a visible folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desktop.client import DesktopClient
from tests.system.lab import PORTS, Lab
from tests.waiting import until
from wire.errors import ConflictError
from wire.message import Message, plain


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """One node; `data` and `envs` are visible, the logs lie in `data/logs`, the environments in `envs/conda`."""
    one = Lab(tmp_path, nodes=1, gpus=0)
    for name in ("data/logs", "data/project/src", "data/empty", "envs/conda/envs/torch/bin"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "data/project/src/train.py").touch()
    (tmp_path / "envs/conda/envs/torch/bin/activate").touch()
    one.write_conf(visible_folders=["data", "data/project", "envs"], train_log_path="data/logs", conda="envs/conda")
    try:
        one.start()
        yield one
    finally:
        left = one.close()
    assert left == []


def desktop(lab: Lab) -> DesktopClient:
    return DesktopClient({name: ("127.0.0.1", lab.keys["socket_info"][name]) for name in PORTS})


def everything(lab: Lab) -> set[str]:
    return {str(path.relative_to(lab.folder)) for name in ("data", "envs") for path in (lab.folder / name).rglob("*")}


def test_a_second_press_of_delete_takes_a_file_and_never_the_folder_around_it(lab: Lab) -> None:
    (lab.folder / "data/empty/a.txt").touch()
    (lab.folder / "data/empty/b.txt").touch()
    with desktop(lab) as client:
        assert client.ask("get_folder", "/data/empty")["file"] == ["a.txt", "b.txt"]
        assert client.ask("rm_file", "/data/empty/a.txt") == "success"
        # The list was refreshed and nothing is selected: the button sends the folder that is shown.
        assert "Directory not empty" in client.ask("rm_file", client.ask("get_folder", "/data/empty")["curr_path"])
        assert client.ask("get_folder", "/data/empty")["file"] == ["b.txt"]
        assert client.ask("rm_file", "/data/empty/b.txt") == "success"
        assert client.ask("rm_file", "/data/empty") == "success", "an empty one goes, as ever"
        assert not (lab.folder / "data/empty").exists()


def test_no_surface_takes_away_what_tasks_and_environments_live_in(lab: Lab) -> None:
    with lab.client() as muster:
        number = muster.submit("sleep 60", cwd=str(lab.folder / "data/project/src"))
        until("it runs", lambda: muster.show(number)["state"] == "running")
    before = everything(lab)
    standing = ["data/logs", "data/project", "data/project/src", "envs/conda", "envs/conda/envs"]
    with desktop(lab) as client:
        for path in (*standing, "data", "envs"):
            assert client.ask("rm_file", f"/{path}") not in ("", "success"), path
            for words in (
                ("rm", "-r", path),
                ("rm", "-rf", path),
                ("mv", path, "envs/gone" if path == "data" else "data/gone"),
            ):
                done = lab.muster("files", *words)
                assert (done.returncode, done.stdout) == (1, ""), (words, done)
                is_visible = str(Message("is_visible_folder", path=path)) in done.stderr
                assert is_visible or done.stderr.startswith("error: conflict: "), done
            folder, _, name = path.rpartition("/")
            renamed = {"mode": "mv", "root": f"/{folder}/", "name": "gone", "old_name": name}
            assert client.ask("file_operate", renamed) not in ("", "success"), path
        assert everything(lab) == before
    with lab.client() as muster:
        muster.cancel([number])
        until("its end", lambda: muster.show(number)["state"] == "cancelled")
    assert lab.muster("files", "rm", "-r", "data/project/src").returncode == 0, "nobody lives there any more"


def test_an_empty_folder_in_which_a_task_runs_is_not_replaced_by_another(lab: Lab) -> None:
    (lab.folder / "data/other").mkdir()
    with lab.client() as muster:
        number = muster.submit("sleep 60", cwd=str(lab.folder / "data/empty"))
        until("it runs", lambda: muster.show(number)["state"] == "running")
        before = (lab.folder / "data/empty").stat().st_ino
        for method in ("file.move", "file.copy"):
            with pytest.raises(ConflictError) as refused:
                muster.call(method, {"from": "data/other", "to": "data/empty", "overwrite": True})
            why = plain(Message("holds_task", id=number, state="running"))
            assert (refused.value.key, refused.value.values["why"]) == ("needed", why)
        assert (lab.folder / "data/empty").stat().st_ino == before
        muster.cancel([number])
        until("its end", lambda: muster.show(number)["state"] == "cancelled")


def test_what_is_reached_by_another_name_is_known_all_the_same(lab: Lab) -> None:
    (lab.folder / "data/way").symlink_to("../envs")
    (lab.folder / "data/target").mkdir()
    (lab.folder / "data/place").symlink_to("target")
    with lab.client() as muster:
        number = muster.submit("sleep 60", cwd=str(lab.folder / "data/place"))
        until("it runs", lambda: muster.show(number)["state"] == "running")
        before = everything(lab)
        for path in ("data/way/conda", "data/way/conda/envs", "data/place", "data/target"):
            assert "error: conflict: " in lab.muster("files", "rm", "-r", path).stderr, path
        assert everything(lab) == before
        assert lab.muster("files", "rm", "data/way").returncode == 0, "a link of one's own is nobody's way"
        muster.cancel([number])
        until("its end", lambda: muster.show(number)["state"] == "cancelled")


def test_an_environment_is_deleted_when_no_task_needs_it(lab: Lab) -> None:
    with lab.client() as muster:
        number = muster.submit("true", env="torch", hold=True)
        refused = lab.muster("files", "rm", "-r", "envs/conda/envs/torch").stderr
        assert str(Message("holds_task_env", id=number, state="held")) in refused
        muster.cancel([number])
    assert lab.muster("files", "rm", "-r", "envs/conda/envs/torch").returncode == 0
    assert os.listdir(lab.folder / "envs/conda/envs") == []  # noqa: PTH208
