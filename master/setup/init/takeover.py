"""`muster init --from`: an old lab becomes one of Muster's, all of it or nothing, and a second time nothing.

Owns what is added to conf.json, what is written and in which order, and what the admin should know before and after.
The queue files are left as they are: the master takes them over at its first start, with a copy of each, so until then
the old system can go on as if nothing had been.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from master.config.conf_file import TASK_ENV, DesktopClient
from master.core.outcome import Pending
from master.core.people.people import People
from master.core.tasks.task import Task
from master.durable import legacy
from master.edited_files import json_file, json_text
from master.edited_files.mismatch import nearest
from master.nodes.same_account import check_company
from master.people.desktop_names import closed
from master.setup.init import old_master
from master.setup.init.old_lab import OldConf, OldLab
from master.setup.init.old_traces import Trace, look
from master.setup.init.setup_folder import NewFile, as_text, put
from wire.errors import ConfigError, ConflictError
from wire.file_fault import fault
from wire.message import Message

SECRET_MODE = 0o600
OLD_TASK_ENV = {**TASK_ENV, "NCCL_P2P_DISABLE": "1"}
"""Ours, and what the old system set for every task."""
IDS_SHOWN = 5
OTHER_CONDAS = ("miniconda3", "anaconda3", "miniforge3", "mambaforge")


class Wishes(NamedTuple):
    """The admin's answers. None: no answer, so conf.json's value stays, or our default if it has none. `hold`: whether
    waiting tasks that seem to have run are held."""

    bind: str | None = None
    networks: tuple[str, ...] | None = None
    hold: bool | None = None


class Plan(NamedTuple):
    """The changes to make. `files` in the order in which they take their places; copies come first."""

    lab: OldLab
    files: list[NewFile]
    closes_secret: bool
    conf: dict[str, Any]
    conda: Path | None
    running: tuple[Message, ...]
    warnings: list[str]
    doubtful: list[Trace]
    hold: bool | None

    @property
    def changes_something(self) -> bool:
        """False the second time."""
        return bool(self.files) or self.closes_secret

    @property
    def is_ours(self) -> bool:
        """Would Muster's master be the one that runs, and not the old one?"""
        return self.lab.queues.settled

    def seems_to_run(self) -> Message:
        """Say which master runs, and by which signs."""
        if self.is_ours:
            return Message("our_master_seems_to_run", signs=self.running)
        return Message("old_master_seems_to_run", signs=self.running)


def plan(lab: OldLab, wishes: Wishes) -> Plan:
    """Decide what to do. Nothing is written. Raises ConfigError for options that are impossible."""
    conda = find_conda(lab.conf)
    text = _new_conf(lab.conf, wishes, conda)
    conf: dict[str, Any] = json_file.parse(text.encode(), lab.conf.path)
    running = old_master.signs(lab.conf.path.parent, lab.conf.typed.socket_info.all)
    warnings = [
        *_of_conf(lab, conf, conda),
        *_of_registry(lab),
        *_of_company(lab, conf),
        *_of_secret(lab),
        *_of_tasks(lab),
    ]
    doubtful = look(lab)
    files = [*_files(lab, text), *_held_file(lab, doubtful, hold=wishes.hold is not False)]
    return Plan(lab, files, lab.secret.readable, conf, conda, running, warnings, doubtful, wishes.hold)


def carry_out(steps: Plan, *, force: bool = False) -> None:
    """Do it. Raises ConflictError while the old master runs, unless `force`; ConfigError when something cannot be
    written, and nothing was changed then.
    """
    if steps.running and not force:
        if steps.is_ours:
            raise ConflictError(Message("our_master_runs", why=steps.seems_to_run()))
        raise ConflictError(Message("old_master_runs", why=steps.seems_to_run()))
    if steps.doubtful and steps.hold is None:
        traces = tuple(Message("old_trace", id=trace.id, what=trace.what) for trace in steps.doubtful)
        raise ConflictError(Message("old_queues_unwritten", traces=traces))
    put(steps.files)
    if steps.closes_secret:
        _close(steps.lab.secret.path)


def parse_networks(text: str) -> tuple[str, ...]:
    """`192.168.36.0/24,10.0.0.0/8` -> its networks. Raises ConfigError."""
    return tuple(_network(part) for part in text.replace(",", " ").split())


