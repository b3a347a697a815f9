"""Takes up the queue at the start of a master: opens its folder, tells what was lost, ends what a backup revived."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection

from master.config.config import Config
from master.core.core import Core
from master.core.tuning import Tuning
from master.durable.disk import OsDisk
from master.durable.legacy import OldFolders
from master.durable.store import Image, Permit, Store
from master.durable.witness import witness_path
from master.engine.engine import Engine
from master.nodes.registry import NodeConfig
from master.people.task_tokens import TaskTokens
from master.watchers.consumers import DurableConsumer

log = logging.getLogger("muster")


def consumers_of(config: Config) -> tuple[DurableConsumer, ...]:
    """Return the consumers of moves that this conf.json asks for. A new kind is one more line here."""
    return _hooks(config)


def _hooks(config: Config) -> tuple[DurableConsumer, ...]:
    if not config.hooks.commands:
        return ()
    from master.watchers.hooks import hooks_of  # noqa: PLC0415  (most labs have none, and all wait for a start)

    return hooks_of(config.hooks.commands)


def open_store(config: Config, permit: Permit, consumers: Collection[str]) -> tuple[Store, Image]:
    """Lock the folder and read the queue; keep for the consumers of these names what becomes of it. Raises
    MusterError."""
    store = Store(
        config.task_info,
        OsDisk(),
        old_places=OldFolders(str(config.root), str(config.train_logs)),
        permit=permit,
        witness=witness_path(config.server_log),
    )
    image = store.open()
    store.serve(consumers)
    return store, image


def core_of(config: Config, nodes: tuple[NodeConfig, ...], image: Image) -> Core:
    """Return the core with what the store found."""
    core = Core(
        tuple(node.spec() for node in nodes),
        _launch_id,
        config.settings,
        licences=config.licences,
        log_folder=str(config.train_logs),
    )
    core.load(image.tasks, image.answered, image.next_id, image.state)
    return core


def tell_losses(store: Store) -> None:
    """Log what was lost, as long as nobody has seen it."""
    for loss in store.damage:
        log.warning("not seen by anybody yet: %s", loss.what)


def tell_settings(tuning: Tuning, config: Config) -> None:
    """Log the settings that were set at run time and differ from conf.json, and those that do not apply, and why."""
    tell_outranked(tuning, config, list(tuning.said))
    for name, why in tuning.refused.items():
        log.warning("%s was set to what this version does not take, so the default holds: %s", name, why)


def tell_outranked(tuning: Tuning, config: Config, names: list[str]) -> None:
    """Log which of these settings are not as conf.json has them, because somebody set them at run time."""
    for name in names:
        said = tuning.said.get(name)
        if said is not None and name in config.said and said.value != tuning.default(name):
            log.warning(
                "%s is %s, which %s set with `muster set`; what %s says does not hold (`muster set --default %s` lets "
                "it hold again)",
                *(name, said.value, said.by, config.path, name),
            )


async def end_what_was_put_back(engine: Engine, store: Store, task_tokens: TaskTokens) -> None:
    """A backup, and a folder of which records are lost, holds tokens, log-ins and links that were ended since, and
    attempts that are over. Raises StoreUnavailableError."""
    if not store.access_is_to_end:
        return
    what = "is older than what was written there" if store.is_older_copy else "was damaged"
    task_tokens.renew()
    engine.event(engine.core.end_access)
    await engine.settled()
    if store.is_older_copy:
        store.take_as_it_is()
    told = "%s %s: all log-ins, tokens and links have ended, for some may have been revoked since; people log in again"
    log.warning(told, store.folder, what)


def _launch_id(task_id: int, attempt: int) -> str:
    return f"{task_id}.{attempt}.{secrets.token_hex(4)}"
