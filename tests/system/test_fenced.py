"""A task shares the agent's account, and may make the agent obey somebody else: the doctor prints the cure, and whoever
types it has his node back, with what runs there."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.system.lab import Lab
from tests.waiting import until

WRITES = """
import json, os, pathlib, signal
folder = pathlib.Path(os.environ["XDG_STATE_HOME"]).glob("muster/*-node0").__next__()
(folder / "master.json").write_text(json.dumps({"epoch": 10**9, "incarnation": "mine"}))
os.kill(int((folder / "lock").read_text()), signal.SIGKILL)
"""
SPEAKS = """
import json, os, pathlib, socket, time
folder = pathlib.Path(os.environ["XDG_STATE_HOME"]).glob("muster/*-node0").__next__()
known = json.loads((folder / "master.json").read_text())
os.chdir(folder)
while True:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect("agent.sock")
        lineage = [[known["epoch"], known["incarnation"]], [10**9, "mine"]]
        hello = {"op": "hello", "protocol": 2, "cluster": "x", "epoch": 10**9, "incarnation": "mine"}
        hello["lineage"] = lineage
        sock.sendall(json.dumps(hello).encode() + b"\\n")
        if b"welcome" in sock.recv(65536):
            break
    time.sleep(0.1)
"""


@pytest.mark.parametrize("attack", [WRITES, SPEAKS])
def test_the_cure_that_the_doctor_prints_works(lab: Lab, attack: str) -> None:
    lab.start()
    with lab.client() as client:
        runs = client.submit(["sleep", "1000"], gpus=3)
        client.wait([runs], 60, until="started")
        client.submit(["python3", "-c", attack], gpus=0)
        if attack == SPEAKS:  # while a master is connected, another is told to wait
            until("the agent's own word for it", lambda: "refused" in agent_log(lab))
            lab.kill_master()
            until("the attack worked", lambda: "mine" in master_json(lab))
            lab.start()
    with lab.client() as client:
        until("the node refuses us", lambda: "refuses us" in (client.node("node0")["reason"] or ""))
        told = " ".join(lab.muster("node", "doctor", "node0").stdout.split())
        cures = re.findall(r"`([^`]+)`", told[told.index("if there is no other") :])
        assert [cure.split()[0] for cure in cures] == ["mv", "muster"]
        subprocess.run(["sh", "-c", cures[0]], check=True)
        assert lab.muster(*cures[1].split()[1:]).returncode == 0
        until("it is back", lambda: client.node("node0")["state"] == "online")
        assert client.show(runs)["state"] == "running"
        after = client.submit("true", gpus=5)
        assert client.wait([after], 60)[after]["state"] == "succeeded"
        client.cancel([runs])
        assert client.wait([runs], 60)[runs]["state"] == "cancelled"


def agent_log(lab: Lab) -> str:
    return (lab.agent_folder("node0") / "agent.log").read_text(encoding="utf-8")


def master_json(lab: Lab) -> str:
    return (lab.agent_folder("node0") / "master.json").read_text(encoding="utf-8")
