"""NFS: what this machine exports to which machines, and what each node mounts, with options and their reasons.

A node is served by its address, and no other machine is. Users are told apart by number (`sec=sys`), so an account must
have the same number everywhere; the script for the nodes checks that. Muster itself only needs the folders.
"""

from __future__ import annotations

import shlex
import uuid
from pathlib import Path

from master.setup.deploy.lab import Lab, RemoteHost, Shared, is_beneath
from master.setup.deploy.quoting import export_path, host, octal

BEGIN, END = "# BEGIN muster", "# END muster"
_EXPORTS = """\
# Made by `muster deploy`: the folders that the nodes mount. Goes to /etc/exports.d/muster.exports; `exportfs -ra`
# reads it. Each line: a folder, then the machines that may mount it.
#   sync               what a node was told is written is on the disk, also after a power cut here
#   no_subtree_check   whole folders are exported: the check costs time, and breaks files that are renamed while open
#   root_squash        root of a node is nobody here{squash}
#   crossmnt           (if there) other file systems are mounted beneath, and are seen as well
#   fsid               (if there) the file system has no identity of its own that would outlive a restart
"""
_NO_SQUASH = """
#   no_root_squash     where tasks run as root they must be able to write: that machine's root owns these folders"""
_FSTAB = """\
# Made by `muster deploy` for {names} ({address}); mount.sh puts it into /etc/fstab there.
#   hard                     an outage of the server makes tasks wait; `soft` would make them lose what they write
#   _netdev,nofail           needs the network; the machine boots without it, so that one can log in and look
#   x-systemd.automount      mounted at the first use: after a power cut the machines may come up in any order
#   lookupcache=positive     a script that was saved a second ago is found; only existing files are remembered
#   acdirmax=10              folders are looked at again after 10 s at most (60 by default): logs and results show up
#   actimeo=60               for environments, which change seldom: an import looks at thousands of files
"""
_COMMON = "rw,hard,_netdev,nofail,x-systemd.automount"
_FOR_DATA = "lookupcache=positive,acdirmax=10"
_FOR_CONDA = "actimeo=60"
_SCRIPT = """\
#!/bin/sh
# Made by `muster deploy`. On a node, as root: sh mount.sh NODE.fstab [USER]
# Installs the NFS client, makes the mount points, puts the lines into /etc/fstab (in place of those of an earlier run)
# and mounts. USER: the account that tasks run as; its number must be that of {user} on {host}, {uid}.
set -eu
[ "$(id -u)" = 0 ] || {{ echo "run it as root: sudo sh $0 $*" >&2; exit 1; }}
lines=${{1:?which lines? sh mount.sh NODE.fstab [USER]}}
[ -r "$lines" ] || {{ echo "$lines cannot be read" >&2; exit 1; }}
{check}command -v mount.nfs4 >/dev/null || PATH=$PATH:/sbin:/usr/sbin command -v mount.nfs4 >/dev/null ||
    apt-get install --yes nfs-common
if [ "$(grep -c '^{begin}$' /etc/fstab)" != "$(grep -c '^{end}$' /etc/fstab)" ]; then
    echo "/etc/fstab: '{begin}' without '{end}', or the other way round: what is ours cannot be told from the rest." >&2
    echo "Remove our lines by hand and run this again." >&2
    exit 1
fi
# They belong to root: while nothing is mounted, no task can fill the disk beneath.
mkdir -p {targets}
[ -e /etc/fstab.before-muster ] || cp -p /etc/fstab /etc/fstab.before-muster
sed -i '/^{begin}$/,/^{end}$/d' /etc/fstab
{{ echo '{begin}'; cat "$lines"; echo '{end}'; }} >>/etc/fstab
[ ! -d /run/systemd/system ] || systemctl daemon-reload
mount --all --types nfs,nfs4
findmnt --types nfs,nfs4
"""
_CHECK = """\
if [ -n "${{2:-}}" ] && [ "$(id -u "$2")" != {uid} ]; then
    echo "the number of $2 is $(id -u "$2") here and {uid} on {host}: what it writes would be another user's." >&2
    if [ "$(id -u "$2")" = 0 ]; then
        echo "Let the node log in as an account that is not root (registry: user_name); run this for that one." >&2
    else
        echo "Change it (usermod --uid {uid} $2, then chown its home) and run this again." >&2
    fi
    exit 1
fi
"""
_CHECK_OF_ROOT = """\
if [ -n "${{2:-}}" ] && [ "$(id -u "$2")" != 0 ]; then
    echo "On {host} the folders belong to root: $2 (number $(id -u "$2")) could not write there." >&2
    echo "Run the master as an account that is not root, give that the number of $2, and run muster deploy again;" >&2
    echo "no account of a node is to have the number of root." >&2
    exit 1
fi
"""
"""An account's number is never to become root's: where the master runs as root, that is what has to change."""


