"""The warnings for an admin before the first step: settings that do not fit together, or ask for a decision. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from master.setup.deploy import samba
from master.setup.deploy.lab import Lab, RemoteHost
from master.setup.deploy.quoting import code


def warnings(lab: Lab) -> list[str]:
    """One text each, the gravest first."""
    return [*_of_account(lab), *_of_nodes(lab), *_of_folders(lab), *_of_drives(lab), *_of_logs(lab), *_of_influx(lab)]


def named(remote: RemoteHost) -> str:
    """The nodes that a machine is, for Markdown."""
    return ", ".join(code(name) for name in remote.names)


def _of_account(lab: Lab) -> Iterator[str]:
    if lab.machine.uid == 0:
        yield (
            "The master belongs to root, and so would all tasks on this machine and every file of the network drives. "
            "Give the lab an account of its own: it does not need root."
        )


def _of_nodes(lab: Lab) -> Iterator[str]:
    for name in lab.strangers:
        yield f"Node {code(name)} has no `ip` in the registry: mount the folders there by hand."
    for remote in lab.remotes:
        if remote.proxied:
            yield (
                f"{named(remote)}: reached through a proxy, and NFS does not go through one. It needs a way of its own "
                f"to {remote.server}."
            )
        others = [login for login in remote.logins if login != lab.machine.user]
        accounts = ", ".join(map(code, others))
        if others and lab.exported and lab.machine.uid == 0:
            yield f"{named(remote)}: tasks run as {accounts}, who may not write what belongs to root."
        elif others and lab.exported:
            yield (
                f"{named(remote)}: tasks run as {accounts}. NFS knows accounts by number: it must be "
                f"{lab.machine.uid}, as that of {code(lab.machine.user)} here, or the folders must be open to it."
            )


def _of_folders(lab: Lab) -> Iterator[str]:
    for one in lab.elsewhere if lab.remotes else ():
        yield (
            f"{code(str(one.path))} lies on {one.mount.kind} ({one.mount.source}): mount it on the nodes as it is "
            "here, at the same path. It is not in the NFS files."
        )
    if lab.conda_missing:
        yield f"There is no conda at {code(str(lab.config.conda))}: `--env NAME` needs one (step 2)."


def _of_drives(lab: Lab) -> Iterator[str]:
    for path in samba.unspeakable(lab):
        yield f"{code(str(path))} cannot be a network drive: smb.conf would read its `%` as a variable."
    if samba.shares(lab) and samba.only_this_machine(lab):
        yield (
            "`desktop_client.networks` of conf.json names this machine alone, so the network drives are closed to "
            'every PC. Name the lab\'s network there ("192.168.36.0/24") and run `muster deploy` again.'
        )


def _of_logs(lab: Lab) -> Iterator[str]:
    """Desktop clients read logs over SSH, which only the group of the log folder may."""
    if samba.only_this_machine(lab):
        return
    group = lab.config.log_group
    join = f"`sudo usermod -aG {group or 'GROUP'} ACCOUNT`"
    if group is not None:
        yield f"The account with which the desktop PCs log in over SSH must be in the group {code(group)}: {join}."
    elif lab.config.privacy != "own":
        yield (
            f"Where the desktop PCs log in over SSH with an account of their own, and not as {code(lab.machine.user)}, "
            f'it cannot read logs: name a group as `log_group` in conf.json ("log_group": "GROUP"), and {join}.'
        )


def _of_influx(lab: Lab) -> Iterator[str]:
    influx = lab.config.influx
    if influx is not None and influx.version == 2 and not (influx.org and influx.token):  # noqa: PLR2004
        yield (
            "`influx` of conf.json lacks `org` or `token`, and InfluxDB 2 asks for both. The compose file makes the "
            'organisation "muster" where none is named: say `"org": "muster", "token": "file:influx_token"` there.'
        )
