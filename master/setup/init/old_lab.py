"""An old system's folder, read and checked: its conf.json, its registry, its password file, its three queue files.

Owns what of these Muster can use as it stands, what is only spelled otherwise (numbers in quotes), and what it does not
know. Nothing is written here: the texts that should take the places of the files are among what is given.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from master.config.conf_checks import typed
from master.config.conf_file import ConfFile, Ports
from master.config.config import Paths
from master.core.tasks.task import QUEUED, Task
from master.drivers import passwords
from master.durable import legacy
from master.durable import queue_files as snapshot
from master.edited_files import json_file, json_text
from master.nodes.registry import COMMENT, NodeConfig, entries_of, parse_registry
from wire.errors import ConfigError
from wire.file_fault import fault
from wire.message import Message
from wire.numbers import whole_number
from wire.regular_file import read_regular

ASIDE = "_old"
"""The key of a registry entry under which keys are kept that Muster does not know."""


class OldConf(NamedTuple):
    """conf.json. `was` is the file as it lies, `text` what Muster can read of it; `unknown` are the keys left out of
    it, `notes` tell what else was changed.
    """

    path: Path
    was: bytes
    text: str
    value: dict[str, Any]
    typed: ConfFile
    unknown: dict[str, Any]
    notes: list[str]

    def place(self, key: str, base: Path | None = None) -> Path:
        """The path that `key` holds; a relative one lies beneath `base`, by default conf.json's folder. Raises
        ConfigError."""
        return Paths(self.path, self.typed).beneath(base or self.path.parent, key)

    @property
    def root(self) -> Path:
        """Return the folder that the desktop client calls home."""
        return self.place("root")


class OldRegistry(NamedTuple):
    """The registry. `unknown`: keys by the entry's label; in `text` they stand under `_old`."""

    path: Path
    was: bytes
    text: str
    nodes: tuple[NodeConfig, ...]
    unknown: dict[str, list[str]]
    notes: list[str]


class Secret(NamedTuple):
    """The password file: where it should be, whether it is, whether others may read it, and why log-ins with what it
    holds would fail.
    """

    path: Path
    present: bool
    readable: bool
    unfit: str | None = None


class OldQueues(NamedTuple):
    """The tasks as Muster will take them over. `settled`: Muster has done so already. `running`: those that ran."""

    folder: Path
    tasks: list[Task]
    running: list[Task]
    settled: bool

    @property
    def waiting(self) -> list[Task]:
        """Those that are queued again."""
        return [task for task in self.tasks if task.state in QUEUED]

    @property
    def history(self) -> int:
        """How many had ended."""
        return len(self.tasks) - len(self.waiting) - len(self.running)


class OldLab(NamedTuple):
    """All of it."""

    conf: OldConf
    registry: OldRegistry
    secret: Secret
    queues: OldQueues


def read(folder: Path) -> OldLab:
    """Read an old lab; `folder` is the old `master` folder or its parent.

    Raises ConfigError and StoreCorruptError with the file, the place in it and the cure.
    """
    conf = read_conf(find_conf(folder))
    check_folders(conf)
    registry = read_registry(conf.place("slaver_file"))
    secret = look_at_secret(conf.place("psw_file"), registry.nodes)
    return OldLab(conf, registry, secret, read_queues(conf))


def find_conf(folder: Path) -> Path:
    """The conf.json of an old lab. Raises ConfigError."""
    folder = folder.absolute()
    for path in (folder / "conf.json", folder / "master" / "conf.json"):
        if path.is_file():
            return path.parent.resolve() / path.name  # a link stays one: the other paths lie beneath its own folder
    raise fault(folder, Message("no_old_conf"))


def read_conf(path: Path) -> OldConf:
    """Read conf.json. Raises ConfigError; a mistake of syntax is reported with its line and column."""
    was = json_file.read_bytes(path, cure=Message("give_old_folder"))
    value = json_file.parse(was, path)
    if not isinstance(value, dict):
        raise fault(path, Message("no_object_here", example="{…}"))
    text, unknown, notes = _text(was), {}, []
    for key in [key for key in value if key not in _fields(ConfFile)]:
        unknown[key] = value[key]
        text = json_text.drop_member(text, json_text.start(text), key)
    for key, inner in _ports(value):
        if key not in _fields(Ports):
            unknown[f"socket_info.{key}"] = inner
            text = json_text.drop_member(text, _at(text, "socket_info"), key)
        elif (number := _number(inner)) is not None:
            notes.append(f"socket_info.{key}: the text {inner!r} became the number {number}")
            text = json_text.set_member(text, _at(text, "socket_info"), key, number)
    value = json_file.parse(text.encode(), path)
    return OldConf(path, was, text, value, typed(value, path), unknown, notes)


