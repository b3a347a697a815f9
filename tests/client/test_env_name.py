"""Which environment a plain name is, where the current folder has something of that name, too."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from client.cli.arguments.environment import resolved
from tests.cases import each_case
from wire.message import Message

MADE = {
    "venv": "pyvenv.cfg",
    "activated": "bin/activate",
    "conda": "conda-meta/history",
    "code": "train.py",
    "empty": "",
    "program": "bin/python",
    "activate_folder": "bin/activate/README",
    "meta_file": "conda-meta",
}
ENVIRONMENTS = {"venv", "activated", "conda"}


class Lab:
    """What `resolved` asks of a context. `known`: the environments that the master sees."""

    def __init__(self, *known: str) -> None:
        self.notes: list[Message] = []
        self.address = SimpleNamespace(same_machine=True)
        session = SimpleNamespace(connect=lambda: None)
        self.client = SimpleNamespace(
            session=session,
            preflight=lambda *, env: [] if env in known else [{"key": "env_absent"}],
            info=lambda: {"root": "/"},
        )

    def note(self, told: Message) -> None:
        self.notes.append(told)


def ask(lab: Lab, name: str) -> str:
    context: Any = lab
    return resolved(context, name)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    for name, inside in MADE.items():
        path = tmp_path / name / inside
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("") if inside else path.mkdir(exist_ok=True)
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to("nowhere")
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_a_folder_that_is_no_environment_leaves_the_name_to_the_lab() -> None:
    with each_case() as cases:
        for name in {*MADE, "file", "dangling", "missing"} - ENVIRONMENTS:
            with cases.case(name):
                lab = Lab()
                assert (ask(lab, name), lab.notes) == (name, [])


def test_one_that_is_an_environment_is_taken_where_the_master_sees_none_of_that_name(folder: Path) -> None:
    with each_case() as cases:
        for name in ENVIRONMENTS:
            with cases.case(name):
                lab = Lab()
                assert ask(lab, name) == str(folder / name)
                assert lab.notes == [Message("env_of_folder_meant", path=str(folder / name))]
                lab = Lab(name)
                assert ask(lab, name) == name
                assert lab.notes == [Message("env_of_lab_meant", env=name)]
