"""Other people of the master's own machine, at a real master whose ports are open to the network."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desktop.client import DesktopClient, form, request
from tests.system.lab import PORTS, Lab
from tests.testbed.bed import Testbed

NOBODY = 65534
STRANGER = """
import os, socket, sys
os.setuid(int(sys.argv[1]))
said = sys.stdin.buffer.read()
for origin in sys.argv[3].split(","):
    for port in sys.argv[4].split(","):
        with socket.socket() as caller:
            caller.settimeout(60)
            caller.bind((origin, 0))
            caller.connect((sys.argv[2], int(port)))
            caller.sendall(said)
            heard = b""
            try:
                while data := caller.recv(65536):
                    heard += data
            except ConnectionResetError:
                pass
            print(port, heard)
"""
"""Calls from each address each port, says what it was told to, and hears until it is shown the door."""


@pytest.fixture
def bed() -> Iterator[Testbed]:
    with Testbed(0) as bed:
        yield bed


def test_another_user_of_this_machine_is_no_desktop_client_by_any_of_its_addresses(
    tmp_path: Path, bed: Testbed
) -> None:
    lan = bed.master_address
    lab = Lab(tmp_path, nodes=1)
    lab.write_conf(bind="0.0.0.0", desktop_client={"networks": [lan, "127.0.0.0/8"], "local_nodes": "allow"})  # noqa: S104
    lab.start()
    try:
        ports = [str(lab.keys["socket_info"][name]) for name in PORTS]
        with DesktopClient({name: (lan, lab.keys["socket_info"][name]) for name in PORTS}) as ours:
            assert ours.add("echo mine") == ""
            words = [sys.executable, "-c", STRANGER, str(NOBODY), lan, f"{lan},127.0.0.1", ",".join(ports)]
            said = request("add_task", form("echo theirs"))
            told = subprocess.run(words, input=said, capture_output=True, timeout=60, check=True).stdout
            assert told.decode().split("\n")[:-1] == [f"{port} b''" for _ in range(2) for port in ports]
            for _ in range(2):  # they are told of the same tasks, and it is one
                assert [task["exec"] for table in ours.tasks().values() for task in table] == ["echo mine"]
    finally:
        lab.close()
    assert "on this machine only the user who runs the master, and root, may" in lab.server_log()
