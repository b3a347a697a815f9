"""smb.conf: the visible folders as network drives for the PCs of the lab.

All clients act as the account that runs the master, so that a task may read and write whatever a PC has put there.
Passwords are Samba's own (`smbpasswd`): none is ever in this file.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import NamedTuple

from master.setup.deploy.lab import Lab
from master.setup.deploy.quoting import samba_can_say, share_name

_GLOBAL = """\
# Made by `muster deploy`: the visible folders as network drives. Goes to /etc/samba/smb.conf; check it with `testparm`.
# Where Samba serves other things already, put the sections of the folders there instead.
[global]
    server role = standalone server
    server string = %h
    unix charset = UTF-8
    # SMB 1 has known holes; no PC since Windows Vista needs it.
    server min protocol = SMB2
    disable netbios = yes
    smb ports = 445
    map to guest = never
    load printers = no
    printcap name = /dev/null
    # From where PCs may come: `desktop_client.networks` of conf.json.
    hosts allow = {networks}
"""
_SHARE = """
[{name}]
    path = {path}
    read only = no
    # Accounts of Samba that may connect (`smbpasswd -a NAME`); the files always belong to {user}.
    valid users = {user}
    force user = {user}
    create mask = 0664
    directory mask = 0775
    # Nodes and tasks write the same files: the kernel takes a PC's cached copy back when they do.
    kernel oplocks = yes
    # A link may not lead out of the folder.
    wide links = no
"""


class Share(NamedTuple):
    """A visible folder and what it is called in the network."""

    name: str
    path: Path


def shares(lab: Lab) -> list[Share]:
    """The folders that can be shared; the others are `unspeakable`."""
    taken: set[str] = set()
    names = zip(lab.config.visible_folders, lab.visible, strict=True)
    return [Share(share_name(name, taken), path) for name, path in names if samba_can_say(str(path))]


def unspeakable(lab: Lab) -> list[Path]:
    """Folders whose names smb.conf would read as something else."""
    return [path for path in lab.visible if not samba_can_say(str(path))]


def only_this_machine(lab: Lab) -> bool:
    """Tell whether conf.json allows no connections of PCs."""
    return all(ipaddress.ip_network(text).is_loopback for text in lab.config.desktop_client.networks)


def smb_conf(lab: Lab) -> str:
    """The whole file."""
    networks = " ".join(dict.fromkeys(["127.0.0.0/8", "::1/128", *lab.config.desktop_client.networks]))
    text = _GLOBAL.format(networks=networks)
    for share in shares(lab):
        text += _SHARE.format(name=share.name, path=share.path, user=lab.machine.user)
    return text
