"""Other accounts of the master's own machine: real processes with other uids, a real master that listens everywhere.

They have every address of the machine to come from, both families, and a user namespace in which they are called root;
they say what anybody can say, and close before anybody looks who they are.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.attack import rules
from tests.desktop import client as desktop
from tests.desktop.client import form
from tests.master.verbs.parameters import required
from tests.rights import CannotHere, need_users
from tests.system.lab import PORTS, Lab
from tests.testbed.bed import Testbed
from tests.waiting import PATIENCE_S

CANNOT = 77
NOBODY = 65534
SOMEBODY = 4242
STRANGER = """
import ctypes, json, os, socket, sys
uid, way, places, frames = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), sys.stdin.buffer.read()
os.setgroups([])
os.setgid(uid)
os.setuid(uid)
if way == "root of a user namespace":
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(4, 1)  # its own files in /proc are its own again
    if libc.unshare(0x10000000):
        sys.exit(77)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {uid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    assert os.geteuid() == 0
for origin, address, port in places:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as caller:
        caller.settimeout(60)
        heard = b""
        try:
            caller.bind((origin, 0))
            caller.connect((address, port))
            caller.sendall(frames)
            if way == "gone before anybody looks":
                continue
            if way == "half closed":
                caller.shutdown(socket.SHUT_WR)
            while data := caller.recv(65536):
                heard += data
                if heard.count(b"\\n") >= frames.count(b"\\n"):
                    break
        except (ConnectionResetError, BrokenPipeError):
            pass
        print(json.dumps([origin, address, port, heard.decode()]))
"""
"""As this account, at each place, it says what came on stdin, and tells what it heard."""


@pytest.fixture(scope="module", params=["0.0.0.0", "::"])  # noqa: S104  (that is the attack's way in)
def lab(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A master that listens everywhere, and has users: one is called like an account of the system. Each test leaves it
    as it was."""
    need_users()
    lab = Lab(tmp_path_factory.mktemp("lab"), nodes=1)
    lab.write_conf(bind=request.param, local_users="same name", desktop_client={"networks": ["127.0.0.0/8", "::1"]})
    lab.start()
    try:
        with lab.client() as owner:
            for name in ("nobody", "ann"):
                owner.call("user.add", {"name": name, "role": "admin"}, repeatable=False)
        yield lab
    finally:
        lab.close()


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    """It gives the machine an address that is no loopback one."""
    with Testbed(0) as bed:
        yield bed


def places(lab: Lab, lan: str) -> list[tuple[str, str, int]]:
    """From each address to itself, and from one loopback address to the next, on each port."""
    ways = [(one, one) for one in ("127.0.0.1", "127.0.0.2", lan)] + [("127.0.0.3", "127.0.0.1")]
    if lab.keys["bind"] == "::":
        ways = [("::1", "::1")]
    return [(*way, lab.keys["socket_info"][name]) for way in ways for name in PORTS]


def said_by(uid: int, way: str, at: list[tuple[str, str, int]], frames: bytes) -> list[tuple[str, str]]:
    """What such a process hears, and where."""
    words = [sys.executable, "-c", STRANGER, str(uid), way, json.dumps(at)]
    done = subprocess.run(words, input=frames, capture_output=True, timeout=2 * PATIENCE_S, check=False)
    if done.returncode == CANNOT:
        raise CannotHere("need user namespaces of ordinary accounts", "sysctl kernel.unprivileged_userns_clone=1")
    assert done.returncode == 0, done.stderr.decode()
    told = [json.loads(line) for line in done.stdout.decode().splitlines()]
    return [(f"{origin} to {address} on {port}", heard) for origin, address, port, heard in told]


def every_verb() -> bytes:
    """All of them, as one says them who knows the protocol."""
    asked: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": verb, "method": verb, "params": required(verb)}
        for verb, rule in rules.VERBS.items()
        if rule.role != "anyone"
    ]
    return b"".join(json.dumps(one).encode() + b"\n" for one in asked)


def check_nothing_happened(lab: Lab) -> None:
    """The master is there, and knows of nothing that somebody else did."""
    with lab.client() as owner:
        assert owner.list_tasks(ended=True)[1] + owner.list_tasks(active=True)[1] == 0
        names = {user["name"] for user in owner.call("user.list", {})}
        assert names - {"desktop"} == {"nobody", "ann"}


