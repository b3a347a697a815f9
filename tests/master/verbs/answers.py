"""What every verb answers on a small master in process: the questions, and the answers without what differs each time.

Owns the conversation; what is made of it is its callers'.
"""

from __future__ import annotations

import asyncio
import base64
import getpass
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from master.app import Master
from master.config.config import Config
from master.core.attempts.exits import Exit, Seen
from master.core.core import Core
from master.core.nodes.gpu_watch import GpuReport, Holder
from master.core.nodes.inventory import NodeState
from master.core.tasks.task import Task, TaskState
from master.durable import history
from master.durable.disk import OsDisk
from master.nodes.environment_scripts import MARK
from master.ports.port_server import NODES, TASKS
from tests.master.in_process import DATA, Peer
from tests.master.verbs.lab import SHOWN, SSH, A, Lab
from tests.waiting import settled
from wire.agent import Probed

VARIES = frozenset({
    "pid", "started_at", "submitted_at", "ended_at", "mtime", "mtime_ns", "at", "version", "sha256", "size", "upload",
    "token", "old_until", "authority", "master", "drained_at", "told", "cure", "verdict", "monitor_port", "data_port",
    "train_state_port", "content", "agent_version", "link", "until", "made_at", "used_on", "added_at", "eligible_at",
    "was", "now", "expires_at", "since", "told_message", "cure_message", "seq", "kept", "lab", "file",
})  # fmt: skip
"""Keys whose values are told by their type only, where they are not the same each time."""
KEEPS = {
    "file.read": {"size"},
    "log.read": {"size"},
    "log.search": {"size"},
    "file.write": {"size"},
    "env": {"version"},
}
"""Verbs, or their nouns, of which some of these are the same each time."""
NAMES_US = frozenset({"owner", "user", "reason", "health", "drained_by"})
"""Keys whose values may name who asks."""
OLD_END = 1e9
PASSWORD = "gull kettle 七 orchard"  # noqa: S105
ARCHIVED, GONE, BACK = 101, 102, 103


class Answer(NamedTuple):
    """A question and its answer, without what differs each time; and as they were (`asked`, `answered`)."""

    verb: str
    params: dict[str, Any]
    result: Any
    asked: dict[str, Any]
    answered: Any

    def told(self) -> dict[str, Any]:
        """What is written down."""
        return {"verb": self.verb, "params": self.params, "result": self.result}


class Asker:
    """Asks, and remembers. `hidden`: texts that differ each time, with what stands for them."""

    def __init__(self, peer: Peer, folder: Path, answers: list[Answer], core: Core | None = None) -> None:
        self._peer = peer
        self._core = core
        self._user = re.compile(rf"\b{re.escape(getpass.getuser())}\b")
        self._answers = answers
        self.hidden = {str(folder): "FOLDER"}

    async def __call__(self, verb: str, /, **params: Any) -> Any:
        """The result, as it came."""
        result = await self._peer.call(verb, **params)
        if self._core is not None and self._core.plan_needed:
            core = self._core
            await settled(lambda: not core.plan_needed)  # where a plan took long, the next one comes a little later
        kept = KEEPS.get(verb, KEEPS.get(verb.split(".", maxsplit=1)[0], set()))
        told = self._told("", params, frozenset()), self._told("", result, VARIES - kept)
        self._answers.append(Answer(verb, *told, asked=params, answered=result))
        return result

    def _told(self, key: str, value: Any, varies: frozenset[str]) -> Any:
        if isinstance(value, dict):
            if key in varies:
                return "<dict>"
            return {name: self._told(name, one, varies) for name, one in value.items()}
        if isinstance(value, list):
            return [self._told(key, one, varies) for one in value]
        if (key in varies and value is not None) or (key == "id" and isinstance(value, str)):
            return f"<{type(value).__name__}>"
        return self._text(key, value) if isinstance(value, str) else value

    def _text(self, key: str, text: str) -> str:
        for found, shown in self.hidden.items():
            text = text.replace(found, shown)
        return self._user.sub("USER", text) if key in NAMES_US else text


