"""The master as a whole, in this process: which one it is, and what it refuses before it touches anything."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import msgspec
import pytest

from master.app import Master
from master.config.conf_file import PORT_KEYS
from master.config.config import load_config
from master.durable.disk import OsDisk
from master.durable.store import Store
from master.ports.port_server import PortServer
from master.start.lineage import LINEAGE_KEPT, Lineage
from master.tls.entrance import Listener
from tests.conftest import LabMaker
from tests.faults import fault_in
from tests.master.in_process import Peer, run
from tests.ports import free_ports
from tests.waiting import run_story, settled
from wire.errors import LockedError


def test_every_start_is_a_new_epoch_of_the_same_cluster() -> None:
    lineage = Lineage("cluster")
    for _ in range(3):
        lineage.next()
    hello = lineage.hello()
    assert (hello["cluster"], hello["epoch"]) == ("cluster", 3)
    assert [epoch for epoch, _ in hello["lineage"]] == [1, 2, 3]
    assert len({incarnation for _, incarnation in lineage.epochs}) == 3
    assert hello["incarnation"] == lineage.epochs[-1][1]


def test_the_lineage_stays_short_and_keeps_its_youngest() -> None:
    lineage = Lineage("cluster")
    for _ in range(LINEAGE_KEPT * 2):
        lineage.next()
    assert [epoch for epoch, _ in lineage.epochs] == list(range(LINEAGE_KEPT + 1, LINEAGE_KEPT * 2 + 1))


def test_who_finds_the_port_that_answers_finds_the_others_too(
    make_lab: LabMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = dict(zip(PORT_KEYS, free_ports(3), strict=True))
    config = load_config(make_lab(nodes=[], desktop_client={"ports": ports}))
    opened: list[int] = []
    listen = PortServer.listen

    async def noted(port_server: PortServer, name: str, address: str, port: int, *how: Any) -> Listener:
        opened.append(port)
        return await listen(port_server, name, address, port, *how)

    monkeypatch.setattr(PortServer, "listen", noted)

    async def story() -> None:
        master = Master(config)
        running = asyncio.create_task(master.run())
        await settled(lambda: len(opened) == 6)
        master.stop()
        await running

    run(story())
    assert set(opened) == set(config.all_ports)
    assert opened[-2:] == [config.ports.data_port, ports["data_port"]]


def test_what_was_loaded_without_looking_for_garbage_is_followed_by_looking_for_it(make_lab: LabMaker) -> None:
    config = load_config(make_lab(nodes=[]))

    async def story() -> None:
        master = Master(config)
        running = asyncio.create_task(master.run())
        await settled(lambda: running.done() or gc.isenabled())
        assert not running.done()
        master.stop()
        await running

    gc.disable()  # as the command does before it loads anything
    try:
        run(story())
    finally:
        gc.enable()


def test_a_start_is_refused_where_what_belongs_to_somebody_has_two_names(make_lab: LabMaker) -> None:
    conf = make_lab(nodes=[])
    (conf.parent / "data/ann").mkdir(parents=True)
    (conf.parent / "hers").symlink_to("data/ann")
    said = json.loads(conf.read_text(encoding="utf-8"))
    conf.write_text(json.dumps({**said, "visible_folders": ["data", "hers"], "files": {"data/{user}": "own"}}))
    fault = fault_in(conf, lambda: asyncio.run(Master(load_config(conf)).run()))
    assert {fault.args["folder"], fault.args["other"]} == {str(conf.parent / name) for name in ("data", "hers")}
    assert fault.key == "folders_overlap"


def test_what_ends_a_master_is_the_last_line_of_its_audit_log(make_lab: LabMaker) -> None:
    config = load_config(make_lab(nodes=[]))

    async def story() -> None:
        running = asyncio.create_task(Master(config).run())
        while True:
            try:
                peer = Peer(*await asyncio.open_connection("127.0.0.1", config.ports.data_port))
                break
            except ConnectionRefusedError:
                await asyncio.sleep(0)
        await peer.call("server.stop")
        peer.writer.close()
        await running

    run_story(story())
    lines = (config.task_info / "audit" / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    assert [(line["verb"], line["result"]) for line in map(json.loads, lines)] == [("server.stop", "ok")]


def test_a_master_runs_until_it_is_stopped_and_its_epoch_is_durable(make_lab: LabMaker) -> None:
    config = load_config(make_lab(nodes=[]))

    async def story() -> None:
        master = Master(config)
        running = asyncio.create_task(master.run())
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", config.ports.data_port)
                break
            except ConnectionRefusedError:
                await asyncio.sleep(0)
        with pytest.raises(LockedError):
            Store(config.task_info, OsDisk()).open()
        writer.close()
        master.stop()
        await running

    for _ in range(2):
        run_story(story())
    store = Store(config.task_info, OsDisk())
    lineage = msgspec.json.decode(store.open().state["lineage"], type=Lineage)
    store.close()
    assert [epoch for epoch, _ in lineage.epochs] == [1, 2]
