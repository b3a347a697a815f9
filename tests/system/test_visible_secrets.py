"""A visible folder in which the master's own files lie, and PCs that show no password: one or the other."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.desktop.client import DesktopClient
from tests.system.lab import PORTS, Lab
from tests.waiting import until
from wire.message import Message

OUTSIDE = {"networks": ["127.0.0.0/8", "192.168.36.0/24"]}
FAR = {"name": "far", "ip": "192.0.2.7", "user_name": "me", "gpu_count": 0}


@pytest.fixture
def lab(tmp_path: Path, make_system_lab: Callable[..., Lab]) -> Lab:
    """Without nodes of this machine: those are refused beside such PCs for a reason of their own."""
    (tmp_path / "data").mkdir(exist_ok=True)
    one = make_system_lab(nodes=0)
    one.write_registry([FAR])
    return one


def refusal(lab: Lab) -> str:
    """What a master that does not start says, on one line."""
    assert lab.launch_master().wait(60) == 1
    said = (lab.folder / "master.out").read_text(encoding="utf-8")
    assert said.count("\n") == 1
    return said


@pytest.mark.parametrize(
    ("visible", "held"),
    [
        (["data", "{folder}"], "task_info"),
        (["data", "{folder}/task_info/history"], "task_info"),
        (["way"], "task_info"),
    ],
    ids=["the master's folder", "a part of the queues", "by a link"],
)
def test_the_master_does_not_start_with_both(lab: Lab, visible: list[str], held: str) -> None:
    root = lab.folder.parent
    (root / "way").symlink_to(lab.folder)
    folders = [name.format(folder=lab.folder.name) for name in visible]
    lab.write_conf(root=str(root), visible_folders=folders, desktop_client=OUTSIDE)
    said = refusal(lab)
    told = Message(
        "own_files_visible_outside",
        folder=folders[-1], path=str(lab.folder / held), key=held, above=str(root / folders[-1]),
        networks=("192.168.36.0/24",),
    )  # fmt: skip
    assert str(told) in said


@pytest.mark.parametrize("key", ["psw_file", "task_info", "slaver_file"])
def test_one_secret_in_a_visible_folder_is_enough(lab: Lab, key: str) -> None:
    (lab.folder / "data").mkdir()
    place = "data/own" if key != "slaver_file" else "data/nodes.json"
    if key == "slaver_file":
        (lab.folder / place).write_bytes(lab.registry.read_bytes())
    lab.write_conf(visible_folders=["data"], desktop_client=OUTSIDE, **{key: place})
    assert f"{lab.folder / place} ({key})" in refusal(lab)


def test_the_authority_for_which_a_directory_is_believed_is_not_peoples_to_change(lab: Lab) -> None:
    (lab.folder / "data").mkdir()
    directory = {"url": "ldaps://ldap.lab", "bind": "uid={user},dc=lab", "ca": "data/ca.pem"}
    lab.write_conf(visible_folders=["data"], desktop_client=OUTSIDE, ldap=directory)
    assert f"{lab.folder / 'data/ca.pem'} (ldap.ca)" in refusal(lab)


def test_a_registry_whose_key_people_may_read_is_not_taken_over(lab: Lab) -> None:
    (lab.folder / "data").mkdir()
    lab.write_conf(visible_folders=["data"], desktop_client=OUTSIDE)
    lab.start()

    def fault() -> str:
        with lab.client() as muster:
            return muster.info()["registry_fault"] or ""

    lab.write_registry([{**FAR, "key_file": str(lab.folder / "data/id_ed25519")}])
    assert str(Message("key_of_node", key="key_file", node="far")) in until("the fault", fault)
    lab.write_registry([FAR])
    until("no fault", lambda: not fault())


def test_who_owns_the_master_may_see_its_files(lab: Lab) -> None:
    lab.write_conf(root=str(lab.folder.parent), visible_folders=[lab.folder.name])
    lab.start()
    with DesktopClient({name: ("127.0.0.1", lab.keys["socket_info"][name]) for name in PORTS}) as client:
        read = client.ask("get_file", f"/{lab.folder.name}/conf.json")
    assert base64.b64decode(read["content"]) == lab.conf.read_bytes()
