"""Whoever puts an older copy of the queue's folder back brings no token back that was revoked since."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from master.core.core import Core
from master.core.people.people import Token
from master.durable.disk import OsDisk
from master.durable.store import Store
from master.engine.engine import Engine
from master.people.task_tokens import TaskTokens
from master.start.loading import end_what_was_put_back
from tests.master.executor import played


def opened(folder: Path) -> tuple[Store, Core, Engine]:
    """The queue of `folder/queue`, as a start has it."""
    store = Store(folder / "queue", OsDisk(), witness=folder / "log.queue")
    image = store.open()
    core = Core((), lambda task, attempt: f"{task}.{attempt}")
    core.load(image.tasks, image.answered, image.next_id, image.state)
    engine = Engine(core, store)
    engine.executor_of = played(lambda _effects: None)
    return store, core, engine


async def lived(folder: Path, change: str) -> list[str]:
    """A start, what `change` says, and an end; the tokens that open something."""
    store, core, engine = opened(folder)
    store.anchor({}, anew=False)
    await end_what_was_put_back(engine, store, TaskTokens.begin(folder))
    if change == "add":
        ann = engine.client_change(lambda: core.people.add("ann", link="x", link_until=4e9))
        engine.client_change(lambda: core.people.add_token(Token("t1", ann.id, "x")))
    elif change == "revoke":
        engine.client_change(lambda: core.people.end_token("t1"))
    await engine.settled()
    tokens = [*core.people.tokens, *(user.link for user in core.people.users.values() if user.link)]
    await engine.close()
    return tokens


def test_tokens_and_links_of_a_backup_open_nothing_and_new_ones_do(tmp_path: Path) -> None:
    async def story() -> None:
        await lived(tmp_path, "add")
        shutil.copytree(tmp_path / "queue", tmp_path / "backup")
        assert await lived(tmp_path, "revoke") == ["x"]
        shutil.rmtree(tmp_path / "queue")
        shutil.copytree(tmp_path / "backup", tmp_path / "queue")
        assert await lived(tmp_path, "") == []
        assert await lived(tmp_path, "") == []

    asyncio.run(story())


def test_tokens_of_a_folder_that_is_as_it_was_left_stay(tmp_path: Path) -> None:
    async def story() -> None:
        await lived(tmp_path, "add")
        for _ in range(3):
            assert await lived(tmp_path, "") == ["t1", "x"]

    asyncio.run(story())
