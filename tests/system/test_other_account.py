"""What the guide advises where PCs come in without a password: tasks of the master's machine run as another account,
by its own sshd. A real sshd, a real second uid, and a task that tries to get at what is the master's."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desktop.client import DesktopClient, form, request
from tests.master.drivers.real_sshd import PASSWORD, RealSshd, registry_entry
from tests.system.lab import PORTS, Lab
from tests.waiting import until

TASKS = 6001
OUTSIDE = {"networks": ["127.0.0.0/8", "192.0.2.0/24"]}
SUBMIT = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "task.submit", "params": {"command": ["true"]}}) + "\n"
THIEF = """
import json, os, pathlib, signal, socket, sys
folder, master, ports, said = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]), json.loads(sys.argv[4])
got = []
for above, _, names in os.walk(folder):
    for path in [above, *(os.path.join(above, name) for name in names)]:
        if os.access(path, os.W_OK) or (os.path.isfile(path) and os.access(path, os.R_OK)):
            got.append(os.path.relpath(path, folder))
for what in ("environ", "mem", "maps", "cwd/conf.json", "fd/0"):
    try:
        open(f"/proc/{master}/{what}", "rb").read(1)
        got.append(what)
    except OSError:
        pass
try:
    os.kill(master, signal.SIGTERM)
    got.append("kill")
except PermissionError:
    pass
for port in ports:
    for words in said:
        with socket.create_connection(("127.0.0.1", port), 20) as caller:
            caller.sendall(words.encode())
            heard = caller.recv(4096)
            if heard and b"error" not in heard:
                got.append(heard.decode())
print("GOT", json.dumps(sorted(got)))
"""
"""Prints what of the master's it could read, change, kill or command."""


@pytest.fixture
def place() -> Iterator[tuple[Lab, RealSshd]]:
    """A lab whose one node is this machine, entered as another account; PCs of a network beyond it may come in."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="muster-account-") as folder:
        Path(folder).chmod(0o755)
        sshd = RealSshd(Path(folder, "sshd"), uid=TASKS)
        lab = Lab(Path(folder, "lab"), nodes=0)
        try:
            sshd.start()
            yield lab, sshd
        finally:
            lab.close()
            sshd.close()


def start(lab: Lab, sshd: RealSshd) -> None:
    """All secrets that a master may have lie there, and everybody may pass through the folder."""
    psw = lab.folder / "psw"
    psw.write_text(f"{PASSWORD}\n", encoding="utf-8")
    psw.chmod(0o600)
    (lab.folder / "train_logs").mkdir(mode=0o777)
    (lab.folder / "train_logs").chmod(0o777)
    influx = {"url": "http://127.0.0.1:9", "token": "hunter2"}
    lab.write_conf(bind="0.0.0.0", desktop_client=OUTSIDE, influx=influx)  # noqa: S104
    lab.conf.chmod(0o600)
    node = sshd.node("boss", host_key=sshd.host_key.fingerprint, key_file=None)
    lab.write_registry([{**registry_entry(node), "gpu_probe": "declared"}])
    lab.start()


def test_a_desktop_users_task_as_another_account_gets_at_nothing_of_the_masters(place: tuple[Lab, RealSshd]) -> None:
    lab, sshd = place
    start(lab, sshd)
    assert lab.master is not None
    ports = [lab.keys["socket_info"][name] for name in PORTS]
    said = [SUBMIT, request("add_task", form("true")).decode(), request("get_root", "").decode()]
    thief = lab.folder / "thief.py"
    thief.write_text(THIEF, encoding="utf-8")
    words = ["/usr/bin/python3", str(thief), str(lab.folder), str(lab.master.pid), json.dumps(ports), json.dumps(said)]
    command = shlex.join(words)
    with DesktopClient({name: ("127.0.0.1", lab.keys["socket_info"][name]) for name in PORTS}) as window:
        assert window.ask("add_task", form(command)) == ""
    with lab.client() as owner:
        number = owner.tasks(ended=True)[0]["id"]
        task = owner.wait([number])[number]
        log = Path(task["log_path"]).read_text(encoding="utf-8")
        assert task["state"] == "succeeded", log
        assert owner.list_tasks(ended=True)[1] + owner.list_tasks(active=True)[1] == 1, "it queued nothing"
    got = json.loads(next(line for line in log.splitlines() if line.startswith("GOT"))[4:])
    assert got == [
        "conf.json.account",
        "conf.json.lab",
        "gpu_slaver_info.json",
        "master.out",
        "thief.py",
        "train_logs",
        f"train_logs/{task['id']}.log",
    ]
    until("the master is there", lambda: lab.master is not None and lab.master.poll() is None)
