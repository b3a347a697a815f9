"""Who may log in to the hosts of a testbed: one account with a uid of its own, by password and by key; root by key. And
people who have accounts there, with homes, and never log in."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

USER, UID = "lab", 6000
PEOPLE = {"alice": 6101, "bob": 6102, "carol": 6103}
PASSWORD = "open sesame"  # noqa: S105  (of an account that exists inside a test only)
_HASH = "$6$muster.testbed$ZMYM/Q9yv1Zoyq/wgqQcT8srJM5Qd6O7lGjbRqTN/ferEfGbmrRtpfV1OtYZ0xzUcWB.Ss18vT1pRBiuDu7Qo0"
_SSHD = """\
HostKey /etc/ssh/host_key
PasswordAuthentication yes
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
LogLevel VERBOSE
PidFile /run/sshd.pid
"""
"""All else, the limits before all, is what sshd does by itself."""


def copy_etc(etc: Path) -> None:
    """Copy this machine's /etc to `etc` and add the account."""
    shutil.copytree("/etc", etc, symlinks=True, ignore=not_to_copy)
    lines = {
        "passwd": f"{USER}:x:{UID}:{UID}::/home/{USER}:/bin/bash\n",
        "shadow": f"{USER}:{_HASH}:19000:0:99999:7:::\n",
        "group": f"{USER}:x:{UID}:\n",
    }
    for name, uid in PEOPLE.items():
        lines["passwd"] += f"{name}:x:{uid}:{uid}::/home/{name}:/bin/bash\n"
        lines["group"] += f"{name}:x:{uid}:\n"
    for name, line in lines.items():
        with (etc / name).open("a", encoding="utf-8") as file:
            file.write(line)
    (etc / "shadow").chmod(0o600)
    for name in ("hostname", "machine-id"):
        (etc / name).touch()  # to mount upon
    (etc / "ssh").mkdir()


def not_to_copy(folder: str, names: list[str]) -> set[str]:
    """What has no business in a copy: private keys, what is neither file, folder nor link, and what we may not read."""
    unwanted = {"ssh", "gshadow"} if folder == "/etc" else {"private"} if folder == "/etc/ssl" else set()
    return unwanted | {name for name in names if not _is_plain(Path(folder, name))}


def _is_plain(path: Path) -> bool:
    if path.is_symlink():
        return True
    return os.access(path, os.R_OK | os.X_OK) if path.is_dir() else path.is_file() and os.access(path, os.R_OK)


def make_key(path: Path) -> None:
    """A new ed25519 key without passphrase at `path`, its public half beside it."""
    path.unlink(missing_ok=True)
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)]
    subprocess.run(words, check=True, capture_output=True, stdin=subprocess.DEVNULL)


def make_sshd(folder: Path) -> None:
    """What stands in a host's /etc/ssh."""
    folder.mkdir()
    (folder / "sshd_config").write_text(_SSHD, encoding="utf-8")
    make_key(folder / "host_key")


def make_homes(disk: Path, public_key: Path) -> None:
    """Everybody's homes, and the key that opens the account, and root's."""
    for name, uid in PEOPLE.items():
        home = disk / "home" / name
        home.mkdir(parents=True, mode=0o700)
        os.chown(home, uid, uid)
    _let_in(disk / "root", public_key, 0)
    (disk / "root").chmod(0o700)
    home = disk / "home" / USER
    home.mkdir()
    _let_in(home, public_key, UID)
    home.chmod(0o755)


def _let_in(home: Path, public_key: Path, uid: int) -> None:
    keys = home / ".ssh"
    keys.mkdir(mode=0o700)
    shutil.copy(public_key, keys / "authorized_keys")
    for path in (home, keys, keys / "authorized_keys"):
        os.chown(path, uid, uid)