async def every_answer(folder: Path) -> list[Answer]:
    """The answers of all verbs but `server.info`, each at least once."""
    ended = {ARCHIVED: TaskState.SUCCEEDED, GONE: TaskState.FAILED, BACK: TaskState.FAILED}
    old = [
        Task(id=number, command="true", state=state, ended_at=OLD_END, log_path=f"{folder}/logs/of-{number}.log")
        for number, state in ended.items()
    ]
    history.extend(OsDisk(), folder / "task_info" / "history", old)
    (folder / "data").mkdir()
    answers: list[Answer] = []
    async with Lab(folder) as lab:
        ask = Asker(await lab.peer(), folder, answers, lab.core)
        await _submit(ask)
        await _tasks(ask)
        await _run_some(ask, lab)
        await _archived(ask)
        await _logs(ask, folder)
        await _files(ask)
        await _envs(ask, lab)
        await _sizes(ask, lab)
        await _nodes(ask, lab)
        await _agents(ask)
        await _settings(ask)
        await _streams(lab, folder, answers)
        service = (folder / "task_info" / "services" / "web").read_text(encoding="ascii").strip()
        await _people(ask, [Asker(await lab.peer(), folder, answers) for _ in range(3)], service)
        await _arrays(ask)
        await _allocations(ask)
        await ask("server.seen")
        await ask("clock.accept")
        await _conf(ask)
        await ask("audit.read", limit=2)
        await ask("audit.read", user="nobody", since=1.5, verb="task")
        await ask("server.stop")
    return answers


async def _conf(ask: Asker) -> None:
    read = await ask("conf.read", name="registry")
    text = json.dumps([A, {**A, "name": "from afar"}])
    await ask("conf.write", name="registry", text=text, version=read["version"], dry_run=True)
    made = await ask("conf.write", name="registry", text=text, version=read["version"])
    ask.hidden[Path(made["kept"]).name] = "KEPT"
    [before] = await ask("conf.kept", name="registry")
    await ask("conf.write", name="registry", kept=before["name"], version=made["version"], dry_run=True)


async def info_of_a_whole_master(config: Config) -> list[Answer]:
    """What `server.info` answers, which the master as a whole knows."""
    answers: list[Answer] = []
    async with _running(config) as peer:
        ask = Asker(peer, config.folder, answers)
        await ask("server.hello")
        await ask("server.info")
    return answers


@asynccontextmanager
async def _running(config: Config) -> AsyncIterator[Peer]:
    master = Master(config)
    running = asyncio.create_task(master.run())
    try:
        while True:
            try:
                peer = Peer(*await asyncio.open_connection("127.0.0.1", config.ports.all[DATA]))
                break
            except ConnectionRefusedError:
                assert not running.done()
                await asyncio.sleep(0)
        yield peer
        peer.writer.close()
    finally:
        master.stop()
        await running


async def _submit(ask: Asker) -> None:
    await ask("task.submit", command=["echo", "你好"], name="first", hold=True, request_id="one")
    await ask("task.submit", command=["echo", "你好"], name="first", hold=True, request_id="one")
    await ask("task.submit_batch", commands=["true", "false"], gpus=1, project="p", request_id="two")
    await ask("task.submit_batch", commands=["true", "false"], gpus=1, project="p", request_id="two")
    await ask("task.submit", command="true", after=[{"id": 1}, {"id": 2, "on": "any"}], variables={"A": "1"})
    await ask("task.submit", command="true", dry_run=True)
    await ask("task.submit", command="true", dry_run=True, hold=True)
    await ask("task.submit", command="true", dry_run=True, gpus=99)
    await ask("task.submit", command="true", dry_run=True, after=[{"id": 1}])
    await ask("task.places", cwd="FOLDER/none", env="none")
    await ask("task.places")
    await ask("task.places", command="python3 none.py", after=[{"id": 1}])


async def _tasks(ask: Asker) -> None:
    for number in (1, 2, 4):
        await ask("task.show", id=number)
        await ask("task.why", id=number)
    await ask("task.diff", id=1, other=2)
    await ask("task.move", id=3, position=1)
    await ask("task.edit", id=2, changes={"priority": 5, "cpus": 2, "log": "x.log"})
    await ask("task.hold", id=3)
    await ask("task.release", id=3)
    await ask("task.list")
    await ask("task.list", sparse=True, sort="id")
    await ask("task.list", ids=[1], limit=0)


