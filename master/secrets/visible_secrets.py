"""The master's own files where people may read and write: in a visible folder, or on the way to one.

A user of files could fetch its keys, delete its journal, or add a node to its registry. If everybody who may do that
owns the master anyway, nothing is lost; PCs that send no password are another matter. Owns which files are meant,
and the messages.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from master.config.config import Config
from master.nodes.registry import NodeConfig
from master.nodes.same_account import let_in_from_outside
from master.secrets.inline_secrets import TOKEN_FILE
from wire.console import TlsFiles
from wire.file_fault import fault
from wire.message import Message


def check_not_visible(config: Config, nodes: Iterable[NodeConfig], *, users: bool = False) -> None:
    """Refuse visible folders that hold what only the master may touch, if desktop clients of other machines may
    connect, or if there are `users`. Raises ConfigError with the ways out."""
    outside = let_in_from_outside(config.desktop_client)
    visible = {name: _spellings(config.root / name) for name in config.visible_folders if outside or users}
    for key, path in _own(config, nodes) if visible else ():
        holders = [name for name, folders in visible.items() if _meet(folders, path)]
        if holders:
            folder, above = holders[0], str(config.root / holders[0])
            if users:
                what = Message("own_files_visible", folder=folder, path=str(path), key=key, above=above)
            else:
                what = Message(
                    "own_files_visible_outside",
                    folder=folder,
                    path=str(path),
                    key=key,
                    above=above,
                    networks=tuple(outside),
                )
            raise fault(config.path, what)


def _own(config: Config, nodes: Iterable[NodeConfig]) -> Iterator[tuple[str | Message, Path]]:
    yield "task_info", config.task_info
    yield Message("conf_itself"), config.path
    yield "slaver_file", config.registry
    yield "psw_file", config.psw
    if isinstance(config.tls, TlsFiles):
        yield "tls.key", config.folder / Path(config.tls.key).expanduser()
    if config.ldap is not None and config.ldap.ca is not None:
        yield "ldap.ca", config.folder / Path(config.ldap.ca).expanduser()
    if config.influx is not None and config.influx.token.startswith(TOKEN_FILE):
        yield "influx.token", config.folder / Path(config.influx.token.removeprefix(TOKEN_FILE)).expanduser()
    for owner, account in config.accounts.items():
        yield f"accounts.{owner}.key_file", Path(account.key_file)
    for node in nodes:
        for owner, account in (node.accounts or {}).items():
            yield Message("key_of_node", key=f"accounts.{owner}.key_file", node=node.name), Path(account.key_file)
        if node.key_file is not None:
            yield (
                Message("key_of_node", key="key_file", node=node.name),
                config.folder / Path(node.key_file).expanduser(),
            )


def _meet(folders: set[str], path: Path) -> bool:
    return any(os.path.commonpath((one, other)) in (one, other) for one in folders for other in _spellings(path))


def _spellings(path: Path) -> set[str]:
    """As it is written, and where it really is: either may be what somebody takes away."""
    return {os.path.abspath(path), os.path.realpath(path)}  # noqa: PTH100  (resolve() is the other one)
