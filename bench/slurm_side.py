"""Slurm's part of `bench.peers`: controller, one node and munge on loopback, from the distribution's packages.

The packages are unpacked beside the other peers and not installed, unless Slurm is installed already; settings, key and
state lie in the folder of the run. Set up as fast as it goes: no delay between passes of its scheduler, no epilog, no
accounting. Each task is a batch job of an array, with a log of its own.
"""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from bench.lab import BenchError, eventually
from tests.ports import free_ports

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
_WHERE = "/usr/sbin:/usr/bin:/sbin:/bin"
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_LOOK_S = 0.05
_END_S = 10.0
_KEY_BYTES = 1024
_CONF = """\
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={munge}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1,default_queue_depth=1000
MaxJobCount=100000
EpilogMsgTime=0
InactiveLimit=0
KillWait=2
NodeName=bench NodeHostname={host} NodeAddr=127.0.0.1 CPUs={slots} State=UNKNOWN
PartitionName=all Nodes=bench Default=YES MaxTime=INFINITE State=UP
"""


class Programs:
    """Where Slurm's programs are: `root` is the folder that they were unpacked into, None where they are installed."""

    def __init__(self, root: Path | None) -> None:
        self._root = root

    def path(self, name: str) -> str:
        """Of the program. Raises BenchError."""
        folders = _WHERE.split(":")
        for folder in folders if self._root is None else [str(self._root / one.lstrip("/")) for one in folders]:
            for told in (name, f"{name}-wlm"):  # Debian's packages make a link of the first at their installation
                if os.access(os.path.join(folder, told), os.X_OK):  # noqa: PTH118
                    return f"{folder}/{told}"
        raise BenchError(f"there is no {name} in what was unpacked")

    def environment(self) -> dict[str, str]:
        """In which they find their libraries."""
        if self._root is None:
            return {}
        there = self._root / _LIBRARIES
        return {"LD_LIBRARY_PATH": f"{there}:{there}/slurm-wlm"}

    def settings(self) -> str:
        """Return the line of slurm.conf about them."""
        return "" if self._root is None else f"PluginDir={self._root / _LIBRARIES}/slurm-wlm\n"


def programs(tools: Path, get: Callable[[list[str], Path | None], str]) -> Programs:
    """Slurm as it is installed, else as its packages have it, unpacked into `tools`. `get` runs a command and gives
    what it printed. Raises BenchError where they cannot be had."""
    if all(shutil.which(one, path=_WHERE) for one in ("slurmctld", "slurmd", "sbatch", "squeue", "munged")):
        return Programs(None)
    root = tools / "slurm"
    if not root.exists():
        tools.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=tools) as new:
            planned = get(["apt-get", "install", "--simulate", "--no-install-recommends", *PACKAGES], None)
            names = [line.split()[1] for line in planned.splitlines() if line.startswith("Inst ")]
            get(["apt-get", "download", *names], Path(new))
            unpacked = Path(new) / "root"
            for package in sorted(Path(new).glob("*.deb")):
                get(["dpkg", "-x", str(package), str(unpacked)], None)
            unpacked.rename(root)
    found = Programs(root)
    found.path("slurmctld")
    return found


class Slurm:
    """A cluster of this machine with so many slots; close it."""

    def __init__(self, programs: Programs, slots: int, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._jobs = 0
        self._stack = ExitStack()
        # The name of a socket may have 107 bytes and no more, and the folder lies where it lies.
        self._munge = Path(self._stack.enter_context(tempfile.TemporaryDirectory())) / "munge"
        self._env = {**os.environ, **programs.environment(), "SLURM_CONF": str(folder / "slurm.conf")}
        self._env["XDG_STATE_HOME"] = str(folder)  # by which the bench finds and ends what is left, if something breaks
        self._write(slots)
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def no_ops(self, count: int) -> float:
        """Seconds from the submit of an array to the end of its last task."""
        logs = self._new_folder()
        begun = time.perf_counter()
        self._submit(["--output", f"{logs}/%a.log", "--array", f"0-{count - 1}", "--wrap", "true"])
        self._await_all()
        took = time.perf_counter() - begun
        if len(list(logs.iterdir())) != count:
            raise BenchError(f"Slurm ran {len(list(logs.iterdir()))} of {count} no-ops")
        return took

    def starts(self, count: int) -> list[float]:
        """Milliseconds from each submit to its process, one after the other."""
        return [self._one_start() for _ in range(count)]

    def close(self) -> None:
        """End all of it, the node first."""
        self._stack.close()

    def _one_start(self) -> float:
        told = self._new_folder() / "start"
        begun = time.time()
        self._submit(["--output", f"{told}.log", "--wrap", f"bash -c 'echo $EPOCHREALTIME > {told}'"])
        self._await_all()
        return (float(told.read_text(encoding="ascii")) - begun) * 1000

    def _new_folder(self) -> Path:
        self._jobs += 1
        folder = self._folder / f"job-{self._jobs}"
        folder.mkdir()
        return folder

    def _write(self, slots: int) -> None:
        for name in ("state", "spool"):
            (self._folder / name).mkdir()
        key = self._folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(os.urandom(_KEY_BYTES))
        controller_port, node_port = free_ports(2)
        text = _CONF.format(
            host=socket.gethostname().partition(".")[0],
            user=getpass.getuser(),
            folder=self._folder,
            munge=self._munge,
            slots=slots,
            controller_port=controller_port,
            node_port=node_port,
        )
        (self._folder / "slurm.conf").write_text(text + self._programs.settings(), encoding="utf-8")
        (self._folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n", encoding="utf-8")

    def _start(self) -> None:
        own = {"socket": self._munge, "key-file": self._folder / "munge.key"}
        own |= {name: self._folder / f"munge.{name}" for name in ("pid-file", "log-file", "seed-file")}
        self._run("munged", ["--foreground", "--force", *(f"--{name}={path}" for name, path in own.items())])
        eventually(self._munge.exists, "munge's socket")
        self._run("slurmctld", ["-D"])
        self._run("slurmd", ["-D", "-N", "bench", "-d", self._programs.path("slurmstepd")])
        eventually(lambda: self._asked("sinfo", "--noheader", "--format=%t") == "idle", "Slurm's node, idle", _LOOK_S)

    def _run(self, name: str, words: Iterable[str]) -> None:
        with (self._folder / f"{name}.out").open("wb") as out:
            process = subprocess.Popen(
                [self._programs.path(name), *words],
                cwd=self._folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        self._stack.callback(_end, process)

    def _asked(self, name: str, *words: str) -> str:
        """Return the output of one of Slurm's clients; "" if it fails so far."""
        done = subprocess.run(
            [self._programs.path(name), *words],
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
            timeout=_END_S,
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    def _submit(self, words: list[str]) -> None:
        if not self._asked("sbatch", "--parsable", *words):
            raise BenchError("Slurm took no job")

    def _await_all(self) -> None:
        eventually(lambda: self._left() == 0, "the end of Slurm's jobs", _LOOK_S)

    def _left(self) -> int:
        """How many lines squeue has of jobs, its headline left out; Slurm that does not answer is not done."""
        return len(self._asked("squeue", "--format=%i %t").splitlines()) - 1


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
