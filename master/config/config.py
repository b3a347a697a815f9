"""The configuration of a master: conf.json with every path absolute, or one error that names the key.

It reads one file and touches nothing else; `make_folders` is the one place that writes, and says so. The registry of
nodes is `registry`'s.
"""

import os
from pathlib import Path
from typing import Any

from master.config import ssh_accounts
from master.config.conf_checks import keys_said, typed
from master.config.conf_file import ConfFile, Ports, Values
from master.config.settings import Settings
from master.edited_files import json_file
from master.edited_files.ownership import make_folder, make_private, not_ours, user_name
from wire.file_fault import fault
from wire.message import Message

MISSING_CURE = Message("init_writes_conf")
NOT_YET_USED = ("notify",)
"""Keys that are checked and kept, for parts that do not exist yet: the log names those that are set."""


class Config(Values, frozen=True, kw_only=True):
    """The configuration of a master. Every path is absolute; `root` is the home of tasks and of the desktop client."""

    path: Path
    root: Path
    task_info: Path
    train_logs: Path
    server_log: Path
    registry: Path
    psw: Path
    conda: Path
    ports: Ports
    not_yet_used: tuple[str, ...] = ()
    said: frozenset[str] = frozenset()
    """The keys that the file says; `a.b` is b in the object a."""

    @property
    def settings(self) -> Settings:
        """Return the settings of the file that can change while the master runs."""
        return Settings(self.scheduler, self.limits)

    @property
    def folder(self) -> Path:
        """Where conf.json lies."""
        return self.path.parent

    @property
    def all_ports(self) -> tuple[int, ...]:
        """Every port that the master listens on."""
        own = self.desktop_client.ports
        return (*self.ports.all.values(), *(own.all.values() if own is not None else ()))

    @property
    def shared_folders(self) -> tuple[str, ...]:
        """Return the folders that every machine must see at the same path, as far as the lab has them."""
        shown = (self.root / name for name in self.visible_folders)
        return tuple(dict.fromkeys(map(str, (self.root, self.train_logs, self.conda, *shown))))


def load_config(path: Path) -> Config:
    """Read conf.json. Raises ConfigError."""
    path = path.absolute()
    return config_of(json_file.read(path, cure=MISSING_CURE), path)


def config_of(value: Any, path: Path) -> Config:
    """Return the configuration of a conf.json's `value`; `path` is absolute. Raises ConfigError."""
    conf, said = typed(value, path), keys_said(value)
    folder, paths = path.parent, Paths(path, conf)
    root = paths.beneath(folder, "root")
    if not root.is_dir():
        raise json_file.wrong(path, "root", conf.root, Message("folder_that_exists"))
    values = {name: getattr(conf, name) for name in Values.__struct_fields__}
    return Config(
        **{**values, "accounts": ssh_accounts.typed(conf.accounts, path, "accounts")},
        path=path,
        root=root,
        task_info=paths.beneath(folder, "task_info"),
        train_logs=paths.beneath(root, "train_log_path"),
        server_log=paths.beneath(folder, "server_log_path"),
        registry=paths.beneath(folder, "slaver_file"),
        psw=paths.beneath(folder, "psw_file"),
        conda=paths.beneath(root, "conda"),
        ports=conf.socket_info,
        not_yet_used=tuple(key for key in NOT_YET_USED if key in said),
        said=said,
    )


def make_folders(config: Config) -> None:
    """Make the folders that the master writes into. Raises ConfigError with the key of one that cannot be made, or that
    is somebody else's."""
    wanted = {
        "task_info": config.task_info,
        "train_log_path": config.train_logs,
        "server_log_path": config.server_log.parent,
    }
    for key, folder in wanted.items():
        try:
            if key == "task_info":
                make_private(folder)
            else:
                private = config.privacy == "own" and key == "train_log_path"
                make_folder(folder, 0o751 if private else 0o777)
        except OSError as error:
            what = Message("folder_cannot_be_made", key=key, folder=str(folder), detail=error.strerror)
            raise fault(config.path, what) from None
    # The owner of conf.json decides what runs anyway.
    if strange := not_ours(config.task_info, {0, os.geteuid(), config.path.stat().st_uid}):
        folder, owner = strange
        ours = user_name(os.geteuid())
        what = Message("task_info_of_another", folder=str(folder), owner=user_name(owner), ours=ours)
        raise fault(config.path, what)


class Paths:
    """Turns the paths of one conf.json into absolute ones. `conf` is what the file says."""

    def __init__(self, path: Path, conf: ConfFile) -> None:
        self._path = path
        self._conf = conf

    def beneath(self, base: Path, key: str) -> Path:
        """The path that `key` holds: a relative one lies beneath `base`, `~` is the home. Raises ConfigError."""
        value = getattr(self._conf, key)
        if "\0" in value:
            raise json_file.wrong(self._path, key, value, Message("path_without_nul"))
        try:
            return base / Path(value).expanduser()
        except RuntimeError:
            raise json_file.wrong(self._path, key, value, Message("path_of_known_user")) from None
