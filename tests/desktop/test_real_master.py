"""A real master with real nodes and tasks in motion, and desktop clients that watch all of it on the three ports."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import pytest

from tests.desktop import script
from tests.desktop.client import DesktopClient
from tests.desktop.slow_network import SlowNetwork
from tests.desktop.test_tasks import check_lists
from tests.faults import in_words
from tests.system.lab import PORTS, Lab
from tests.waiting import until
from wire.errors import BadRequestError, NotFoundError

GPUS = 2
ROW = {
    "name": str, "cpu_usage": str, "avail_ram": str, "web_up": str, "web_down": str, "gpus": list, "cpu_used": int,
    "gpu_used": list, "online": list,
}  # fmt: skip


class DesktopLab(Lab):
    """Four nodes, folders that people share, and a virtual environment."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, nodes=4, gpus=GPUS)
        self.write_conf(visible_folders=["data"], conda="prefix", limits={"env_requests_per_minute": 1000})
        (folder / "data").mkdir()
        self.ports = self.keys["socket_info"]
        env = folder / "prefix/envs/plain"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(env)], check=True, timeout=60)

    def show(self, task_id: int) -> object:
        """What the master says of a task."""
        with self.client() as client:
            return client.show(task_id)

    def desktop(self, ports: dict[str, int] | None = None) -> DesktopClient:
        """A desktop client; `ports`: others than the master's own, from which frames come as close as they will."""
        addresses = {name: ("127.0.0.1", (ports or self.ports)[name]) for name in PORTS}
        return DesktopClient(addresses, judges=ports is None)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[DesktopLab]:
    """A lab, started; nothing is left of it."""
    one = DesktopLab(tmp_path)
    try:
        one.start()
        yield one
    finally:
        left = one.close()
    assert left == []


class Moving(threading.Thread):
    """Somebody else, through whom about two hundred tasks are in motion until he is told to stop."""

    def __init__(self, lab: DesktopLab) -> None:
        super().__init__(daemon=True)
        self._lab = lab
        self._enough = threading.Event()
        self.most = 0
        self.error: Exception | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def run(self) -> None:
        """Keep them coming: waiting, starting, running, ending, failing, cancelled."""
        try:
            with self._lab.client() as muster:
                while not self._enough.wait(0.5):
                    live = muster.tasks()
                    self.most = max(self.most, len(live))
                    for number in range(220 - len(live)):
                        muster.submit(f"sleep 1.{number % 8}; exit {number % 5 == 4:d}", gpus=number % 3)
                    with suppress(BadRequestError, NotFoundError):
                        muster.cancel([live[-1]["id"]] if live else [])
        except Exception as error:  # noqa: BLE001  (told by `stop`, in the test's own thread)
            self.error = error

    def stop(self) -> None:
        """No more; those that wait are let go. Raises what became of it."""
        self._end()
        if self.error is not None:
            raise self.error

    def _end(self) -> None:
        self._enough.set()
        self.join()


def test_a_session_of_every_request_beside_two_hundred_tasks_in_motion(lab: DesktopLab) -> None:
    with lab.client() as muster:
        until("the nodes", lambda: all(node["state"] == "online" for node in muster.nodes()))
    with SlowNetwork(lab.ports, 0.05, jitter_s=0.01) as slow, Moving(lab) as moving:
        until("two hundred", lambda: moving.most >= 200 or moving.error)
        with lab.desktop() as near, lab.desktop(slow.ports) as far:
            with ThreadPoolExecutor() as pool:
                clients = {"near": near, "far": far}
                told = [
                    pool.submit(script.tell, client, lab.folder, name, lab.show) for name, client in clients.items()
                ]
                for one in told:
                    one.result()
            for client in (near, far):
                client.watch("they move to the end", lambda told: len(told["wait"]) + len(told["exec"]) > 100)
            moving.stop()
            for client in (near, far):
                check_client(client, lab.nodes)
            assert slow.too_close == []


def check_client(client: DesktopClient, nodes: list[str]) -> None:
    """All that a client was ever pushed: whole, in time, and of the right shape."""
    assert client.read_err == []
    assert len(client.train.seen) > 5
    for frame in client.train.seen:
        assert (frame.mode, frame.ui) == ("task_mon", "main")
        check_lists(frame.info)
    assert {entry["state"] for frame in client.train.seen for entry in frame.info["hist"]} == {"accp", "err", "term"}
    check_cadence([frame.at for frame in client.train.seen])
    by_node = defaultdict(list)
    for frame in client.monitor.seen:
        check_row(frame.info)
        by_node[frame.info["name"]].append(frame.at)
    assert sorted(by_node) == nodes
    for times in by_node.values():
        check_cadence(times)


