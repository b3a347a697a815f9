"""A durable consumer has one name: what the store keeps under it is what the consumer is begun with."""

from __future__ import annotations

import json
from pathlib import Path

from master.config.config import load_config
from master.core.core import Core
from master.core.nodes.inventory import NodeSpec
from master.durable.disk import OsDisk
from master.durable.outbox import Reader
from master.durable.store import Store
from master.engine.engine import Engine
from master.start.loading import consumers_of
from master.watchers.consumers import Consumers, DurableConsumer
from tests.master.in_process import run
from wire.message import Message

TROUBLE = Message("hook_fails", hook="mail", since=1.0)


class Mail:
    """A consumer that has trouble, and is over once it is closed."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.is_over = False

    def troubles(self, name: str) -> list[Message]:
        assert name == "mail"
        return [TROUBLE]

    async def close(self) -> None:
        self.is_over = True


def engine_of(folder: Path, consumers: Consumers) -> Engine:
    store = Store(folder / "task_info", OsDisk())
    store.open()
    store.serve(consumers.names)
    return Engine(Core((NodeSpec(name="a"),), lambda task, attempt: f"{task}.{attempt}"), store)


def test_a_consumer_is_named_once_and_runs_as_long_as_the_master_serves(tmp_path: Path) -> None:
    begun: list[Mail] = []

    def begin(_engine: Engine, reader: Reader) -> Mail:
        begun.append(Mail(reader))
        return begun[0]

    async def story() -> None:
        consumers = Consumers((DurableConsumer("mail", begin),))
        engine = engine_of(tmp_path, consumers)
        assert consumers.troubles() == []
        async with consumers.running(engine):
            [mail] = begun
            assert mail.reader is engine.store.outbox.reader("mail")
            assert consumers.troubles() == [TROUBLE]
            assert not mail.is_over
        assert mail.is_over
        assert consumers.troubles() == []
        await engine.close()

    run(story())
    assert (tmp_path / "task_info" / "outbox" / "mail").exists()


def test_each_hook_of_conf_json_is_one_and_a_lab_without_any_has_none(tmp_path: Path) -> None:
    ports = {"monitor_port": 1, "data_port": 2, "train_state_port": 3}
    hooks = {"task_ended": ["/bin/true"], "gpus_free": ["/bin/true"]}
    for extra, names in (({}, []), ({"hooks": hooks}, ["hooks.gpus_free", "hooks.task_ended"])):
        conf = tmp_path / "conf.json"
        conf.write_text(json.dumps({"socket_info": ports, **extra}), encoding="utf-8")
        assert sorted(Consumers(consumers_of(load_config(conf))).names) == names