def check_folders(conf: OldConf) -> None:
    """See whether the folders that conf.json names are on this machine. Raises ConfigError naming all that are not."""
    wanted = {
        "root": conf.root,
        "slaver_file": conf.place("slaver_file").parent,
        "psw_file": conf.place("psw_file").parent,
        "server_log_path": conf.place("server_log_path").parent,
    }
    missing = tuple(f"{key} ({folder})" for key, folder in wanted.items() if not folder.is_dir())
    if missing:
        raise fault(conf.path, Message("old_folders_missing", folders=missing))


def read_registry(path: Path) -> OldRegistry:
    """Read the registry. Raises ConfigError with the entry and the key of what cannot be."""
    was = json_file.read_bytes(path, cure=Message("slaver_file_says"))
    entries = entries_of(was, path)
    text, unknown, notes = _text(was), {}, []
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            continue  # the parser names it
        label = f"[{index}] ({entry.get('name')})"
        aside = {k: v for k, v in entry.items() if k not in _fields(NodeConfig) and not k.startswith(COMMENT)}
        respelt = dict(_respelt(entry))
        notes += [f"{label}: `{key}` became {value!r}" for key, value in respelt.items()]
        if aside:
            unknown[label] = list(aside)
            kept = entry.get(ASIDE, {})
            respelt[ASIDE] = {**(kept if isinstance(kept, dict) else {"was": kept}), **aside}
        for key in aside:
            text = json_text.drop_member(text, _item(text, index), key)
        for key, value in respelt.items():
            text = json_text.set_member(text, _item(text, index), key, value)
    nodes = parse_registry(entries_of(text.encode(), path), path)
    return OldRegistry(path, was, text, nodes, unknown, notes)


def look_at_secret(path: Path, nodes: Iterable[NodeConfig]) -> Secret:
    """Look at the password file. Raises ConfigError for what is no file, or if its mode could not be changed."""
    try:
        info = path.stat()
    except FileNotFoundError:
        return Secret(path, present=False, readable=False)
    except OSError as error:
        raise fault(path, Message("file_not_seen", detail=error.strerror)) from None
    if not stat.S_ISREG(info.st_mode):
        raise fault(path, Message("passwords_no_file"))
    readable = bool(stat.S_IMODE(info.st_mode) & 0o077)
    if readable and os.geteuid() not in (0, info.st_uid):
        raise fault(path, Message("passwords_not_yours"))
    return Secret(path, present=True, readable=readable, unfit=_unfit(path, nodes))


def _unfit(path: Path, nodes: Iterable[NodeConfig]) -> str | None:
    try:
        table = passwords.read(path)
    except ConfigError as error:
        return str(error)
    without = [node.name for node in nodes if node.traits.is_over_ssh and not (node.key_file or table.of(node))]
    return f"{path}: it holds no password for {', '.join(without)}" if without else None


def read_queues(conf: OldConf) -> OldQueues:
    """Read the three queue files as the master will at its first start. Raises StoreCorruptError."""
    folder = conf.place("task_info")
    if (folder / snapshot.STATE).exists():
        return OldQueues(folder, [], [], settled=True)
    newest: dict[int, Task] = {}
    for name in snapshot.QUEUES:
        newest.update((task.id, task) for task in _read_queue(folder / name))
    tasks = list(newest.values())
    legacy.settle(tasks, legacy.OldFolders(str(conf.root), str(conf.place("train_log_path", conf.root))))
    running = [task for task in tasks if legacy.may_still_run(task.reason)]
    return OldQueues(folder, tasks, running, settled=False)


def _read_queue(path: Path) -> list[Task]:
    try:
        data = read_regular(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise fault(path, Message("file_unreadable", detail=error.strerror)) from None
    queue = snapshot.read_queue(data, path)
    if len(queue.imported) < len(queue.tasks):
        snapshot.refuse(path, None, Message("tasks_without_state", state=snapshot.STATE))
    return queue.imported


def _respelt(entry: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the keys of an entry whose value has another type than ours, with the value in ours."""
    count = entry.get("gpu_count")
    number = _number(count)
    if number is not None:
        yield "gpu_count", number
        count = number
    if isinstance(model := entry.get("gpu_info"), str):
        yield "gpu_info", [model] * count if isinstance(count, int) and model else []


def _number(value: Any) -> int | None:
    """The number that a text holds; None for anything else."""
    return whole_number(value.strip(), 10) if isinstance(value, str) else None


def _ports(value: dict[str, Any]) -> list[tuple[str, Any]]:
    ports = value.get("socket_info")
    return list(ports.items()) if isinstance(ports, dict) else []


def _fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return kind.__struct_fields__


def _text(data: bytes) -> str:
    return data.removeprefix(json_file.BOM).decode()


def _at(text: str, key: str) -> int:
    return next(part.value for part in json_text.parts(text, json_text.start(text)) if part.key == key)


def _item(text: str, index: int) -> int:
    return json_text.parts(text, json_text.start(text))[index].value