def check_bind(address: str) -> str:
    """The address, if this machine can listen on it. Raises ConfigError."""
    try:
        family, kind, _, _, where = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.bind(where)
    except (OSError, UnicodeError) as error:
        detail = getattr(error, "strerror", None) or str(error)
        raise ConfigError(Message("bind_elsewhere", address=address, detail=detail)) from None
    return address


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def find_conda(conf: OldConf) -> Path | None:
    """The prefix of the lab's conda: where conf.json says, else the only one in the usual places, else None."""
    said = conf.place("conda", conf.root)
    if _is_conda(said):
        return said
    usual = [folder / name for folder in (conf.root / "envs", conf.root) for name in OTHER_CONDAS]
    found = [path for path in usual if _is_conda(path)]
    return found[0] if len(found) == 1 and "conda" not in conf.value else None


def _network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError:
        pass
    try:
        meant = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise ConfigError(Message("no_network", found=text)) from None
    raise ConfigError(Message("no_network_but", found=text, meant=str(meant)))


def _is_conda(path: Path) -> bool:
    return (path / "bin" / "activate").is_file()


# -- what is written --------------------------------------------------------------------------------------------------


def _new_conf(conf: OldConf, wishes: Wishes, conda: Path | None) -> str:
    desktop = dict(conf.value.get("desktop_client", {"networks": list(DesktopClient().networks)}))
    if wishes.networks is not None:
        desktop["networks"] = list(dict.fromkeys([*DesktopClient().networks, *wishes.networks]))
    keys: dict[str, Any] = {
        "bind": check_bind(wishes.bind) if wishes.bind else conf.typed.bind,
        "desktop_client": desktop,
        "task_env": conf.value.get("task_env", OLD_TASK_ENV),
    }
    if conda is not None and conda != conf.place("conda", conf.root):
        keys["conda"] = str(conda.relative_to(conf.root))
    text = conf.text
    for key, value in keys.items():
        if conf.value.get(key) != value:
            text = json_text.set_member(text, json_text.start(text), key, value)
    return text


def _files(lab: OldLab, conf_text: str) -> list[NewFile]:
    """Copies of both files, then the registry, then conf.json. Links are followed, and copies lie beside the links."""
    pairs = [(lab.registry.path, lab.registry.was, lab.registry.text), (lab.conf.path, lab.conf.was, conf_text)]
    new = [NewFile(path.resolve(), text.encode(), path) for path, was, text in pairs if text.encode() != was]
    if not new:
        return []
    copies = [copy for path, was, _ in pairs if (copy := _copy_of(path, was)) is not None]
    return [*copies, *new]


def _held_file(lab: OldLab, doubtful: list[Trace], *, hold: bool) -> list[NewFile]:
    """Return the file that the master reads when it takes the queues over: written if tasks are in doubt, or were
    before."""
    path = lab.queues.folder / legacy.HOLD_FILE
    data = as_text({str(trace.id): str(trace.what) for trace in doubtful} if hold else {})
    if lab.queues.settled or (not doubtful and not path.exists()):
        return []
    return [] if path.exists() and path.read_bytes() == data else [NewFile(path, data)]


def _copy_of(path: Path, data: bytes) -> NewFile | None:
    """The copy to make beside it: none where there is one already. Nobody's copy is written over."""
    number, copy = 1, path.with_name(f"{path.name}.old")
    while os.path.lexists(copy):
        with suppress(OSError):  # a folder, a dead link, one that we may not read: it is not ours
            if copy.read_bytes() == data:
                return None
        number += 1
        copy = path.with_name(f"{path.name}.old{number}")
    return NewFile(copy, data, path)


def _close(path: Path) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.fchmod(fd, SECRET_MODE)
        finally:
            os.close(fd)
    except OSError as error:
        raise fault(path, Message("mode_not_changed", detail=error.strerror, path=str(path))) from None


# -- what the admin should know ---------------------------------------------------------------------------------------


