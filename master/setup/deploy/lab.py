"""The folders that a lab shares, and with which machines: from conf.json, the registry and this machine, before any
file is written.

Owns which folders other machines must see, which machines these are, and what no file could express. It writes
nothing and knows none of the formats.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from master.config.config import Config
from master.edited_files import json_file
from master.nodes.registry import NodeConfig
from master.setup.deploy.machine import Machine, Mount
from wire.file_fault import fault
from wire.message import Message

_HOST_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


class Shared(NamedTuple):
    """A folder that every machine must see at the same `path`. `source`: where it really lies here, links followed."""

    path: Path
    source: Path
    mount: Mount


class RemoteHost(NamedTuple):
    """Another machine that tasks run on. Several nodes may be one machine; `logins`: the accounts there. `server`: our
    address as that machine sees it.
    """

    address: str
    names: tuple[str, ...]
    logins: tuple[str, ...]
    port: int
    server: str
    proxied: bool

    @property
    def name(self) -> str:
        """Return the name that its files begin with."""
        return self.names[0]


class Lab(NamedTuple):
    """All of it. `exported`: folders that this machine gives to others; `mounted`: file systems that it has from NFS
    servers itself; `elsewhere`: shared folders that come by other ways. `strangers`: nodes without an address.
    """

    config: Config
    machine: Machine
    remotes: tuple[RemoteHost, ...]
    locals: tuple[str, ...]
    strangers: tuple[str, ...]
    exported: tuple[Shared, ...]
    mounted: tuple[Mount, ...]
    elsewhere: tuple[Shared, ...]
    conda_missing: bool

    @property
    def visible(self) -> tuple[Path, ...]:
        """The folders that people share, whole paths."""
        return tuple(self.config.root / name for name in self.config.visible_folders)

    @property
    def barred(self) -> tuple[Path, ...]:
        """Folders on the way to what is exported that not everybody may pass."""
        above = {parent for one in self.exported for parent in one.source.parents}
        return tuple(sorted(parent for parent in above if self.machine.closed(parent)))

    @property
    def network_folders(self) -> tuple[Path, ...]:
        """Mount points of other machines' disks that the master needs here."""
        return tuple(sorted({*(mount.point for mount in self.mounted), *(one.mount.point for one in self.elsewhere)}))


def gather(config: Config, nodes: tuple[NodeConfig, ...], machine: Machine) -> Lab:
    """Find it out. Raises ConfigError for a path or an address that no file could hold."""
    _check_paths(config, machine)
    away = [node for node in nodes if not node.traits.is_this_machine]
    remotes = _remotes([node for node in away if node.ip], config, machine)
    folders = list(_shared_folders(config, machine))
    nfs = {folder.mount.point: folder.mount for folder in folders if folder.mount.is_nfs}
    return Lab(
        config=config,
        machine=machine,
        remotes=remotes,
        locals=tuple(node.name for node in nodes if node.traits.is_this_machine),
        strangers=tuple(node.name for node in away if not node.ip),
        exported=tuple(folder for folder in folders if not folder.mount.is_remote),
        mounted=tuple(nfs.values()),
        elsewhere=tuple(folder for folder in folders if folder.mount.is_remote and not folder.mount.is_nfs),
        conda_missing=not config.conda.is_dir(),
    )


def is_beneath(path: Path, folder: Path) -> bool:
    """Whether `path` is `folder` or lies in it."""
    return path.is_relative_to(folder)


def _shared_folders(config: Config, machine: Machine) -> Iterator[Shared]:
    """Yield the visible folders, the log folder, and the conda if there is one; of nested ones only the outermost."""
    paths = [config.root / name for name in config.visible_folders]
    paths += [config.train_logs, *([config.conda] if config.conda.is_dir() else [])]
    done: list[Shared] = []
    for path in sorted(dict.fromkeys(paths), key=lambda path: len(path.parts)):
        source = path.resolve()
        if any(is_beneath(path, one.path) and is_beneath(source, one.source) for one in done):
            continue
        done.append(Shared(path, source, machine.mount_of(source)))
    yield from sorted(done, key=lambda one: paths.index(one.path))


def _remotes(nodes: list[NodeConfig], config: Config, machine: Machine) -> tuple[RemoteHost, ...]:
    by_address: dict[str, list[NodeConfig]] = {}
    for node in nodes:
        _check_address(node, config.registry)
        by_address.setdefault(node.ip, []).append(node)
    return tuple(
        _peer(address, group, _server(group[0], config, machine))
        for address, group in by_address.items()
        if not _is_this_machine(address, machine)
    )


def _peer(address: str, group: list[NodeConfig], server: str) -> RemoteHost:
    logins = tuple(dict.fromkeys(node.user_name for node in group if node.user_name))
    proxied = any(node.proxy is not None for node in group)
    return RemoteHost(address, tuple(node.name for node in group), logins, group[0].port, server, proxied)


def _is_this_machine(address: str, machine: Machine) -> bool:
    try:
        if ipaddress.ip_address(address).is_loopback:
            return True
    except ValueError:
        if address in ("localhost", machine.host):
            return True
    return machine.towards(address) == address


def _server(node: NodeConfig, config: Config, machine: Machine) -> str:
    """How a node calls this machine: as the way there begins; else by what the master listens on; else by its name."""
    ours = None if node.proxy else machine.towards(node.ip)
    if ours and not ipaddress.ip_address(ours).is_loopback:
        return ours
    try:
        bind = ipaddress.ip_address(config.bind)
    except ValueError:
        return config.bind if _HOST_NAME.fullmatch(config.bind) and config.bind != "localhost" else machine.host
    return machine.host if bind.is_loopback or bind.is_unspecified else config.bind


def _check_address(node: NodeConfig, registry: Path) -> None:
    try:
        usable = "%" not in str(ipaddress.ip_address(node.ip))
    except ValueError:
        usable = _HOST_NAME.fullmatch(node.ip) is not None
    if not usable:
        raise json_file.wrong(registry, f"{node.name}.ip", node.ip, Message("address_for_exports"))


def _check_paths(config: Config, machine: Machine) -> None:
    paths = {
        "the place of conf.json": config.path,
        "root": config.root,
        "task_info": config.task_info,
        "train_log_path": config.train_logs,
        "server_log_path": config.server_log,
        "conda": config.conda,
        "the place of Muster": machine.code,
        "the place of Python": Path(machine.python),
        **{f"visible_folders ({name!r})": config.root / name for name in config.visible_folders},
    }
    for key, path in paths.items():
        text = str(path)
        if not text.isprintable() or "\\" in text or any(part != part.rstrip() for part in path.parts):
            raise fault(config.path, Message("path_for_units", key=key, found=text))
