"""One host of a testbed: what it is, and everything that can happen to it.

Its files lie in a folder that the test sees too: `disk` has what survives a reboot (`/home`, `/root`, `/tmp`,
`/var/tmp`, `/var/log`). Kernel locks and everything else that belongs to the one kernel work across that border.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.testbed import accounts, processes
from tests.testbed.errors import TestbedError
from tests.testbed.network import Network
from tests.testbed.processes import Process
from tests.waiting import NeverError, until

_BOOT = Path(__file__).with_name("boot.sh")
_REPOSITORY = Path(__file__).parents[2]
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
_STILL = frozenset({"T", "t", "D", "Z", "X", ""})
_PYTHONS = "python*", "pypy*"
_PROGRAMS = Path("/usr/local/bin"), Path("/usr/bin")


class Room(NamedTuple):
    """What the hosts of a testbed have in common. `folder`: where each has its own; `key`: opens the account."""

    network: Network
    folder: Path
    etc: Path
    shared: Path
    key: Path


class Host:
    """A host. `inner`: it is on the inner network, which is reached through the testbed's proxy only."""

    port = 22
    user, uid, password = accounts.USER, accounts.UID, accounts.PASSWORD

    def __init__(self, room: Room, number: int, *, inner: bool = False) -> None:
        self.number = number
        self.inner = inner
        self.name = f"host{number}"
        self.address = room.network.address(number, inner=inner)
        self.folder = room.folder / self.name
        self.disk = self.folder / "disk"
        self.home = self.disk / "home" / self.user
        self._room = room
        self._network = room.network
        self._outside: subprocess.Popen[bytes] | None = None
        self._init = 0
        self._space = ""
        self._install()

    def _install(self) -> None:
        (self.folder / "nothing").mkdir(parents=True)
        (self.folder / "hostname").write_text(self.name + "\n", encoding="ascii")
        (self.folder / "machine-id").write_text(secrets.token_hex(16) + "\n", encoding="ascii")
        accounts.make_sshd(self.folder / "ssh")
        self._install_disk()

    def _install_disk(self) -> None:
        for folder in ("root", "tmp", "var/tmp", "var/log"):
            (self.disk / folder).mkdir(parents=True)
        for folder in ("tmp", "var/tmp"):
            (self.disk / folder).chmod(0o1777)
        accounts.make_homes(self.disk, self._room.key.with_suffix(".pub"))

    # -- power ------------------------------------------------------------------------------------------------

    @property
    def is_on(self) -> bool:
        """Does it have power?"""
        return self._outside is not None

    def power_on(self) -> None:
        """Boot, with a new boot id and what is on its disk. Returns when its sshd answers. Raises TestbedError."""
        self.start_booting()
        self.await_booted()

    def start_booting(self) -> None:
        """Boot, and do not wait: so that many boot at once."""
        if self.is_on:
            raise TestbedError(f"{self.name} is on already")
        self._network.plug_in(self.number, inner=self.inner)
        inside = [self.name, self.folder, self._room.etc, self._room.shared, _REPOSITORY]
        unshare = ["unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        space = ["ip", "netns", "exec", self._network.namespace(self.number)]
        with (self.folder / "boot.log").open("ab") as log:
            self._outside = subprocess.Popen(
                [*space, *unshare, "sh", str(_BOOT), *map(str, inside)],
                env=_ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def await_booted(self) -> None:
        """Wait for the sshd of a host that boots. Raises TestbedError."""
        try:
            until(f"{self.name} boots", self._has_booted)
        except NeverError as error:
            raise TestbedError(f"{error}; it said: {self._said()}") from None

    def _said(self) -> str:
        return (self.folder / "boot.log").read_text(encoding="utf-8", errors="replace").strip()[-500:]

    def _has_booted(self) -> bool:
        if self._outside is None or self._outside.poll() is not None:
            raise TestbedError(f"{self.name} did not boot: {self._said() or 'it said nothing'}")
        if not self._init:
            self._init = next(iter(processes.children(self._outside.pid)), 0)
            return False
        return self._listens()

    def power_off(self) -> None:
        """Lose power: the peers hear nothing any more, not even that connections end; what is on disk stays."""
        if self._outside is None:
            raise TestbedError(f"{self.name} is off already")
        self._network.pull_out(self.number)
        left = self._pids()
        _signal(self._init or self._outside.pid, signal.SIGKILL)  # with process 1 the kernel ends all the others
        self._outside.wait()
        _await_end(left)
        self._network.forget(self.number)
        self._outside, self._init = None, 0

    def renew(self) -> None:
        """As new: the wire whole, nothing mounted, stopped or left, a fresh disk. Returns when it has booted."""
        self.wipe()
        self.power_on()

    def wipe(self) -> None:
        """Power off, and an empty disk but for the account's home."""
        if self.is_on:
            self.power_off()
        shutil.rmtree(self.disk)
        self._install_disk()

    @property
    def init(self) -> int:
        """The pid of its process 1, as this machine counts. Raises TestbedError when it is off."""
        if not self._init:
            raise TestbedError(f"{self.name} is off")
        return self._init

    @property
    def boot_id(self) -> str:
        """Of the boot that runs, or of the last one."""
        return (self.folder / "boot_id").read_text(encoding="ascii").strip()

    # -- inside -----------------------------------------------------------------------------------------------

    def run(self, *command: str, user: str = "root", check: bool = True, said: str = "") -> str:
        """Run a command inside, with `said` on its stdin, and give its stdout. Raises TestbedError when it fails,
        unless not `check`."""
        identity = [] if user == "root" else ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        entered = ["nsenter", f"--target={self.init}", "--net", "--mount", "--uts", "--pid", "--wd=/"]
        home = {"HOME": "/root" if user == "root" else f"/home/{user}"}
        done = subprocess.run(
            [*entered, "--", *identity, *command],
            env={**_ENVIRONMENT, **home},
            input=said,
            capture_output=True,
            text=True,
            check=False,
        )
        if check and done.returncode != 0:
            raise TestbedError(f"{self.name}: {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def outside(self, path: str) -> Path:
        """Where this machine finds the host's file `path`, as long as the host is on."""
        return Path(f"/proc/{self.init}/root") / path.lstrip("/")

    def processes(self) -> list[Process]:
        """All that lives on it, process 1 and its sleep aside. None when it is off."""
        if not self._init:
            return []
        here = processes.together(self._init, "pid")
        sleeping = (one for one in here if one.parent == self._init and one.command == "sleep infinity")
        idle = {self._init, *(one.pid for one in sleeping)}
        return [process for process in here if process.pid not in idle]

    def attempts(self) -> list[Process]:
        """The processes of tasks."""
        return [process for process in self.processes() if process.launch_id]

    def pid(self, inside: int) -> int | None:
        """The pid of a living process as this machine counts; `inside`: as the host does. None when there is none."""
        found = (process.pid for process in self.processes() if processes.inner_pid(process.pid) == inside)
        return next(found, None)

    def _pids(self) -> list[int]:
        return [process.pid for process in processes.together(self._init, "pid")] if self._init else []

    # -- the wire ---------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Lose every packet until `heal`."""
        self._network.cut(self.number)

    def lose_to_master(self) -> None:
        """Lose what it sends to this machine, until `heal`; it still hears all."""
        self._refuse_inner()
        self._network.lose_to_master(self.number)

    def lose_from_master(self) -> None:
        """Lose what this machine sends to it, until `heal`; it is still heard."""
        self._refuse_inner()
        self._network.lose_from_master(self.number)

    def shut_out(self) -> None:
        """Put it behind a firewall, until the next boot: nobody can open a connection to it, it can open any."""
        self._network.shut_out(self.number)

    def heal(self) -> None:
        """The wire is whole again."""
        self._network.heal(self.number, inner=self.inner)

    def _refuse_inner(self) -> None:
        if self.inner:
            raise TestbedError(f"{self.name} is behind the proxy: this machine sends it nothing that could be lost")

    # -- sshd -------------------------------------------------------------------------------------------------

    def stop_sshd(self) -> None:
        """End the listener: connections are refused. Sessions that exist go on."""
        self.run(
            "sh", "-c", 'pid=$(cat /run/sshd.pid) && kill "$pid" && while kill -0 "$pid" 2>&-; do sleep 0.01; done'
        )

    def start_sshd(self) -> None:
        """Listen again. Returns when it does: sshd goes into the background before, and writes its pid after it. Raises
        TestbedError."""
        pid = self.outside("/run/sshd.pid")
        pid.unlink(missing_ok=True)
        self.run("/usr/sbin/sshd", "-E", "/var/log/sshd.log")
        try:
            until(
                f"the sshd of {self.name} listens",
                lambda: pid.exists() and pid.read_text(encoding="ascii").endswith("\n"),
            )
        except NeverError as error:
            raise TestbedError(f"{error}; its log ends: {self.sshd_log[-500:]}") from None

    def freeze_sshd(self) -> None:
        """Stop the listener in its tracks: connections are taken by the kernel, and nobody says a word."""
        self.run("sh", "-c", "kill -STOP $(cat /run/sshd.pid)")

    def thaw_sshd(self) -> None:
        """Undo `freeze_sshd`."""
        self.run("sh", "-c", "kill -CONT $(cat /run/sshd.pid)")

    def swap_host_key(self) -> None:
        """Listen with a new host key, as a machine does that was installed anew."""
        self.stop_sshd()
        accounts.make_key(self.folder / "ssh" / "host_key")
        self.start_sshd()

    @property
    def host_key(self) -> str:
        """Type and key, as known_hosts has them."""
        return " ".join((self.folder / "ssh" / "host_key.pub").read_text(encoding="ascii").split()[:2])

    @property
    def fingerprint(self) -> str:
        """Of the host key, as `ssh-keygen -l` prints it: SHA256:…"""
        words = ["ssh-keygen", "-l", "-f", str(self.folder / "ssh" / "host_key.pub")]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[1]

    @property
    def sshd_log(self) -> str:
        """What its sshd wrote since it was installed."""
        return (self.disk / "var/log/sshd.log").read_text(encoding="utf-8", errors="replace")

    def _listens(self) -> bool:
        if self.inner:  # this machine cannot see it
            return (self.folder / "boot_id").exists() and self.outside("/run/sshd.pid").exists()
        with suppress(OSError), socket.create_connection((self.address, self.port), 2.0) as probe:
            return probe.recv(4) == b"SSH-"
        return False

    # -- what may be wrong with it ----------------------------------------------------------------------------

    def freeze(self) -> None:
        """Stop every process; the kernel still answers for the connections. Raises TestbedError."""
        asked: set[int] = set()

        def all_stand_still() -> bool:
            """Whoever was forked meanwhile is asked too. Who waits in the kernel (D) stops before he goes on."""
            pids = self._pids()
            for pid in set(pids) - asked:
                _signal(pid, signal.SIGSTOP)
            is_new = not asked.issuperset(pids)
            asked.update(pids)
            return not is_new and all(processes.state(pid) in _STILL for pid in pids)

        try:
            until(f"{self.name} stands still", all_stand_still)
        except NeverError as error:
            raise TestbedError(str(error)) from None

    def thaw(self) -> None:
        """Undo `freeze`."""
        for pid in self._pids():
            _signal(pid, signal.SIGCONT)

    def set_bashrc(self, text: str) -> None:
        """What every bash of the account reads first, also one that sshd starts for a command."""
        path = self.home / ".bashrc"
        path.write_text(text, encoding="utf-8")
        os.chown(path, self.uid, self.uid)

    def hide_shared(self) -> None:
        """The shared folder is not mounted; its mount point stays, empty. Until the next boot, or `show_shared`."""
        self.run("umount", "--lazy", str(self._room.shared))

    def show_shared(self) -> None:
        """Undo `hide_shared`."""
        self.run("mount", "--bind", "/mnt/shared", str(self._room.shared))

    def hide_python(self) -> None:
        """There is no Python any more for whoever starts one from now on. Until the next boot, or `show_python`."""
        for programs in _PROGRAMS:
            self._put_over(programs)

    def _put_over(self, programs: Path) -> None:
        """Replace a folder of programs by one with links to all of them but Pythons."""
        real, farm = (
            f"/mnt/programs{programs}".replace("/usr/", "/"),
            self.folder / "programs" / programs.relative_to("/"),
        )
        self.run("mkdir", "-p", real)
        shutil.rmtree(farm, ignore_errors=True)
        farm.mkdir(parents=True)
        for program in programs.iterdir():
            if not any(program.match(pattern) for pattern in _PYTHONS):
                (farm / program.name).symlink_to(f"{real}/{program.name}")
        self.run("mount", "--bind", str(programs), real)
        self.run("mount", "--bind", f"/mnt/host/{farm.relative_to(self.folder)}", str(programs))

    def show_python(self) -> None:
        """Undo `hide_python`."""
        self.run("umount", *map(str, _PROGRAMS))

    def small_disk(self, path: str, size: int) -> None:
        """Mount a disk of `size` bytes of the account's at `path`. Until the next boot."""
        self.run("mkdir", "-p", path, user=self.user)
        self.run("mount", "-t", "tmpfs", "-o", f"size={size},uid={self.uid},gid={self.uid},mode=755", "tmpfs", path)

    def fill_disk(self, path: str) -> None:
        """Leave not a byte on the disk of `small_disk`."""
        self.run("sh", "-c", 'cat /dev/zero >"$0/ballast"', path, check=False)  # it fails: that is when it is full

    def empty_disk(self, path: str) -> None:
        """There is room again."""
        self.run("rm", f"{path}/ballast")


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _await_end(pids: list[int]) -> None:
    """Wait until killed processes are gone, and with them the mounts that keep files busy. Raises TestbedError."""

    def left() -> list[Process]:
        return processes.alive(set(pids).__contains__)

    try:
        until("what was killed is gone", lambda: not left(), seen=left)
    except NeverError as error:
        raise TestbedError(str(error)) from None
