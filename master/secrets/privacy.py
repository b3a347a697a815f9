"""Checks that `"privacy": "own"` of conf.json can be kept: it cannot if others may read logs as files, or if desktop
clients connect whose users nobody knows. Owns that check and its messages."""

from __future__ import annotations

import grp
import ipaddress
import os
import stat
from pathlib import Path

from master.callers.addresses import plain
from master.config.conf_file import DesktopClient
from master.config.config import Config
from master.edited_files.ownership import user_name
from wire.file_fault import fault
from wire.message import Message


def check_private(config: Config) -> None:
    """Refuse `own` where others' tasks would be seen all the same. Raises ConfigError with file, key and the ways
    out."""
    if config.privacy == "own":
        _check_logs(config)
        _check_clients(config.desktop_client, config.path)


def _check_logs(config: Config) -> None:
    folder = config.train_logs
    if config.log_group is not None:
        raise fault(config.path, Message("own_log_group", group=config.log_group))
    for name in config.visible_folders:
        if _meet(config.root / name, folder):
            what = Message("own_logs_visible", folder=str(config.root / name), logs=str(folder))
            raise fault(config.path, what)
    info = folder.stat()
    if info.st_mode & stat.S_IROTH:
        raise fault(config.path, Message("own_logs_open", folder=str(folder)))
    if info.st_mode & stat.S_IRGRP and (group := _shared_group(info.st_gid)) is not None:
        raise fault(config.path, Message("own_logs_of_group", group=group, folder=str(folder)))
    if info.st_mode & stat.S_IXOTH and (log := _open_log(folder)) is not None:
        raise fault(config.path, Message("own_log_open", log=str(log), folder=str(folder)))


def _shared_group(number: int) -> str | None:
    """The name of a group that has others in it than the master's user; None if it has none."""
    try:
        group = grp.getgrgid(number)
    except KeyError:
        return str(number)
    ours = {user_name(os.geteuid()), "root"}
    return None if number == os.getegid() and set(group.gr_mem) <= ours else group.gr_name


def _open_log(folder: Path) -> Path | None:
    """A log that all accounts of a machine may read; None if there is none."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_mode & stat.S_IROTH:
                return Path(entry.path)
    return None


def _check_clients(access: DesktopClient, conf: Path) -> None:
    """On the master's own machine the kernel tells the user of a client: only the master's user can connect so."""
    known = {plain(address) for address in access.users}
    for index, text in enumerate(access.networks):
        network = ipaddress.ip_network(text)
        mapped = network.network_address.ipv4_mapped if isinstance(network, ipaddress.IPv6Network) else None
        if network.is_loopback or (mapped is not None and mapped.is_loopback):
            continue
        inside = sum(1 for address in known if address in network)
        if inside < network.num_addresses:
            raise fault(conf, Message("own_networks", index=index, network=text, user=access.user))


def _meet(one: Path, other: Path) -> bool:
    paths = (os.path.realpath(one), os.path.realpath(other))
    return os.path.commonpath(paths) in paths
