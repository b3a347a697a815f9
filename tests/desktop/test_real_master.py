"""A real master with real nodes and tasks in motion, and desktop clients that watch all of it on the three ports."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from tests.desktop.client import DesktopClient
from tests.desktop.test_tasks import check_lists
from tests.system.lab import PORTS, Lab, until

GPUS = 2


class DesktopLab(Lab):
    """Four nodes, folders that people share, and a virtual environment."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, nodes=4, gpus=GPUS)
        conf = json.loads(self.conf.read_text(encoding="utf-8"))
        self.conf.write_text(json.dumps({**conf, "visible_folders": ["data"], "conda": "prefix"}), encoding="utf-8")
        (folder / "data").mkdir()
        self.ports = conf["socket_info"]
        env = folder / "prefix/envs/plain"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(env)], check=True, timeout=60)

    def desktop(self, ports: dict[str, int] | None = None) -> DesktopClient:
        """A desktop client; `ports`: others than the master's own."""
        return DesktopClient({name: ("127.0.0.1", (ports or self.ports)[name]) for name in PORTS})


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


class Slow:
    """A network that takes `delay_s` for each byte in each direction, between a client and the master."""

    def __init__(self, ports: dict[str, int], delay_s: float) -> None:
        self.delay_s = delay_s
        self._servers = {name: socket.create_server(("127.0.0.1", 0)) for name in PORTS}
        self.ports = {name: server.getsockname()[1] for name, server in self._servers.items()}
        self._sockets: list[socket.socket] = []
        for name, server in self._servers.items():
            threading.Thread(target=self._accept, args=(server, ports[name]), daemon=True).start()

    def _accept(self, server: socket.socket, port: int) -> None:
        while True:
            try:
                near, _ = server.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", port))
            self._sockets += [near, far]
            for source, target in ((near, far), (far, near)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._carry, args=(source, target), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                time.sleep(self.delay_s)
                target.sendall(data)
        except OSError:
            return

    def close(self) -> None:
        """Cut everything."""
        for one in (*self._servers.values(), *self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def test_a_session_beside_two_hundred_tasks_in_motion(lab: DesktopLab) -> None:
    slow = Slow(lab.ports, 0.05)
    with lab.desktop() as near, lab.desktop(slow.ports) as far, lab.client() as muster:
        until("the nodes", lambda: all(node["state"] == "online" for node in muster.nodes()))
        for number in range(100):
            muster.submit(f"sleep 0.{number % 5}", gpus=number % 3, env="")
        for number in range(20):
            for client in (near, far):
                assert client.add(f"echo '{number}'; sleep 0.1", need_gpus=str(number % 3), path="/data") == ""
                assert client.ask("get_root") == ["data"]
        assert near.add('echo in $VIRTUAL_ENV "it\'s"; sleep 60', envs="plain", path="/data") == ""
        last = max(task["id"] for task in muster.tasks(active=True, ended=True))
        wanted = f"{last:014d}"
        until("it runs", lambda: any(task["task_id"] == wanted for task in near.tasks()["exec"]), patience=60)
        assert near.ask("env_list") == ["plain"]
        assert near.ask("test_env", "plain") == "True"
        assert near.ask("py_v", "plain")["res"] == "seccess"
        log = Path(near.ask("get_train_log_path", wanted))
        until("its log", lambda: re.search(r"in .*/plain it's", log.read_text(encoding="utf-8")))
        assert near.ask("stop_task", wanted)["info"] == "success"
        until(
            "its end",
            lambda: any(task["task_id"] == wanted and task["state"] == "term" for task in far.tasks()["hist"]),
        )
        until("the others' end", lambda: not far.tasks()["exec"] and not far.tasks()["wait"], patience=60)
        for client in (near, far):
            assert client.read_err == []
            for frame in client.train.seen:
                check_lists(frame.info)
            check_cadence([frame.at for frame in client.train.seen])
            by_node = defaultdict(list)
            for frame in client.monitor.seen:
                assert frame.info["name"] in frame.info["online"]
                assert len(frame.info["gpus"]) == len(frame.info["gpu_used"]) == GPUS
                by_node[frame.info["name"]].append(frame.at)
            assert sorted(by_node) == lab.nodes
            for times in by_node.values():
                check_cadence(times)
    slow.close()


def check_cadence(times: list[float]) -> None:
    """About every two seconds; the first comes between two."""
    gaps = sorted(after - before for before, after in pairwise(times[1:]))
    assert 1.9 < gaps[len(gaps) // 2] < 2.1, gaps
    assert gaps[-1] < 2.5, gaps


def test_tasks_survive_a_restart_and_a_new_window_shows_them(lab: DesktopLab) -> None:
    with lab.desktop() as client, lab.client() as muster:
        until("the nodes", lambda: all(node["state"] == "online" for node in muster.nodes()))
        assert client.add("sleep 60") == ""
        until("it runs", lambda: client.tasks()["exec"])
        lab.kill_master()
        assert all(reader.ended.wait(10) for reader in client.readers)
    lab.start()
    with lab.desktop() as client:
        (entry,) = until("it is shown", lambda: client.tasks()["exec"])
        assert (entry["exec"], entry["state"]) == ("sleep 60", "exec")
        assert client.ask("stop_task", entry["task_id"])["info"] == "success"
        until("its end", lambda: client.tasks()["hist"])


def test_the_commands_about_environments(lab: DesktopLab) -> None:
    with lab.client() as muster:
        until("a node", lambda: any(node["state"] == "online" for node in muster.nodes()))
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
    assert refused.stderr.startswith("error: not_found: nowhere could not be activated")
    assert lab.muster("env", "check", "a;b").stderr.startswith("error: bad_request: env:")
    assert lab.muster("env", "check").returncode == 2
    assert lab.muster("env", "list", "plain").returncode == 2
