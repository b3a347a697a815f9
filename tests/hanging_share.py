"""A folder over sshfs whose server can be stopped, as a file server that hangs."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from tests import rights
from tests.master.drivers.real_sshd import USER, RealSshd
from tests.waiting import NeverError, until


class Share:
    """The folder is `path`, and on the server's side `there`; `options`: more of sshfs'. `hang` and `go_on`: its
    server's side stops answering, and answers again."""

    def __init__(self, folder: Path, *options: str) -> None:
        rights.need_real_root()  # /dev/fuse is open to nobody else on many machines
        self.server = RealSshd(folder / "sshd")
        self.server.more_config = "Subsystem sftp internal-sftp\n"
        self.server.start()
        self.path = folder / "share"
        self.path.mkdir()
        self.there = folder / "there"
        self.there.mkdir()
        key = f"IdentityFile={self.server.client_key}"
        known = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null")
        where = f"{USER}@127.0.0.1:{self.there}"
        self._words = ["sshfs", "-f", "-p", str(self.server.port), "-o", ",".join((key, *known, *options)), where]
        self._process = self._start()
        try:
            until("the mount", self._is_mounted, patience=60)
        except NeverError:
            self._process.kill()
            self._process.wait()
            self.server.close()
            raise

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*self._words, str(self.path)])

    def _is_mounted(self) -> bool:
        """An sshd that is busy may turn the first call away."""
        if self._process.poll() is not None:
            self._process = self._start()
        return self.path.is_mount()

    def hang(self) -> None:
        """From here on nobody gets an answer."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Everybody gets his answer."""
        os.kill(self._process.pid, signal.SIGCONT)

    def close(self) -> None:
        """Answer, and be gone."""
        self.go_on()
        subprocess.run(["fusermount3", "-u", "-z", str(self.path)], check=True)
        # It would not end by itself while a host of somebody's testbed, booted meanwhile, has the mount too.
        self._process.terminate()
        self._process.wait(60)
        self.server.close()
