"""The doctor among agents that are played here and run his questions for real, except where a test twists an answer."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest

from master.config.config import make_folders
from master.core.nodes.inventory import NodeState
from master.core.tasks.task import Task
from master.doctor import examine, folders
from master.doctor import node as one_node
from master.drivers import agent_archive as archive
from master.nodes.driver import CannotConnectError, OfferedKey, UnknownHostKeyError
from master.nodes.registry import NodeConfig
from tests.master.in_process import InProcess, run
from tests.waiting import settled
from wire.errors import NodeUnreachableError
from wire.framing import encode, strict_loads
from wire.message import Message

SHOWN = OfferedKey(type="ssh-ed25519", base64="AAAA", fingerprint="SHA256:" + "n" * 43)
FACTS = {"boot_id": "boot", "cpus": 4, "memory_mib": 1000, "python": "3.11.2"}
Sent = dict[str, Any]
Twist = Callable[[Sent], Sent | None]


def told(text: str) -> Message:
    """What somebody else said of the way to a node."""
    return Message("link_said", said=text)


class Agent:
    """Runs what it is asked, as the account of the test. `twist` may give another answer; `mute`: none at all."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.twist: Twist = lambda _message: None
        self.mute = False
        self.asked = 0
        self._jobs: set[asyncio.Task[None]] = set()
        self._writer: asyncio.StreamWriter | None = None

    async def listen(self) -> None:
        self._server = await asyncio.start_unix_server(self._talk, self.path)

    def close(self) -> None:
        self._server.close()
        self.hang_up()

    def hang_up(self) -> None:
        if self._writer is not None:
            self._writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        with suppress(OSError, EOFError):
            while line := await reader.readline():
                message = strict_loads(line.rstrip(b"\n"))
                if message["op"] == "hello":
                    version = archive.build().version
                    names = {"state_id": self.path, "hostname": self.path, "account": "lab"}  # machines of their own
                    welcome = {"op": "welcome", "version": version, **names, **FACTS}
                    writer.write(encode(welcome) + encode({"op": "inventory", "attempts": []}))
                elif message["op"] == "probe":
                    job = asyncio.create_task(self._answer(message, writer))
                    self._jobs.add(job)
                    job.add_done_callback(self._jobs.discard)
        writer.close()

    async def _answer(self, message: Sent, writer: asyncio.StreamWriter) -> None:
        self.asked += 1
        if self.mute:
            return
        answer = self.twist(message) or await _run(message)
        base = {"op": "probed", "probe_id": message["probe_id"], "truncated": False, "error": "", "output": ""}
        writer.write(encode({**base, **answer}))


async def _run(message: Sent) -> Sent:
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            *message["argv"],
            cwd=message["cwd"],
            env={**os.environ, **message["env"]},
            stdin=pipe,
            stdout=pipe,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        return {"code": None, "error": f"{error.filename}: {error.strerror}"}
    output, _ = await process.communicate(message["stdin"].encode())
    return {"code": process.returncode, "output": output.decode()}


class Machine:
    """The driver to a played agent: a machine with a host key, and a port that may be closed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.version = archive.build().version
        self.fault: CannotConnectError | None = None
        self.known: str | None = SHOWN.fingerprint
        self.shown: OfferedKey | None = SHOWN

    async def connect(self, protocol: asyncio.Protocol) -> None:
        if self.fault is not None:
            raise self.fault
        await asyncio.get_running_loop().create_unix_connection(lambda: protocol, self.path)

    async def close(self) -> None:
        """Nothing to close."""

    async def offered_key(self) -> OfferedKey:
        if self.shown is None:
            raise NodeUnreachableError("the line is dead")
        return self.shown

    def known_key(self) -> str | None:
        return self.known

    def pin(self, key: OfferedKey) -> None:
        self.known = key.fingerprint


class Ward(InProcess):
    """A master whose nodes are played: `async with Ward(folder, "a", "b") as ward`. All share the master's folders."""

    def __init__(self, folder: Path, *names: str) -> None:
        super().__init__(folder)
        self.agents = {name: Agent(folder / f"{name}.sock") for name in names}
        self.machines = {name: Machine(agent.path) for name, agent in self.agents.items()}
        self.dispatcher = socket.create_server(("127.0.0.1", 0), backlog=100)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        make_folders(self.place.config)
        for agent in self.agents.values():
            await agent.listen()
        self.make_driver = lambda config: self.machines[config.name]
        self.place.fleet.apply(tuple(self.config(name) for name in self.agents))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.dispatcher.close()
        for agent in self.agents.values():
            agent.close()
        await super().__aexit__()

    def config(self, name: str, **more: Any) -> NodeConfig:
        base = {
            "ip": "127.0.0.1",
            "port": self.dispatcher.getsockname()[1],
            "user_name": "lab",
            "gpu_probe": "declared",
        }
        return NodeConfig(**{"name": name, "gpu_count": 0, "python": sys.executable, **base, **more})

    async def state(self, name: str, state: NodeState) -> None:
        await settled(lambda: self.core.inventory.nodes[name].state is state)

    async def diagnose(self, *names: str) -> dict[str, dict[str, dict[str, Any]]]:
        """What is wrong with each node: the findings that are neither ok nor skipped, by check."""
        peer = await self.peer()
        found = {}
        for node in await peer.call("node.doctor", names=list(names)):
            ill = {one["check"]: one for one in node["findings"] if one["verdict"] in ("warning", "fault")}
            verdicts = {one["verdict"] for one in ill.values()}
            assert node["verdict"] == ("fault" if "fault" in verdicts else "warning" if verdicts else "ok")
            assert all(one["cure"] for one in ill.values())
            found[node["name"]] = ill
        return found

    def left(self) -> list[str]:
        """Files of the doctor that are still there."""
        return [str(path) for path in self.folder.rglob(".muster-doctor*")]


