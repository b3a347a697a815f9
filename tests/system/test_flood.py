"""A machine that takes whatever it can get of the master, and what is left for everybody else."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.system.lab import PORTS, ROOT, Lab
from tests.testbed.bed import Testbed
from tests.testbed.host import Host
from tests.waiting import until

MANY, FEW = "", "300:300"
"""Open files that the master may have: what this machine allows, or so few that a flood would take all."""
HELD_MIB = 64
ASK_AUTHORITY = """
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
with context.wrap_socket(socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)) as caller:
    caller.sendall(b'{"op":"authority"}\\n')
    print(caller.makefile().readline()[:18])
"""
"""How an agent that dials in begins."""
ASK_ROOT = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60) as window:
    window.sendall(b'{"mode": "get_root", "ui": "main", "info": ""}_<END_SEND>_')
    print(window.recv(100).decode())
"""
"""How a desktop client does."""


@pytest.fixture
def bed() -> Iterator[Testbed]:
    with Testbed(2) as bed:
        yield bed


@pytest.fixture(params=[MANY, FEW], ids=["many files", "few files"])
def lab(request: pytest.FixtureRequest, tmp_path: Path, bed: Testbed) -> Iterator[Lab]:
    lab = Lab(tmp_path, nodes=1)
    lab.before = ["prlimit", f"--nofile={request.param}"] if request.param else []
    networks = [host.address for host in bed.hosts]
    lab.write_conf(bind="0.0.0.0", desktop_client={"networks": networks, "local_nodes": "allow"})  # noqa: S104
    lab.start()
    yield lab
    lab.close()


@contextmanager
def _flood(lab: Lab, bed: Testbed, host: Host) -> Iterator[None]:
    """The host has tried all its connections, and goes on."""
    ports = ",".join(str(lab.keys["socket_info"][name]) for name in PORTS)
    folder = bed.shared / "flood"
    folder.mkdir()
    program = (ROOT / "tests" / "system" / "flood.py").read_text(encoding="utf-8")
    words = ["python3", "-", bed.master_address, ports, str(folder)]
    flooding = threading.Thread(target=host.run, args=words, kwargs={"said": program})
    flooding.start()
    try:
        until("all connections were tried", lambda: (folder / "begun").exists() or not flooding.is_alive(), 120)
        assert flooding.is_alive(), "it goes on"
        yield
    finally:
        (folder / "enough").touch()
        flooding.join()


def _pid(lab: Lab) -> int:
    assert lab.master is not None
    return lab.master.pid


def _peak_mib(lab: Lab) -> float:
    status = Path(f"/proc/{_pid(lab)}/status").read_text(encoding="ascii")
    found = re.search(r"VmHWM:\s*(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


def _connections_from(lab: Lab, host: Host) -> int:
    """How many the master has open, by the kernel's table."""
    ours = {f"{port:04X}" for port in lab.keys["socket_info"].values()}
    theirs = "".join(f"{byte:02X}" for byte in reversed(socket.inet_aton(host.address)))
    inodes = set()
    for fd in Path(f"/proc/{_pid(lab)}/fd").iterdir():
        with suppress(FileNotFoundError):
            inodes.add(str(fd.readlink())[8:-1])
    lines = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    return sum(words[1].split(":")[1] in ours and words[2].startswith(theirs) and words[9] in inodes for words in lines)


def test_a_flood_from_one_machine_costs_that_machine_only(lab: Lab, bed: Testbed) -> None:
    flooding, other = bed.hosts
    before = _peak_mib(lab)
    with _flood(lab, bed, flooding):
        with lab.client() as owner:
            assert owner.wait([owner.submit(["echo", "through"])])[1]["state"] == "succeeded"
        assert json.loads(lab.muster("queue", "--all", "--json").stdout)
        # One more is there for a moment: the master accepts a connection, and then gives up the oldest.
        until("its share at most", lambda: _connections_from(lab, flooding) <= 128 + 64)
        data = str(lab.keys["socket_info"]["data_port"])
        assert other.run("python3", "-c", ASK_AUTHORITY, bed.master_address, data).strip() == '{"op":"authority",'
        assert other.run("python3", "-c", ASK_ROOT, bed.master_address, data).startswith('{"mode":"ret_root"')
        assert _peak_mib(lab) - before < 3 * HELD_MIB, "what is kept, and a copy of one frame being read"
    until("its connections are gone", lambda: _connections_from(lab, flooding) == 0)
    with lab.client() as owner:
        owner.wait([owner.submit("true")])
    lab.stop_master()
    assert "is closed: more than 64 connections of" in lab.server_log()
    assert "nobody is let in" not in lab.server_log(), "descriptors were never all taken"
    lab.start()
    with lab.client() as client:
        assert [task["state"] for task in client.list_tasks(ended=True)[0]] == ["succeeded"] * 2