async def _arrays(ask: Asker) -> None:
    sweep = {"lr": ["0.1", "0.2"]}
    filed = await ask("task.submit_array", command=["echo", "{lr}"], sweep=sweep, cap=1, hold=True)
    await ask("task.edit_array", id=filed["first"], cap=2, max_fails=3)
    await ask("task.list", array=filed["first"])


async def _sizes(ask: Asker, lab: Lab) -> None:
    wide = (await ask("alloc.new", name="wide", gpus=1))["id"]
    await settled(lambda: lab.core.tasks[wide].state is TaskState.RUNNING)
    await ask("alloc.grow", id=wide, gpus=1)
    await ask("alloc.shrink", id=wide, gpus=1)
    await ask("alloc.release", id=wide)


async def _allocations(ask: Asker) -> None:
    exp = await ask("alloc.new", name="exp", gpus=1, time_limit_s=3600.0, request_id="exp")
    await ask("task.submit", command="true", within="exp", hold=True)
    await ask("alloc.list")
    await ask("task.cancel", ids=[exp["id"] + 1])
    await ask("alloc.release", id=exp["id"], wait=True)


async def _run_some(ask: Asker, lab: Lab) -> None:
    await ask("task.start", id=2)
    lab.online()
    await settled(lambda: lab.core.tasks[2].state is not TaskState.WAITING and not lab.core.plan_needed)
    await ask("task.submit", command="true", dry_run=True, gpu_ids=[2, 3])
    await ask("task.show", id=2)
    await ask("task.list")
    await ask("task.pause", id=2)
    await ask("task.resume", id=2)
    await ask("task.cancel", ids=[1, 2, 999])
    await ask("task.cancel", mine=True, name="none", states=["waiting"])
    await ask("task.cancel", mine=True, states=["waiting"])
    await ask("task.list", ended=True, sparse=True)
    await ask("task.retry", id=1)
    await ask("task.cancel", mine=True, states=["starting", "waiting"])
    await ask("task.remove", id=4)
    held = (await ask("task.submit", command="true", hold=True))["id"]
    await ask("task.submit", command="true", after=[{"id": held}])
    await ask("task.remove", id=held, successors=True)
    # One that runs, and that the disk could not keep.
    lab.core.unsaved.add(2)
    await ask("task.list", sparse=True)
    await ask("task.show", id=2)
    lab.core.unsaved.clear()


async def _archived(ask: Asker) -> None:
    await ask("task.archived")
    await ask("task.archived", states=["failed"], sort="id", limit=1)
    await ask("task.show", id=ARCHIVED)
    await ask("task.why", id=ARCHIVED)
    await ask("task.cancel", ids=[ARCHIVED])
    await ask("task.retry", id=BACK)
    await ask("task.remove", id=GONE)


async def _logs(ask: Asker, folder: Path) -> None:
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "logs" / f"of-{BACK}.log").write_bytes(b"one\r\xe4\xbd\xa0\ntwo\rthree")
    (folder / "server.log").write_bytes(b"begun\n")
    await ask("log.read", id=BACK)
    await ask("log.read", id=BACK, collapse=True)
    await ask("log.read", id=2, offset=-10)
    await ask("log.search", id=BACK, pattern="nothing of that")
    await ask("log.read", server=True, limit=3)
    await ask("log.read", server=True, collapse=True)


