"""A task's environment is the account's own on its node, on every way to one alike; of whoever typed `muster up`
nothing reaches it, nor can it be read in the shim above."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest

from client.api import Client
from tests.system.far_node import ENTRY, FarNode
from tests.system.lab import Lab
from tests.system.ssh_lab import SshLab
from tests.waiting import until

TOKEN = "of-whoever-typed-it"  # noqa: S105  (what must not be seen)
LOOK = "command -v python3; env -0; printf '\\nSHIM\\n'; cat /proc/$PPID/environ"


@pytest.fixture
def _somebody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Who starts masters from here on: in a virtual environment of his own, with a token exported."""
    tools = tmp_path / "venv" / "bin"
    tools.mkdir(parents=True)
    (tools / "python3").write_text("#!/bin/sh\necho wrong python\n", encoding="utf-8")
    (tools / "python3").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("VIRTUAL_ENV", str(tools.parent))
    monkeypatch.setenv("A_TOKEN", TOKEN)


def looked(client: Client, node: str, **more: object) -> tuple[str, dict[str, str]]:
    """Which python3 a task on the node finds, and its variables; that its shim shows no more is checked here."""
    task = client.submit(["/bin/bash", "-c", LOOK], node=node, variables={"OWN": "mine"}, **more)
    assert client.wait([task], 60)[task]["state"] == "succeeded"
    said = Path(client.show(task)["log_path"]).read_text(encoding="utf-8").partition("\n\nProgram Exit")[0]
    own, _, above = said.rpartition("\nSHIM\n")
    assert "HOME=" in above
    assert TOKEN not in said
    python, _, variables = own.partition("\n")
    return python, dict(one.split("=", 1) for one in variables.split("\0") if "=" in one)


def check(python: str, found: dict[str, str], account: pwd.struct_passwd, gpus: str) -> None:
    assert "/venv/" not in python + found["PATH"]
    assert "VIRTUAL_ENV" not in found
    assert (found["HOME"], found["USER"]) == (account.pw_dir, account.pw_name)
    assert (found["OWN"], found["PYTHONUNBUFFERED"], found["CUDA_VISIBLE_DEVICES"]) == ("mine", "1", gpus)


@pytest.mark.usefixtures("_somebody")
def test_on_this_machine(lab: Lab) -> None:
    lab.start()
    with lab.client() as client:
        check(*looked(client, "node0", gpus=2), pwd.getpwuid(os.getuid()), "0,1")


@pytest.mark.usefixtures("_somebody")
def test_on_a_machine_that_dials_in(make_system_lab: Callable[..., Lab]) -> None:
    lab = make_system_lab(nodes=0)
    lab.write_registry([ENTRY])
    lab.start()
    node = FarNode(lab)
    try:
        node.make_token()
        node.start()
        node.await_state("online")
        with lab.client() as client:
            check(*looked(client, "far", gpus=1), pwd.getpwuid(os.getuid()), "0")
    finally:
        node.close()


@pytest.mark.usefixtures("_somebody")
def test_over_ssh_with_the_profile_of_the_account_there(ssh_lab: SshLab) -> None:
    name, host = next(iter(ssh_lab.hosts.items()))
    (host.home / ".bash_profile").write_text("export https_proxy=http://site:1; echo welcome\n", encoding="utf-8")
    ssh_lab.start_trusted()
    with ssh_lab.client() as client:
        python, found = looked(client, name)
        assert found["https_proxy"] == "http://site:1"
        assert (found["USER"], found["OWN"]) == (host.user, "mine")
        assert "/venv/" not in python + found["PATH"]
        assert {"SSH_CLIENT", "SSH_CONNECTION", "VIRTUAL_ENV"} & set(found) == set()


def test_a_log_in_shell_that_hangs_is_told_by_the_doctor_and_tasks_run(ssh_lab: SshLab) -> None:
    name, host = next(iter(ssh_lab.hosts.items()))
    (host.home / ".bash_profile").write_text("sleep 1000\n", encoding="utf-8")
    ssh_lab.start_trusted()
    with ssh_lab.client() as client:
        task = client.submit("echo $PATH", node=name)
        assert client.wait([task], 60)[task]["state"] == "succeeded"
    told = ssh_lab.muster("node", "doctor", name).stdout
    assert "environment" in told
    assert "timed out after 5 s" in told
    assert ".bash_profile" in told
    until("it is in the server log", lambda: "timed out after 5 s" in ssh_lab.server_log())