def test_a_node_that_is_well_is_well_in_every_check_and_nothing_is_left_of_the_examination(tmp_path: Path) -> None:
    async def story() -> None:
        async with Ward(tmp_path, "a", "b") as ward:
            for name in ward.agents:
                await ward.state(name, NodeState.ONLINE)
            peer = await ward.peer()
            nodes = await peer.call("node.doctor")
            assert [(node["name"], node["state"], node["verdict"]) for node in nodes] == [
                ("a", "online", "ok"), ("b", "online", "ok"),
            ]  # fmt: skip
            for node in nodes:
                verdicts = {one["check"]: one["verdict"] for one in node["findings"]}
                skipped = {check for check, verdict in verdicts.items() if verdict == "skipped"}
                assert skipped == {"conda", "gpus"}  # this lab has neither
                assert set(verdicts.values()) == {"ok", "skipped"}
            assert await peer.call("node.doctor", names=["b"]) != []
            assert (await peer.refusal("node.doctor", names=["b", "x"]))[0] == "not_found"
            assert ward.left() == []

    run(story())


def test_a_prefix_that_holds_virtual_environments_only_is_no_fault_and_a_broken_conda_is(tmp_path: Path) -> None:
    async def story() -> None:
        async with Ward(tmp_path, "a") as ward:
            await ward.state("a", NodeState.ONLINE)
            peer = await ward.peer()
            prefix = Path(ward.place.config.conda)
            (prefix / "envs" / "torch" / "bin").mkdir(parents=True)
            (node,) = await peer.call("node.doctor")
            (told,) = [one for one in node["findings"] if one["check"] == "conda"]
            assert (told["verdict"], node["verdict"]) == ("skipped", "ok")
            assert told["told"] == str(Message("doctor_only_venvs", prefix=str(prefix)))
            (prefix / "conda-meta").mkdir()
            (node,) = await peer.call("node.doctor")
            (told,) = [one for one in node["findings"] if one["check"] == "conda"]
            assert told["verdict"] == "fault"

    run(story())


def test_a_folder_that_the_master_itself_lacks_is_told_and_nothing_is_looked_for(tmp_path: Path) -> None:
    async def story() -> None:
        async with Ward(tmp_path, "a") as ward:
            ward.place.config = msgspec.structs.replace(ward.place.config, visible_folders=("data",))
            await ward.state("a", NodeState.ONLINE)
            (node,) = await (await ward.peer()).call("node.doctor")
            told = {one["told"]: one["verdict"] for one in node["findings"] if one["check"] == "shared_folders"}
            assert told[str(Message("doctor_folder_absent", folder=f"{tmp_path}/data"))] == "skipped"
            assert set(told.values()) == {"ok", "skipped"}

    run(story())


def test_the_agent_is_compared_with_the_one_that_this_master_brings(tmp_path: Path) -> None:
    async def story() -> None:
        async with Ward(tmp_path, "a") as ward:
            await ward.state("a", NodeState.ONLINE)
            ward.machines["a"].version = "newer"
            found = (await ward.diagnose())["a"]
            assert set(found) == {"agent"}
            assert "the master's is newer" in found["agent"]["told"]

    run(story())