async def _files(ask: Asker) -> None:
    text = base64.b64encode(b"hello").decode()
    await ask("file.roots")
    await ask("file.write", path="data/a.txt", content=text, mode=0o640)
    await ask("file.make", path="data/sub", kind="folder")
    await ask("file.copy", **{"from": "data/a.txt", "to": "data/sub/b.txt"})
    await ask("file.move", **{"from": "data/a.txt", "to": "data/c.txt"})
    await ask("file.list", path="data")
    await ask("file.list", path="data", limit=1)
    await ask("file.stat", path="data/sub")
    await ask("file.read", path="data/c.txt", offset=1, limit=3)
    begun = (await ask("file.upload_begin", path="data/up", size=5))["upload"]
    ask.hidden[begun] = "UPLOAD"
    await ask("file.upload_piece", path="data/up", upload=begun, offset=0, content=text)
    await ask("file.upload_begin", path="data/up", size=5, upload=begun)
    await ask("file.upload_commit", path="data/up", upload=begun, size=5)
    begun = (await ask("file.upload_begin", path="data/up2", size=5))["upload"]
    ask.hidden[begun] = "ANOTHER"
    await ask("file.upload_cancel", path="data/up2", upload=begun)
    await ask("file.delete", path="data/sub", recursive=True)


async def _envs(ask: Asker, lab: Lab) -> None:
    conda = lab.place.conda
    said: dict[str, Any] = {}

    async def probe(_node: str, _argv: list[str], **_how: Any) -> Probed:
        found = said["list"] if "list" in said else f"{MARK}{json.dumps(said)}\n"
        return Probed(op="probed", probe_id="", code=0, output=found, truncated=False, error="")

    lab.place.fleet.probe = probe  # type: ignore[method-assign,assignment]
    said["list"] = f"{conda}/envs/torch\0{conda}\0"
    await ask("env.list")
    await ask("env.list", node="a")
    said.clear()
    said.update(version="3.11.2", executable=f"{conda}/bin/python", prefix=conda, own=True)
    await ask("env.check", env="base")
    await ask("env.python", env="base", node="a")
    said.clear()
    said.update(installed=True, own=True, version="2.1", cuda="12.1", available=True, gpus=["A100"])
    await ask("env.cuda", env="torch")
    said.clear()
    said.update(installed=False, own=False, error="No module named 'tensorflow'")
    await ask("env.cuda", env="torch", framework="tensorflow")
    said.clear()
    said.update(packages=[["numpy", "1.26", "conda"], ["x", "1", "pip"]], own=True)
    await ask("env.packages", env="torch")
    lab.engine.event(lambda: lab.core.node_state("a", NodeState.CONNECTING, None))
    await ask("env.list")
    lab.online()


async def _nodes(ask: Asker, lab: Lab) -> None:
    node = lab.core.inventory.nodes["a"]
    stranger = Holder(pid=7, user="alice", memory_mib=500)
    report = GpuReport(index=0, memory_total_mib=24576, memory_used_mib=500, utilization=97.0, processes=(stranger,))
    node.kept_back = node.watch.look([report], 1, {}, 0.0).kept_back
    await ask("node.list")
    await ask("node.show", name="a")
    await ask("node.drain", name="a", reason="fan")
    await ask("node.show", name="a")
    await ask("node.resume", name="a")
    await ask("node.drain", name="a", gpus=[7])
    await ask("node.resume", name="a", gpus=[7])
    await ask("node.edit", name="a", changes={"labels": {"room": "二楼"}, "slots": 3})
    await ask("node.edit", name="a", changes={"ip": "10.0.0.2"})
    await ask("node.edit", name="a", changes={"ip": None})
    await ask("node.add", node=SSH)
    await ask("node.show", name=SSH["name"])
    await ask("node.trust", name=SSH["name"])
    await ask("node.trust", name=SSH["name"], fingerprint=SHOWN.fingerprint)
    await ask("node.doctor", names=[SSH["name"]])
    await ask("node.remove", name=SSH["name"])
    await ask("node.add", node={**A, "name": "far", "driver": "report"})
    await ask("node.token", name="far")
    await ask("node.token", name="far", action="rotate")
    await ask("node.token", name="far", action="revoke")
    await ask("node.archive")
    await _unknown_attempts(ask, lab)
    await ask("node.remove", name="a")
    lab.engine.event(lambda: lab.core.node_state("a", NodeState.UNREACHABLE, "gone"))
    await ask("node.lost", name="a")


