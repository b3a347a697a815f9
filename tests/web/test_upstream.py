"""The console asks no master but its own lab's, also with the token of another one's services."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from tests.master.in_process import DATA, InProcess, run
from tests.waiting import PATIENCE_S
from web.settings import Settings
from web.upstream import Upstream
from wire.console import Web
from wire.errors import ProtocolError, UnreachableError
from wire.lab import Lab, path_of


def settings(master: InProcess, folder: Path, identity: str) -> Settings:
    """Those of a console in `folder`, a copy of the master's."""
    folder.mkdir(exist_ok=True)
    conf = folder / "conf.json"
    Path(path_of(str(conf))).write_text(json.dumps({"lab": identity, "conf": str(conf)}))
    port = master.servers[DATA].sockets[0].getsockname()[1]
    ports = dict.fromkeys(("calls", "tasks", "nodes"), port)
    return Settings(
        conf, msgspec.convert({"port": 1}, Web), "127.0.0.1", master.folder / "task_info", "127.0.0.1", ports, "off"
    )


class OlderMaster:
    """As far as a console asks it: one that does not know the key `account` of `auth.relay`."""

    def __init__(self) -> None:
        self.relayed: list[dict[str, object]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer until the end."""
        while line := await reader.readline():
            asked = json.loads(line)
            answer = {"jsonrpc": "2.0", "id": asked["id"]}
            if asked["method"] != "auth.relay":
                answer["result"] = {}
            elif "account" in asked["params"]:
                data = {"code": "bad_request"}
                answer["error"] = {"code": -32602, "message": "unknown key `account`", "data": data}
            else:
                self.relayed.append(asked["params"])
                answer["result"] = None
            writer.write(json.dumps(answer).encode() + b"\n")
        writer.close()


def test_a_master_that_knows_no_accounts_of_callers_is_told_the_address_alone(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            asked = settings(master, tmp_path / "conf", "1" * 32)
            older = OlderMaster()
            async with await asyncio.start_server(older.serve, "127.0.0.1") as server:
                port = server.sockets[0].getsockname()[1]
                asked = asked._replace(ports=dict.fromkeys(asked.ports, port))
                upstream = await Upstream.open(asked, "calls", origin="127.0.0.1", account=1000)
                await upstream.close()
            assert older.relayed == [{"from": "127.0.0.1"}]

    run(story())


def test_it_says_nothing_to_the_master_of_another_lab(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            for identity, is_ours in (("1" * 32, True), ("2" * 32, False), ("", False)):
                asked = settings(master, tmp_path / "other", identity)
                if is_ours:
                    upstream = await Upstream.open(asked, "calls")
                    assert msgspec.json.decode(await upstream.call("auth.whoami", {}))["user"] == "web"
                    await upstream.close()
                else:
                    with pytest.raises(UnreachableError, match="another lab"):
                        await Upstream.open(asked, "calls")
            master.place.lab = Lab("", str(tmp_path / "other" / "conf.json"))
            await (await Upstream.open(settings(master, tmp_path / "other", ""), "calls")).close()

    run(story())


def test_a_refusal_that_names_no_call_leaves_nobody_waiting(tmp_path: Path) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            answer: dict[str, object] = {"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {}}
            if json.loads(line)["method"] == "task.list":
                data = {"code": "protocol", "key": "no_request", "args": {"said": "odd"}}
                answer = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "odd", "data": data}}
            writer.write(json.dumps(answer).encode() + b"\n")
        writer.close()

    async def story() -> None:
        async with InProcess(tmp_path) as master, await asyncio.start_server(refuse, "127.0.0.1") as server:
            asked = settings(master, tmp_path / "conf", "1" * 32)
            port = server.sockets[0].getsockname()[1]
            upstream = await Upstream.open(asked._replace(ports=dict.fromkeys(asked.ports, port)), "calls")
            with pytest.raises(ProtocolError, match="odd"):
                await upstream.call("task.list", {}, limit_s=PATIENCE_S)
            await upstream.close()

    run(story())