def test_a_folder_of_the_same_name_is_not_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "PATIENCE_S", 0.0)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def other_folder(message: Sent) -> Sent | None:
        """The node has another folder where the master has its root."""
        told = json.loads(message["stdin"]) if message["stdin"] else {}
        if "theirs" in told:
            message["stdin"] = json.dumps({**told, "folder": str(elsewhere)})
        return None

    async def story() -> None:
        async with Ward(tmp_path, "a", "b") as ward:
            for name in ward.agents:
                await ward.state(name, NodeState.ONLINE)
            ward.agents["a"].twist = other_folder
            ill = await ward.diagnose()
            assert ill["b"] == {}
            assert set(ill["a"]) == {"shared_folders"}
            folder = str(tmp_path)
            other = str(Message("doctor_folder_other", folder=folder, said="No such file or directory"))
            assert ill["a"]["shared_folders"]["told"] == other
            assert ill["a"]["shared_folders"]["cure"] == str(Message("do_mount_right_folder", folder=folder))

    run(story())


def test_an_agent_that_does_not_answer_is_one_fault_and_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MACHINE_S", "GPUS_S", "CONDA_S", "FOLDER_S", "START_S", "REMOVE_S", "LATE_S"):
        monkeypatch.setattr(one_node, name, 0.05)

    async def story() -> None:
        async with Ward(tmp_path, "a") as ward:
            await ward.state("a", NodeState.ONLINE)
            ward.agents["a"].mute = True
            ill = (await ward.diagnose())["a"]
            assert set(ill) == {"agent"}
            assert "did not answer" in ill["agent"]["told"]
            assert ward.left() == []

    run(story())


def test_a_machine_that_went_away_without_a_word_is_one_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MACHINE_S", "GPUS_S", "CONDA_S", "FOLDER_S", "START_S", "REMOVE_S", "LATE_S"):
        monkeypatch.setattr(one_node, name, 0.05)

    async def story() -> None:
        async with Ward(tmp_path, "a") as ward:
            await ward.state("a", NodeState.ONLINE)
            ward.agents["a"].mute = True
            ward.dispatcher.close()
            ill = (await ward.diagnose())["a"]
            assert [(check, one["verdict"]) for check, one in ill.items()] == [("reachable", "fault")]
            assert "goes on" not in ill["reachable"]["told"]

    run(story())


def test_an_agent_whose_connection_breaks_in_between_is_told_by_the_link(tmp_path: Path) -> None:
    async def story() -> None:
        async with Ward(tmp_path, "a") as ward:
            await ward.state("a", NodeState.ONLINE)
            ward.agents["a"].mute = True
            asked = asyncio.create_task(ward.diagnose())
            await settled(lambda: ward.agents["a"].asked >= 2)
            ward.machines["a"].fault = CannotConnectError(told("no way"))
            ward.agents["a"].hang_up()
            ill = (await asked)["a"]
            assert set(ill) == {"agent"}
            await settled(lambda: ward.left() == [])

    run(story())


def test_garbage_from_a_node_is_a_finding_like_another(tmp_path: Path) -> None:
    async def story() -> None:
        async with Ward(tmp_path, "a") as ward:
            await ward.state("a", NodeState.ONLINE)
            ward.agents["a"].twist = lambda _message: {"code": 0, "output": 'muster-doctor {"now": []}\nSegfault'}
            ill = (await ward.diagnose())["a"]
            assert set(ill) == {"python", "start"}
            assert "Segfault" in ill["python"]["told"]

    run(story())


@pytest.mark.parametrize(
    ("fault", "check", "words", "cure"),
    [
        (
            CannotConnectError(Message("python_not_there", python="python3")),
            "python",
            "python3",
            "python=/path",
        ),
        (
            CannotConnectError(Message("password_refused", where="x", user="lab", path="/psw"), "long"),
            "log_in",
            "password",
            "psw_file",
        ),
        (
            UnknownHostKeyError(Message("host_key_revoked", where="x", key="SHA256:n")),
            "host_key",
            "SHA256:n",
            "muster node trust a",
        ),
    ],
)
def test_of_a_node_that_is_not_connected_the_link_tells_why(
    tmp_path: Path, fault: CannotConnectError, check: str, words: str, cure: str
) -> None:
    async def story() -> None:
        async with Ward(tmp_path, "a") as ward:
            ward.machines["a"].fault = fault
            ward.agents["a"].hang_up()
            await settled(lambda: str(fault) == ward.core.inventory.nodes["a"].reason)
            ill = (await ward.diagnose())["a"]
            assert set(ill) == {check}
            assert words in ill[check]["told"]
            assert cure in ill[check]["cure"]
            assert ward.agents["a"].asked == 0

    run(story())