async def _unknown_attempts(ask: Asker, lab: Lab) -> None:
    known = [Seen(part.launch_id, 2.0) for task in lab.core.active() for part in task.allocation if part.node == "a"]
    told = {"pid": 7, "pid_start": 8, "name": "training", "log": "/logs/900001.log"}
    stray, other = (Seen(f"90000{number}.1.x", 4.0, gpus=gpus, **told) for number, gpus in enumerate(("", None), 1))  # type: ignore[arg-type]
    lab.engine.event(lambda: lab.core.reconcile("a", [*known, stray, other], 5.0))
    await ask("node.attempts", name="a")
    await ask("node.show", name="a")
    await ask("node.adopt", name="a", launch_id=stray.launch_id)
    await ask("node.dismiss_attempt", name="a", launch_id=other.launch_id)
    await ask("node.end_attempt", name="a", launch_id=other.launch_id)
    lab.engine.event(lambda: lab.core.exited("a", Exit(other.launch_id, "killed", 6.0), 6.0))


async def _agents(ask: Asker) -> None:
    await ask("agent.stop")
    await ask("agent.start", nodes=["far"])
    await ask("agent.restart", nodes=["far"])


async def _people(ask: Asker, others: list[Asker], service: str) -> None:
    await ask("auth.whoami")
    await ask("user.add", name="ann", display="安", mail="ann@lab.example", password=PASSWORD)
    await ask("user.add", name="bob", role="viewer", expires_at=OLD_END * 4)
    await ask("user.edit", name="bob", changes={"role": "user", "language": "zh"})
    link = (await ask("user.link", name="bob"))["link"]
    await ask("group.add", name="vision")
    await ask("group.edit", name="vision", add=["ann"], add_mentors=["bob"])
    await ask("group.edit", name="vision", changes={"max_total_gpus": 4})
    await ask("group.list")
    await ask("project.edit", name="crawl", changes={"group": "vision", "max_running": 2})
    await ask("project.list")
    await ask("user.edit", name="ann", changes={"max_gpus_per_task": 2, "max_manual_gpus": 4, "max_total_gpus": None})
    await ask("user.claim", name="desktop", to="bob")
    ann, again, console = others
    ann.hidden[link] = "LINK"
    await ann("auth.redeem", link=link, password=PASSWORD)
    await ann("auth.login", name="ann", password=PASSWORD, label="laptop")
    await ann("auth.whoami")
    made = await ann("token.new", scopes=["read"], label="the wall", expires_at=OLD_END * 4)
    ann.hidden[made["id"]] = "ID"
    await ann("token.list")
    await ann("user.password", password=f"{PASSWORD}!", old=PASSWORD)
    await ann("token.revoke", tokens=[made["id"]])
    kept = (await ann("token.new"))["token"]
    await ann("auth.logout")
    again.hidden[kept] = "TOKEN"
    await again("auth.token", token=kept)
    console.hidden |= {kept: "TOKEN", service: "SERVICE"}
    await console("auth.token", token=service)
    await console("auth.relay", **{"from": "10.0.0.7"})
    await console("auth.token", token=kept)
    await console("auth.session", label="Firefox, Linux")
    await ask("user.disable", name="bob")
    await ask("user.enable", name="bob")
    await ask("user.list")
    await ask("user.remove", name="bob")
    await ask("group.remove", name="vision")


async def _settings(ask: Asker) -> None:
    await ask("setting.list")
    await ask("setting.set", name="scheduler.reserve_after", value=7200)
    await ask("setting.set", name="scheduler.max_tasks_per_gpu", value=None)
    await ask("setting.list", name="scheduler.reserve_after")
    await ask("setting.reset", name="scheduler.reserve_after")


async def _streams(lab: Lab, folder: Path, answers: list[Answer]) -> None:
    tasks, nodes = [Asker(await lab.peer(port), folder, answers) for port in (TASKS, NODES)]
    await tasks("subscribe")
    await tasks("subscribe", ids=[1, 3])
    await tasks("subscribe", snapshot="none")
    await nodes("subscribe")


def as_text(answers: list[Answer]) -> str:
    """One answer a line, for a file that people compare."""
    return "".join(json.dumps(answer.told(), ensure_ascii=False) + "\n" for answer in answers)
