"""The desktop client's requests about environments: each opens a window that only its reply closes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from master.desktop import envs
from master.desktop.requests import REQUESTS
from master.nodes import environments
from tests.desktop.client import DesktopClient
from tests.desktop.place import DesktopPlace, in_loop, with_client

MODAL = ("py_v", "cuda_pt", "cuda_tf", "pkgs")
VERSION = "{}.{}.{}".format(*sys.version_info[:3])


@pytest.fixture(scope="session")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A conda prefix as far as labs without conda have one: virtual environments, and a stand-in for a framework."""
    conda = tmp_path_factory.mktemp("prefix")
    for name in ("envs/plain", "envs/with torch"):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(conda / name)], check=True, timeout=60)
    site = next((conda / "envs/plain/lib").glob("python*")) / "site-packages"
    (site / "torch.py").write_text(
        "__version__ = '2.1'\n"
        "class version: cuda = '12.1'\n"
        "class cuda:\n"
        "    is_available = staticmethod(lambda: True)\n"
        "    device_count = staticmethod(lambda: 2)\n"
        "    get_device_name = staticmethod(lambda index: f'card {index}')\n",
        encoding="utf-8",
    )
    (site / "some_thing-1.5.dist-info").mkdir()
    (site / "some_thing-1.5.dist-info/METADATA").write_text("Name: some-thing\nVersion: 1.5\n", encoding="utf-8")
    (conda / "envs/broken/bin").mkdir(parents=True)
    (conda / "envs/broken/bin/python").symlink_to("/nonexistent")
    return conda


def lab(folder: Path, prefix: Path) -> None:
    """Let the lab's environments be these."""
    (folder / "conda").symlink_to(prefix)


def online(master: DesktopPlace) -> None:
    in_loop(master, master.online)


def test_the_names_are_those_a_task_may_use(tmp_path: Path, prefix: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        lab(tmp_path, prefix)
        assert client.ask("env_list") == ["plain"], "while no node is there the master's own machine is asked"
        assert master.machine.asked == []
        online(master)
        assert client.ask("env_list", "", "task") == ["plain"]
        assert master.machine.asked == ["a"]

    with_client(tmp_path, story)


def test_what_an_environment_holds(tmp_path: Path, prefix: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        lab(tmp_path, prefix)
        online(master)
        assert client.ask("test_env", "plain") == "True"
        assert client.ask("py_v", "plain") == {"res": "seccess", "msg": f"Python {VERSION}"}
        torch = client.ask("cuda_pt", "plain")
        assert torch["res"] == "seccess"
        assert torch["msg"].splitlines()[0] == "torch 2.1，CUDA 12.1"
        assert "card 0、card 1" in torch["msg"]
        tensorflow = client.ask("cuda_tf", "plain")
        assert tensorflow["res"] == "falied"
        assert "tensorflow" in tensorflow["msg"]
        packages = client.ask("pkgs", "plain")
        assert packages["res"] == "seccess"
        assert "some-thing  1.5" in packages["msg"].splitlines()

    with_client(tmp_path, story)


@pytest.mark.parametrize(
    "name",
    [
        "nowhere",
        "broken",
        "a;b",
        "$(touch pwned)",
        "../x",
        "..",
        "-x",
        "/etc",
        "a b",
        "x" * 5000,
        "\n",
        None,
        5,
        [],
        {},
    ],
)
def test_every_window_is_closed_whatever_was_asked(tmp_path: Path, prefix: Path, name: Any) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        lab(tmp_path, prefix)
        online(master)
        said = client.ask("test_env", name)
        assert isinstance(said, str)
        assert said not in ("", "True")
        for mode in MODAL:
            reply = client.ask(mode, name)
            assert reply["res"] == "falied"
            assert reply["msg"] != ""
        assert not list(tmp_path.rglob("pwned"))

    with_client(tmp_path, story)


def test_every_window_is_closed_when_no_node_is_there(tmp_path: Path) -> None:
    def story(client: DesktopClient, _master: DesktopPlace) -> None:
        assert client.ask("env_list") == []
        assert "没有在线的节点" in client.ask("test_env", "plain")
        for mode in MODAL:
            assert "没有在线的节点" in client.ask(mode, "plain")["msg"]

    with_client(tmp_path, story)


def test_every_window_is_closed_when_a_node_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("LIST_S", "PYTHON_S", "CUDA_S", "PACKAGES_S"):
        monkeypatch.setattr(environments, limit, 0.05)

    def story(client: DesktopClient, master: DesktopPlace) -> None:
        online(master)
        master.machine.silent = True
        assert client.ask("env_list") == []
        assert "超时" in client.ask("test_env", "plain")
        for mode in MODAL:
            assert "超时" in client.ask(mode, "plain")["msg"]

    with_client(tmp_path, story)


def test_the_client_is_answered_even_if_the_question_never_ends() -> None:
    assert all(kind.limit_s <= 120 for kind in REQUESTS.values())
    assert envs.KINDS["cuda_tf"].limit_s > environments.CUDA_S + 5, "the node's own word comes first"


def test_a_slow_question_of_one_client_keeps_no_other_waiting(tmp_path: Path, prefix: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        lab(tmp_path, prefix)
        online(master)
        master.machine.silent = True
        client.send("py_v", "plain")
        other = DesktopClient({name: master.address(name) for name in master.servers})
        try:
            assert other.ask("get_root") == ["data", "envs"]
            assert other.add("true") == ""
            assert client.data.frames.empty()
        finally:
            other.close()

    with_client(tmp_path, story)