def test_a_door_that_is_closed_now_goes_before_what_the_link_says(tmp_path: Path) -> None:
    async def story() -> None:
        async with Ward(tmp_path, "a") as ward:
            silent = Message("no_answer_in_time", peer="10.0.0.1:22", seconds=10.0)
            ward.machines["a"].fault = CannotConnectError(silent)
            ward.agents["a"].hang_up()
            await ward.state("a", NodeState.UNREACHABLE)
            told_then = (await ward.diagnose())["a"]["reachable"]["told"]
            assert told_then == str(Message("doctor_last_try", why=silent))
            ward.dispatcher.close()
            ill = (await ward.diagnose())["a"]
            assert set(ill) == {"reachable"}
            assert "refuses the connection" in ill["reachable"]["told"]

    run(story())


def test_a_connected_node_that_shows_another_key_or_none_is_told(tmp_path: Path) -> None:
    async def story() -> None:
        async with Ward(tmp_path, "a") as ward:
            await ward.state("a", NodeState.ONLINE)
            ward.machines["a"].known = "SHA256:" + "o" * 43
            assert (await ward.diagnose())["a"]["host_key"]["verdict"] == "warning"
            ward.machines["a"].shown = None
            assert (await ward.diagnose())["a"]["host_key"]["told"] == "the line is dead"

    run(story())


def test_nodes_for_which_no_time_is_left_are_told_by_their_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examine, "AT_A_TIME", 1)
    monkeypatch.setattr(examine, "WHOLE_S", 0.5)
    monkeypatch.setattr(one_node, "REMOVE_S", 0.0)
    monkeypatch.setattr(one_node, "LATE_S", 0.1)
    monkeypatch.setattr(one_node, "MACHINE_S", 9.0)

    async def story() -> None:
        async with Ward(tmp_path, "a", "b", "c") as ward:
            ward.machines["c"].fault = UnknownHostKeyError(told("another key"))
            ward.agents["c"].hang_up()
            for name in ("a", "b"):
                await ward.state(name, NodeState.ONLINE)
            await ward.state("c", NodeState.UNTRUSTED)
            ward.agents["a"].mute = True
            ill = await ward.diagnose()
            assert ill["a"]["clock"]["told"] == str(Message("doctor_no_answer"))
            assert ill["b"]["reachable"]["verdict"] == "warning"
            assert "not looked at" in ill["b"]["reachable"]["told"]
            assert ill["c"]["host_key"]["verdict"] == "fault"

    run(story())


def test_who_asks_may_leave_and_still_nothing_is_left_behind(tmp_path: Path) -> None:
    async def story() -> None:
        async with Ward(tmp_path, "a") as ward:
            await ward.state("a", NodeState.ONLINE)
            peer = await ward.peer()
            peer.ask("node.doctor")
            await settled(lambda: ward.agents["a"].asked >= 2)
            peer.writer.close()
            await settled(lambda: not ward.port_server.connections)
            assert ward.left() != []
            await settled(lambda: ward.left() == [])

    run(story())


def test_a_node_on_its_way_out_of_the_registry_is_only_told_so(tmp_path: Path) -> None:
    async def story() -> None:
        async with Ward(tmp_path, "a", "b") as ward:
            await ward.state("a", NodeState.ONLINE)
            ward.core.tasks[1] = Task(id=1, command="true")
            ward.core.inventory.nodes["a"].active.add(1)
            ward.place.fleet.apply((ward.config("b"),))
            assert set((await ward.diagnose("a"))["a"]) == {"takes_tasks"}
            ward.core.inventory.nodes["a"].active.clear()

    run(story())


def test_what_a_node_cannot_remove_the_master_does(tmp_path: Path) -> None:
    async def story() -> None:
        async with Ward(tmp_path, "a") as ward:
            await ward.state("a", NodeState.ONLINE)
            ward.agents["a"].twist = lambda message: {"code": 1} if message["argv"][2:3] == ['rm -f -- "$@"'] else None
            assert (await ward.diagnose())["a"] == {}
            assert ward.left() == []

    run(story())


def test_a_link_in_the_place_of_a_nodes_file_leads_nowhere(tmp_path: Path) -> None:
    secret = tmp_path / "secret"

    def link(message: Sent) -> Sent | None:
        """The account on the node puts a link where it should write."""
        told = json.loads(message["stdin"]) if message["stdin"] else {}
        if "mine" in told:
            secret.write_text(told["text"], encoding="ascii")
            Path(told["folder"], told["mine"]).symlink_to(secret)
            answer = {"there": True, "read": told["text"]}
            return {"code": 0, "output": f"muster-doctor {json.dumps(answer)}\n"}
        return None

    async def story() -> None:
        async with Ward(tmp_path, "a") as ward:
            await ward.state("a", NodeState.ONLINE)
            ward.agents["a"].twist = link
            ill = (await ward.diagnose())["a"]
            assert ill["shared_folders"]["told_message"]["key"] == "doctor_folder_late"
            assert ward.left() == []

    run(story())