@pytest.mark.parametrize("way", ["plainly", "half closed", "root of a user namespace"])
@pytest.mark.parametrize("uid", [NOBODY, SOMEBODY])
def test_an_account_of_this_machine_is_nobody_by_each_address_on_each_port(
    lab: Lab, bed: Testbed, uid: int, way: str
) -> None:
    at = places(lab, bed.master_address)
    frames = every_verb()
    for place, heard in said_by(uid, way, at, frames):
        answers = [json.loads(line) for line in heard.splitlines()]
        assert answers, place
        codes = {answer["error"]["data"]["code"] for answer in answers}
        assert codes == {"unauthenticated"}, f"{place}: {answers[:2]}"
        assert len(answers) in (1, frames.count(b"\n")), place
    check_nothing_happened(lab)


@pytest.mark.parametrize("uid", [NOBODY, SOMEBODY])
def test_an_account_of_this_machine_is_no_desktop_client(lab: Lab, bed: Testbed, uid: int) -> None:
    at = places(lab, bed.master_address)
    for place, heard in said_by(uid, "plainly", at, desktop.request("add_task", form("true"))):
        assert heard == "", place
    check_nothing_happened(lab)


@pytest.mark.parametrize(
    "frames",
    [pytest.param(every_verb(), id="ours"), pytest.param(desktop.request("add_task", form("true")), id="the client's")],
)
def test_who_is_gone_before_anybody_looks_who_he_was_is_taken_for_nobody_else(lab: Lab, frames: bytes) -> None:
    """What nobody holds any more belongs to root, as some kernels tell it."""
    assert lab.master is not None
    at = places(lab, "127.0.0.4") * 10
    os.kill(lab.master.pid, signal.SIGSTOP)
    try:
        said_by(NOBODY, "gone before anybody looks", at, frames)
    finally:
        os.kill(lab.master.pid, signal.SIGCONT)
    check_nothing_happened(lab)


TAKES = """
import json, os, socket, sys
uid, folder, pid = int(sys.argv[1]), sys.argv[2], sys.argv[3]
os.setgroups([])
os.setgid(uid)
os.setuid(uid)
got = []
for base, folders, files in os.walk("/proc/" + pid if pid in sys.argv[2] else folder, onerror=lambda error: None):
    for name in files + folders:
        path = os.path.join(base, name)
        for mode in (os.O_RDONLY, os.O_WRONLY):
            try:
                os.close(os.open(path, mode | os.O_NONBLOCK))
                got.append([path, mode])
            except OSError:
                pass
        with socket.socket(socket.AF_UNIX) as caller:
            try:
                caller.connect(path)
                got.append([path, "connected"])
            except OSError:
                pass
for name in ("environ", "mem", "fd", "maps"):
    path = "/proc/" + pid + "/" + name
    try:
        got.append([path, len(os.listdir(path)) if name == "fd" else len(open(path, "rb").read(1))])
    except OSError:
        pass
try:
    os.kill(int(pid), 0)
    got.append(["kill", pid])
except OSError:
    pass
print(json.dumps(got))
"""
"""Everything of a folder that this account can open, write or connect to, and of the process."""


def test_an_account_of_this_machine_opens_no_socket_file_or_process_of_the_master_and_its_agent(lab: Lab) -> None:
    assert lab.master is not None
    folders = [lab.folder, *lab.folder.parents][:3]
    before = [folder.stat().st_mode for folder in folders]
    for folder in folders:
        folder.chmod(0o755)  # so that nothing is hidden by what lies around it
    with lab.client() as owner:
        task = owner.submit("echo secret")
        owner.wait([task])
        owner.remove(task)
    got = []
    for folder in (lab.task_info, lab.state):
        words = [sys.executable, "-c", TAKES, str(NOBODY), str(folder), str(lab.master.pid)]
        done = subprocess.run(words, capture_output=True, timeout=2 * PATIENCE_S, check=True)
        got += json.loads(done.stdout)
    for folder, mode in zip(folders, before, strict=True):
        folder.chmod(mode & 0o7777)
    assert got == []