def check_row(info: dict[str, Any]) -> None:
    """One node, as the client's monitor takes it."""
    assert {key: type(value) for key, value in info.items()} == ROW
    assert info["name"] in info["online"]
    assert len(info["gpus"]) == len(info["gpu_used"]) == GPUS
    assert info["cpu_used"] in (0, 1)
    assert set(info["gpu_used"]) <= {0, 1}
    assert re.fullmatch(r"[0-9]+\.[0-9] %|No data", info["cpu_usage"])
    assert re.fullmatch(r"[0-9]+\.[0-9] (B|KB|MB|GB|TB)|No data", info["avail_ram"])
    for gpu in info["gpus"]:
        assert {type(gpu["gpu_used"]), type(gpu["avail_vram"])} == {str}
    for key in ("web_up", "web_down"):
        assert re.fullmatch(r"[0-9]+\.[0-9] (bps| Kbps|Mbps|Gbps)", info[key])


def test_a_task_runs_as_the_form_says_and_its_log_is_there(lab: DesktopLab) -> None:
    with lab.desktop() as client, lab.client() as muster:
        until("the nodes", lambda: all(node["state"] == "online" for node in muster.nodes()))
        assert client.add('echo in $VIRTUAL_ENV "it\'s"; sleep 60', envs="plain", path="/data") == ""
        entry = until("it runs", lambda: running(client))
        log = Path(client.ask("get_train_log_path", entry["task_id"]))
        until("its log", lambda: re.search(r"in .*/plain it's", log.read_text(encoding="utf-8")))
        assert client.ask("stop_task", entry["task_id"])["info"] == "success"
        (entry,) = until("its end", lambda: client.tasks()["hist"])
        assert entry["state"] == "term"
        assert client.read_err == []


def running(client: DesktopClient) -> dict[str, Any] | None:
    """The one task that is there, once it runs: the table shows it from the moment it is about to start."""
    told = client.tasks()["exec"]
    return told[0] if [entry["state"] for entry in told] == ["exec"] else None


def check_cadence(times: list[float]) -> None:
    """Every two seconds and not more often; the first comes between two. How late they may be depends on the machine:
    `bench/desktop_clients.py` measures it."""
    gaps = sorted(after - before for before, after in pairwise(times[1:]))
    assert gaps[len(gaps) // 2] > 1.5, gaps


def test_tasks_survive_a_restart_and_a_new_window_shows_them(lab: DesktopLab) -> None:
    with lab.desktop() as client, lab.client() as muster:
        until("the nodes", lambda: all(node["state"] == "online" for node in muster.nodes()))
        assert client.add("sleep 60") == ""
        until("it runs", lambda: running(client))
        lab.kill_master()
        assert all(reader.ended.wait(60) for reader in client.readers)
    lab.start()
    with lab.desktop() as client:
        entry = until("it is shown, running", lambda: running(client))
        assert entry["exec"] == "sleep 60"
        assert client.ask("stop_task", entry["task_id"])["info"] == "success"
        until("its end", lambda: client.tasks()["hist"])


def test_the_commands_about_environments(lab: DesktopLab) -> None:
    with lab.client() as muster:
        until("the nodes", lambda: all(node["state"] == "online" for node in muster.nodes()))
    done = lab.muster("env", "list", "--json")
    assert [env["name"] for env in json.loads(done.stdout)] == ["plain"], done.stderr
    assert "plain" in lab.muster("env", "list", "--node", "node2").stdout
    version = "{}.{}.{}".format(*sys.version_info[:3])
    assert json.loads(lab.muster("env", "python", "plain", "--json").stdout)["version"] == version
    assert "can be used on node" in lab.muster("env", "check", "plain").stdout
    assert lab.muster("env", "packages", "plain").returncode == 0
    cuda = lab.muster("env", "cuda", "plain")
    assert (cuda.returncode, "cannot be imported" in cuda.stdout) == (1, True)
    refused = lab.muster("env", "check", "nowhere")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert refused.stderr.startswith("error: not_found: ")
    assert in_words(refused.stderr, "env_not_activated", env="nowhere")
    assert lab.muster("env", "check", "a;b").stderr.startswith("error: bad_request: env:")
    assert lab.muster("env", "check").returncode == 2
    assert lab.muster("env", "list", "plain").returncode == 2