def needed(lab: Lab) -> bool:
    """Whether there is a machine that must be given folders."""
    return bool(lab.remotes)


def exports(lab: Lab) -> str:
    """/etc/exports.d/muster.exports; nothing where all that is shared lies on other servers."""
    if not lab.exported:
        return ""
    squash = _NO_SQUASH if any("root" in remote.logins for remote in lab.remotes) else ""
    return _EXPORTS.format(squash=squash) + "".join(_export(lab, one) for one in lab.exported)


def fstab(lab: Lab, remote: RemoteHost) -> str:
    """The lines for a node's /etc/fstab."""
    names = ", ".join(remote.names)
    lines = [_fstab_line(f"{host(remote.server)}:{one.source}", one.path, lab) for one in lab.exported]
    for mount in lab.mounted:
        if _server_of(mount.source) == remote.address:
            lines.append(f"# {mount.source} is a folder of this machine: it must lie, or be linked, at {mount.point}")
        else:
            lines.append(_fstab_line(mount.source, mount.point, lab))
    return _FSTAB.format(names=names, address=remote.address) + "\n".join(lines) + "\n"


def mount_script(lab: Lab) -> str:
    """Return the script that root runs on a node."""
    check = _CHECK if lab.machine.uid else _CHECK_OF_ROOT
    return _SCRIPT.format(
        check=check.format(uid=lab.machine.uid, host=lab.machine.host),
        uid=lab.machine.uid,
        user=lab.machine.user,
        host=lab.machine.host,
        targets=" ".join(shlex.quote(str(path)) for path in targets(lab)),
        begin=BEGIN,
        end=END,
    )


def targets(lab: Lab) -> list[Path]:
    """The mount points on every node."""
    return [*(one.path for one in lab.exported), *(mount.point for mount in lab.mounted)]


def _export(lab: Lab, shared: Shared) -> str:
    common = ["rw", "sync", "no_subtree_check"]
    common += ["crossmnt"] if lab.machine.has_mounts_beneath(shared.source) else []
    common += [f"fsid={uuid.uuid5(uuid.NAMESPACE_URL, str(shared.source))}"] if shared.mount.needs_fsid else []
    clients = [f"{remote.address}({','.join([*common, _squash(remote)])})" for remote in lab.remotes]
    return f"{export_path(str(shared.source))} " + " \\\n    ".join(clients) + "\n"


def _squash(remote: RemoteHost) -> str:
    return "no_root_squash" if "root" in remote.logins else "root_squash"


def _fstab_line(source: str, target: Path, lab: Lab) -> str:
    # A log or a data set may lie in the same file system as the environments: then what changes often counts.
    rarely_changes = is_beneath(lab.config.conda, target) and not is_beneath(lab.config.train_logs, target)
    options = f"{_COMMON},{_FOR_CONDA if rarely_changes else _FOR_DATA}"
    return f"{octal(source)} {octal(str(target))} nfs4 {options} 0 0"


def _server_of(source: str) -> str:
    """`server:/path` -> server; that of IPv6 without its brackets."""
    return source.rpartition(":/")[0].strip("[]")
