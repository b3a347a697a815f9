"""The files and folders that a master uses: what must hold of them before it begins, and how they are made ready.

Owns which checks there are, and when all of them are made; each is described in the module of its subject.
"""

from __future__ import annotations

import logging

from master.config.config import Config, make_folders
from master.config.visible_folders import overlapping
from master.edited_files.ownership import close_to_others
from master.files.needed import Needed
from master.nodes.registry import NodeConfig
from master.nodes.same_account import check_company
from master.secrets.inline_secrets import check_registry
from master.secrets.log_rights import give_folder_to_group
from master.secrets.privacy import check_private
from master.secrets.visible_secrets import check_not_visible
from wire.file_fault import fault
from wire.lab import read as read_lab
from wire.message import Message
from wire.state_folder import check_alone

log = logging.getLogger("muster")


def check(config: Config, nodes: tuple[NodeConfig, ...], *, users: bool) -> None:
    """Raise ConfigError for a registry that is right in itself and must not be used here. `users`: somebody was
    added."""
    check_company(nodes, config.desktop_client, config.path)
    check_not_visible(config, nodes, users=users)
    _check_owned(config)
    check_registry(nodes, config.registry)


def _check_owned(config: Config) -> None:
    """Check that a folder with an owner has only one name. Raises ConfigError."""
    found = overlapping(config.root, config.visible_folders) if config.files else None
    if found is not None:
        folder, other = (str(config.root / name) for name in found)
        raise fault(config.path, Message("folders_overlap", folder=folder, other=other))


def prepare(config: Config) -> None:
    """Make the folders, and let nobody see what is not theirs. Raises ConfigError, also where the state folder is
    another lab's: nothing was changed then."""
    check_alone(str(config.path), str(config.task_info), read_lab(str(config.path)))
    make_folders(config)
    give_folder_to_group(config)
    check_private(config)
    _close_task_info(config)


def _close_task_info(config: Config) -> None:
    """Earlier versions left it open to all."""
    folder, others = config.task_info, (config.path, config.root, config.train_logs)
    if any(path.is_relative_to(folder) for path in others):
        log.warning("%s holds other things than the queues: its other files stay readable as before", folder)
        return
    for failed in close_to_others(folder):
        log.warning("it stays open to others: %s", failed)


def needed(config: Config) -> tuple[Needed, ...]:
    """Return the places that nobody may take away through the file verbs, should they lie where people may delete."""
    environments = Message("holds_environments")
    return (
        Needed(str(config.train_logs), Message("holds_logs")),
        Needed(f"{config.conda}/envs", environments),
        Needed(str(config.conda), environments),
        Needed(str(config.task_info), Message("holds_queues")),
        *(
            Needed(str(path), Message("holds_own_files"))
            for path in (config.path, config.registry, config.psw, config.server_log)
        ),
    )