def _of_conf(lab: OldLab, conf: dict[str, Any], conda: Path | None) -> Iterator[str]:
    for key in lab.conf.unknown:
        known = lab.conf.typed.socket_info if "." in key else lab.conf.typed
        near = nearest(key.rpartition(".")[2], known.__struct_fields__)
        yield f"conf.json: Muster has no key `{key}`{near}: it is left out, and kept in the copy of the old file"
    yield from (f"conf.json: {note}" for note in lab.conf.notes)
    networks = [ipaddress.ip_network(_network(text)) for text in conf["desktop_client"].get("networks", ())]
    if is_loopback(conf["bind"]):
        yield (
            f"the ports are opened at {conf['bind']} only: desktop clients on other PCs cannot connect; "
            "say --bind ADDRESS and --networks NETWORK,… for that"
        )
    elif all(network.is_loopback for network in networks):
        yield "desktop clients on other PCs are refused: say --networks NETWORK,… to let them in"
    for network in networks:
        if network.prefixlen == 0:
            yield f"desktop_client.networks holds {network}: whoever reaches the ports may run commands on the nodes"
    if conda is None:
        where = lab.conf.place("conda", lab.conf.root)
        yield f"there is no conda at {where}: tasks with an environment will fail until `conda` in conf.json names it"
    gone = [name for name in lab.conf.typed.visible_folders if not (lab.conf.root / name).is_dir()]
    if gone:
        yield f"visible_folders: {', '.join(gone)} {'is' if len(gone) == 1 else 'are'} not beneath {lab.conf.root}"
    owner = lab.conf.path.stat().st_uid
    if owner != os.geteuid():
        yield f"conf.json belongs to another user (uid {owner}): run the master as that user, as the old one was"


def _of_registry(lab: OldLab) -> Iterator[str]:
    for label, keys in lab.registry.unknown.items():
        yield f"registry, entry {label}: Muster has no {_names(keys)}: kept in the entry under `_old`"
    yield from (f"registry, entry {note}" for note in lab.registry.notes)


def _of_company(lab: OldLab, conf: dict[str, Any]) -> Iterator[str]:
    access = msgspec.convert(conf["desktop_client"], DesktopClient)
    yield from (f"conf.json: {why}" for why in closed(access, People(Pending())))
    try:
        check_company(lab.registry.nodes, access, lab.conf.path)
    except ConfigError as error:
        yield f"Muster will not start like this: {error}"


def _of_secret(lab: OldLab) -> Iterator[str]:
    if not lab.secret.present and any(node.traits.is_over_ssh for node in lab.registry.nodes):
        yield f"there is no password file {lab.secret.path}: the nodes must let a key in, or write it (mode 0600)"
    if lab.secret.unfit:
        yield f"nodes cannot be logged in to: {lab.secret.unfit}"


def _of_tasks(lab: OldLab) -> Iterator[str]:
    running = lab.queues.running
    lost = {task.id for task in running}
    circles = _circles({task.id: task for task in lab.queues.waiting})
    told: dict[str, list[int]] = {}
    for task in lab.queues.waiting:
        for what in _of_task(task, lab, lost, circles):
            told.setdefault(what, []).append(task.id)
    yield from (f"{_tasks(ids)} {what}" for what, ids in told.items())
    if running:
        places = sorted({part.node for task in running for part in task.allocation})
        yield (
            f"{_tasks([task.id for task in running])} ran under the old system{' on ' if places else ''}"
            f"{', '.join(places)}. Muster cannot take the processes over: they may be alive still, and hold GPUs that "
            "Muster takes for free. Look there with nvidia-smi, and set `schedulable` to false for these nodes until "
            "they have ended (docs/moving-over.md)"
        )


def _of_task(task: Task, lab: OldLab, lost: set[int], circles: set[int]) -> Iterator[str]:
    counts = {node.name: node.gpu_count for node in lab.registry.nodes}
    if task.node is not None and task.node not in counts:
        yield f"asked for node {task.node}, which the registry does not hold"
    elif task.gpus > (counts[task.node] if task.node else max(counts.values(), default=0)):
        yield f"asked for {task.gpus} GPUs, more than {task.node or 'any node'} has"
    if any(after.id in lost for after in task.after):
        yield "waited for a task that ran under the old system: it waits no more"
    if task.id in circles:
        yield "would wait for ever, in a circle: `muster edit ID after=` helps"


def _circles(waiting: dict[int, Task]) -> set[int]:
    """Tasks that wait for themselves in the end. An old task has one predecessor at most: each is looked at once."""
    found: set[int] = set()
    seen: dict[int, int] = {}
    for begin in waiting:
        here, way = begin, list[int]()
        while here in waiting and here not in seen:
            seen[here] = begin
            way.append(here)
            here = next((after.id for after in waiting[here].waits_for), 0)
        if seen.get(here) == begin:
            found.update(way[way.index(here) :])
    return found


def _names(keys: list[str]) -> str:
    return ("key " if len(keys) == 1 else "keys ") + ", ".join(f"`{key}`" for key in keys)


def _tasks(ids: list[int]) -> str:
    shown = ", ".join(map(str, ids[:IDS_SHOWN]))
    more = f" and {len(ids) - IDS_SHOWN} more" if len(ids) > IDS_SHOWN else ""
    return f"{'task' if len(ids) == 1 else 'tasks'} {shown}{more}"
