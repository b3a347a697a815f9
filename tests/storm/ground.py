"""Where a run takes place: the hosts, the master's own small disk for its queue, small disks on some of the hosts.

Owns what has to be made before the first start and taken away after the last one.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.storm.witness import DISK, Witness
from tests.system.ssh_lab import SshLab
from tests.testbed.bed import Testbed
from tests.testbed.errors import TestbedError
from tests.testbed.host import Host
from tests.waiting import until

GPUS, SLOTS = 8, 12
QUEUE_DISK_BYTES = 96 << 20
NODE_DISK_BYTES = 4 << 20
STATE = f"/home/{Host.user}/.local/state"
READ_ONLY = "/mnt/read-only"
GRACE_S = 2.0


class QueueDisk:
    """A disk of its own for `task_info`, which can be filled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_full = False
        folder.mkdir()
        _do("mount", "-t", "tmpfs", "-o", f"size={QUEUE_DISK_BYTES},mode=755", "tmpfs", str(folder))

    def fill(self) -> None:
        """Leave not a byte."""
        self.is_full = True
        fd = os.open(self.folder / "ballast", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with suppress(OSError):
                for size in (1 << 20, 1 << 12, 1):
                    with suppress(OSError):
                        while True:
                            os.write(fd, bytes(size))
        finally:
            os.close(fd)

    def free(self) -> None:
        """There is room again."""
        (self.folder / "ballast").unlink(missing_ok=True)
        self.is_full = False

    def close(self) -> None:
        """Take it away."""
        subprocess.run(["umount", "--lazy", str(self.folder)], check=False, capture_output=True)


class StormLab(SshLab):
    """A lab whose queue lies on a disk of its own, and whose history is short, so that it moves to the months'
    files."""

    def __init__(self, folder: Path, bed: Testbed, disk: QueueDisk, keep_history: int) -> None:
        self._disk = disk
        super().__init__(folder, bed, gpus=GPUS, slots=SLOTS)
        scheduler = {"grace_s": GRACE_S, "keep_history": keep_history}
        self.write_conf(task_info=str(self.task_info), scheduler=scheduler)

    @property
    def task_info(self) -> Path:
        """On the disk that can be filled."""
        return self._disk.folder / "task_info"

    def agent_folder(self, node: str) -> Path:
        """As the host sees it, which may have a disk of its own there."""
        base = self.hosts[node].outside(f"{STATE}/muster")
        return until(f"a state folder of {node}", lambda: next(base.glob(f"*-{node}"), None))

    @property
    def ports(self) -> dict[str, int]:
        """The three."""
        found: dict[str, int] = self.keys["socket_info"]
        return found


class Ground:
    """All of it. `small_disks`: the hosts whose agents keep their state on a small disk, which a reboot would empty."""

    def __init__(self, bed: Testbed, folder: Path, keep_history: int) -> None:
        self.bed = bed
        self.disk = QueueDisk(bed.folder / "queue")
        self.lab = StormLab(folder, bed, self.disk, keep_history)
        self.witness = Witness(bed.shared / "held", [host.disk / DISK.lstrip("/") for host in bed.hosts])
        self.small_disks = [host.name for host in bed.hosts[-max(1, len(bed.hosts) // 5) :]]
        for name in self.small_disks:
            self.lab.hosts[name].small_disk(STATE, NODE_DISK_BYTES)


@contextmanager
def ground(hosts: int, folder: Path, keep_history: int) -> Iterator[Ground]:
    """A place for a run; the last host is behind the proxy."""
    with Testbed(hosts, inner=[hosts]) as bed:
        disk: QueueDisk | None = None
        try:
            place = Ground(bed, folder, keep_history)
            disk = place.disk
            yield place
        finally:
            if disk is not None:
                disk.close()


# -- what can be wrong with a host, besides what the testbed knows --------------------------------------------


def make_sick(host: Host, how: str) -> None:
    """From now on nothing can be started there: its state cannot be written, nothing forks, or the logs' folder is
    gone."""
    if how == "state read-only":
        # Made read-only where nobody can have opened anything yet, and put into its place then.
        host.run("mkdir", "-p", READ_ONLY)
        host.run("mount", "--bind", STATE, READ_ONLY)
        host.run("mount", "-o", "remount,bind,ro", READ_ONLY)
        host.run("mount", "--bind", READ_ONLY, STATE)
    elif how == "no processes":
        _limit_processes(host, 1)
    else:
        host.hide_shared()


def make_well(host: Host, how: str) -> None:
    """Undo `make_sick`."""
    if how == "state read-only":
        host.run("umount", "--lazy", STATE)
        host.run("umount", "--lazy", READ_ONLY)
    elif how == "no processes":
        _limit_processes(host, None)
    else:
        host.show_shared()


def _limit_processes(host: Host, least: int | None) -> None:
    """For whatever lives of the account: how many processes it may have, which is looked at when one forks. None: as
    many as ever."""
    for process in host.processes():
        with suppress(OSError):
            if Path(f"/proc/{process.pid}").stat().st_uid == host.uid:
                _, hard = resource.prlimit(process.pid, resource.RLIMIT_NPROC)
                resource.prlimit(process.pid, resource.RLIMIT_NPROC, (hard if least is None else least, hard))


def power_cycle(host: Host, seconds: float) -> None:
    """Off, so many seconds, on."""
    host.power_off()
    time.sleep(seconds)
    for tries in range(3):
        try:
            host.power_on()
        except TestbedError:
            if tries == 2:
                raise
            if host.is_on:
                host.power_off()
        else:
            return


def registry_garbage(chance: float) -> str:
    """What a registry must not be: cut in the middle, or of another kind."""
    return json.dumps([{"name": "half"}])[:-4] if chance < 0.5 else json.dumps({"nodes": "gone"})


def _do(*command: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise TestbedError(f"{' '.join(command)}: {done.stderr.strip()}")
