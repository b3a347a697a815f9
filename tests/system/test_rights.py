"""Who else on the master's machine may read what the master writes: as other users really see it."""

from __future__ import annotations

import grp
import os
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.lab import Lab
from tests.waiting import until
from wire.message import Message

NOBODY = 65534
READERS = "users"
"""A group that every Debian and Ubuntu has."""
PROXY = "socks5://me:hunter2@127.0.0.1:9"


@pytest.fixture
def lab() -> Iterator[Lab]:
    """One node, in a folder that everybody may pass through; no master yet."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="muster-rights-") as folder:
        Path(folder).chmod(0o755)
        one = Lab(Path(folder), nodes=1, gpus=0)
        try:
            yield one
        finally:
            left = one.close()
    assert left == []


def as_stranger(*words: str, groups: tuple[int, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run it as another user of this machine."""
    return subprocess.run(
        words, user=NOBODY, group=NOBODY, extra_groups=groups, cwd="/", capture_output=True, text=True, check=False
    )


def readable(folder: Path) -> list[str]:
    """What a stranger finds there that he may read."""
    return as_stranger("find", str(folder), "-readable").stdout.split()


def run_one(lab: Lab, command: str = "echo out; umask; touch made") -> Path:
    """A task, to its end; its log."""
    with lab.client() as muster:
        number = muster.submit(command, variables={"SECRET": "hunter2"})
        task = muster.wait([number])[number]
    assert task["state"] == "succeeded", task
    return Path(task["log_path"])


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_nobody_else_reads_the_queues_whoever_made_them(lab: Lab) -> None:
    lab.start()
    run_one(lab)
    lab.stop_master()
    for above, _, names in os.walk(lab.task_info):  # as earlier versions left them
        Path(above).chmod(0o755)
        for name in names:
            Path(above, name).chmod(0o644)
    assert readable(lab.task_info) != []
    lab.start()
    run_one(lab)
    assert readable(lab.task_info) == []
    assert "Permission denied" in as_stranger("cat", str(lab.task_info / "journal.jsonl")).stderr
    lab.stop_master()
    found = {mode(path) for path in lab.task_info.rglob("*") if path.is_file()}
    assert (mode(lab.task_info), found) == (0o700, {0o600})


def umask_of_log_in() -> int:
    done = subprocess.run(["/bin/bash", "-lc", "umask"], umask=0o022, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1], 8)


@pytest.mark.parametrize("umask", [0o022, 0o077], ids=["open", "closed"])
def test_logs_are_for_their_group_and_a_task_has_the_umask_of_its_account(lab: Lab, umask: int) -> None:
    """Not that of the shell in which the master was started."""
    before = os.umask(umask)
    try:
        lab.write_conf(log_group=READERS)
        lab.start()
    finally:
        os.umask(before)
    log = run_one(lab)
    own = umask_of_log_in()
    assert f"{own:04o}" in log.read_text(encoding="utf-8")
    assert mode(lab.folder / "made") == 0o666 & ~own
    gid = grp.getgrnam(READERS).gr_gid
    (lab.folder / "train_logs").chmod(mode(lab.folder / "train_logs") | 0o001)  # the way is open; the files decide
    for path in (log, lab.folder / "server_log.log"):
        assert (mode(path), path.stat().st_gid) == (0o640, gid)
        assert as_stranger("tail", "-n", "100", str(path), groups=(gid,)).returncode == 0
        assert "Permission denied" in as_stranger("cat", str(path)).stderr


def test_a_log_that_was_open_is_closed_and_its_older_ones_too(lab: Lab) -> None:
    for name in ("server_log.log", "server_log.log.1", "server_log.log.5"):
        (lab.folder / name).write_text("of an earlier version\n", encoding="utf-8")
        (lab.folder / name).chmod(0o644)
    start_online(lab)
    assert [path for path in readable(lab.folder) if "server_log" in path] == []
    assert "of an earlier version" in lab.server_log()


def test_what_is_printed_by_a_master_in_the_background_is_for_its_group_too(lab: Lab) -> None:
    before = os.umask(0o022)
    try:
        assert lab.muster("up", "--detach").returncode == 0
    finally:
        os.umask(before)
    try:
        assert mode(next(lab.folder.glob("*.out"))) == 0o640
        with lab.client() as muster:
            until("the node", lambda: muster.nodes()[0]["state"] == "online")
    finally:
        assert lab.muster("down").returncode == 0


def test_a_group_that_is_none_is_told(lab: Lab) -> None:
    lab.write_conf(log_group="no-such-group")
    told = Message("in_file", path=str(lab.conf), fault=Message("log_group_unknown", group="no-such-group"))
    assert refusal(lab).startswith(f"error: config: {told}")


def refusal(lab: Lab) -> str:
    """What a master that does not start says, on one line."""
    assert lab.launch_master().wait(60) == 1
    said = (lab.folder / "master.out").read_text(encoding="utf-8")
    assert said.count("\n") == 1
    return said


@pytest.mark.parametrize(
    "keys",
    [
        {"influx": {"url": "http://127.0.0.1:9", "token": "hunter2"}},
        {"influx": {"url": "http://me:hunter2@127.0.0.1:9"}},
        {"notify": {"urls": ["mailto://me:hunter2@example.org"]}},
    ],
    ids=["a token", "a password in a url", "an address with a password"],
)
def test_a_secret_in_a_conf_json_that_others_may_read_is_not_used(lab: Lab, keys: dict[str, object]) -> None:
    lab.write_conf(**keys)
    lab.conf.chmod(0o644)
    said = refusal(lab)
    assert f"chmod 600 {lab.conf}" in said
    assert "hunter2" not in said
    lab.conf.chmod(0o600)
    start_online(lab)


def start_online(lab: Lab) -> None:
    lab.start()
    with lab.client() as muster:
        until("the node", lambda: muster.nodes()[0]["state"] == "online")


def test_the_password_of_a_proxy_in_a_registry_that_others_may_read_is_not_used(lab: Lab) -> None:
    local = {"name": "near", "driver": "local", "gpu_count": 0}
    far = {"name": "far", "ip": "192.0.2.7", "user_name": "me", "gpu_count": 0, "proxy": PROXY}
    lab.nodes = ["near"]
    lab.write_registry([local, far])
    lab.registry.chmod(0o644)
    said = refusal(lab)
    key = Message("key_of_node", key="proxy", node="far")
    assert str(Message("secret_open", key=key, path=str(lab.registry))) in said
    assert "hunter2" not in said
    lab.write_registry([local])
    start_online(lab)
    words = ("node", "add", "far", "--ip", "192.0.2.7", "--user", "me", "--gpus", "0", "--proxy", PROXY)
    lab.registry.chmod(0o644)
    refused = lab.muster(*words)
    assert (refused.returncode, "chmod 600" in refused.stderr, "hunter2" in refused.stderr) == (1, True, False)

    def fault() -> str:
        with lab.client() as muster:
            return muster.info()["registry_fault"] or ""

    lab.write_registry([local, far])
    lab.registry.chmod(0o640)
    assert "chmod 600" in until("the fault", fault)
    lab.registry.chmod(0o600)
    until("no fault", lambda: not fault())
