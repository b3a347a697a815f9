"""One run: a lab on the hosts of a testbed, what its people do in it second by second, and what is seen meanwhile."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from client.api import Client, connect
from client.shapes import Node, Task
from tests.hour.plan import MENTOR, OWNERS, Plan, Visitor, Wish
from tests.hour.seen import Card, CardSeen, Ended, Look, Promise, Reserved, Run, Seen, Shown
from tests.system.ssh_lab import SshLab
from tests.testbed.bed import Testbed
from tests.testbed.host import Host
from tests.waiting import NeverError, until
from wire.errors import ConflictError

Say = Callable[[str], None]
CARDS = "/var/tmp/cards"  # noqa: S108  (each host has one of its own)
PROGRAM = Path(__file__).with_name("card.py")
PAUSE_S = 1.0
MINUTE_S = 60.0
GRACE_S = 2.0
RESERVE_AFTER = 1 / 6
"""After such a part of the run a task that waits gets a reservation."""
PATIENCE_S = 600.0
"""So long after its time a run waits for the last tasks."""
FOR_A_RESERVATION = 1 / 15
"""For such a part of the run the kill of a master waits for a moment at which a task has a reservation."""
ALIVE = ["waiting", "held", "starting", "running", "paused"]


def run(folder: Path, plan: Plan, say: Say = lambda _line: None) -> Seen:
    """A whole run; nothing of it is left. Raises NeverError for a lab that does not start or leaves something."""
    with Testbed(plan.hosts) as bed:
        lab = _lab(folder, bed, plan)
        try:
            lab.start_trusted()
            hour = _Hour(lab, plan, say)
            try:
                seen = hour.go()
            finally:
                hour.close()
        finally:
            left = lab.close()
        if left:
            raise NeverError(f"had to be killed: {left}")
        return seen


def _lab(folder: Path, bed: Testbed, plan: Plan) -> SshLab:
    lab = SshLab(folder, bed, gpus=plan.cards, slots=40)
    for host in bed.hosts:
        _plug_in(host, plan.cards)
    lab.write_scheduler(grace_s=GRACE_S, reserve_after=RESERVE_AFTER * plan.length_s)
    cards = {"gpu_probe": "auto", "gpu_info": ["RTX4090"] * plan.cards}
    lab.write_registry([lab.entry(host, **cards) for host in bed.hosts])
    return lab


def _plug_in(host: Host, cards: int) -> None:
    """The host has so many cards, and its agent finds the program that tells of them."""
    folder = host.disk / CARDS.lstrip("/")
    programs = folder / "bin"
    programs.mkdir(parents=True)
    shutil.copy(PROGRAM, folder)
    (folder / "cards").write_text(str(cards), encoding="ascii")
    for path in (folder / "lock", folder / "bin" / "nvidia-smi"):
        path.touch()
    (folder / "bin" / "nvidia-smi").write_text(f'#!/bin/sh\nexec python3 -IS {CARDS}/card.py "$@"\n', encoding="ascii")
    for path, mode in ((folder, 0o777), (folder / "lock", 0o666), (programs / "nvidia-smi", 0o755)):
        path.chmod(mode)
    # What is no library ends the search for NVML, on a machine that has it.
    (programs / "libnvidia-ml.so.1").touch()
    host.set_bashrc(f"export PATH={CARDS}/bin:$PATH LD_LIBRARY_PATH={CARDS}/bin\n")


class _Hour:
    """Everything that happens in it."""

    def __init__(self, lab: SshLab, plan: Plan, say: Say) -> None:
        self._lab = lab
        self._plan = plan
        self._patience_s = FOR_A_RESERVATION * plan.length_s
        self._say = say
        self._filed: dict[int, Wish] = {}
        self._tokens: dict[str, str] = {}
        self._clients: dict[str, Client] = {}
        self._looks: list[Look] = []
        self._promises: dict[int, Promise] = {}
        self._expected: dict[int, float | None] = {}
        self._killed: list[tuple[float, float]] = []

    def go(self) -> Seen:
        """Do it, look, and ask in the end how everything went."""
        self._add_people()
        until("the cards are seen", self._cards_are_seen)
        wishes, visitors, kills = list(self._plan.wishes), list(self._plan.visitors), list(self._plan.kills)
        visitors.sort(key=lambda visitor: visitor.at)
        began = last_said = time.time()
        self._say(f"{len(wishes)} tasks on {len(self._lab.nodes)} hosts, {self._plan.length_s:.0f} s")
        while (passed := time.time() - began) < self._plan.length_s + PATIENCE_S:
            while wishes and wishes[0].at <= passed:
                self._submit(wishes.pop(0))
            while visitors and visitors[0].at <= passed:
                self._let_in(visitors.pop(0))
            if kills and kills[0] <= passed and (self._has_reservation or kills[0] + self._patience_s <= passed):
                kills.pop(0)
                self._kill_master()
            look = self._look()
            if time.time() - last_said > MINUTE_S:
                last_said = time.time()
                self._say(_told(look, len(self._filed)))
            if not (wishes or visitors or kills or look.tasks):
                break
            time.sleep(PAUSE_S)
        return self._tell()

    def close(self) -> None:
        """Hang up."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    # -- what people do ---------------------------------------------------------------------------------------

    def _add_people(self) -> None:
        with self._lab.client() as owner:
            for name in (*OWNERS, MENTOR):
                owner.people.add(name, role="admin" if name == MENTOR else "user")
                self._tokens[name] = owner.people.new_token(name, label="hour")["token"]

    def _client(self, name: str) -> Client:
        if name not in self._clients:
            self._clients[name] = connect(conf=str(self._lab.conf), token=self._tokens[name])
        return self._clients[name]

    def _submit(self, wish: Wish) -> None:
        command = ["python3", "-IS", f"{CARDS}/card.py", *wish.words]
        task = self._client(wish.owner).submit(command, cwd=str(self._lab.root), **wish.spec)
        self._filed[task] = wish
        if wish.kind.forced:
            with suppress(ConflictError):  # it has started by itself
                self._client(MENTOR).start(task)

    def _let_in(self, visitor: Visitor) -> None:
        host = self._lab.bed.hosts[visitor.host]
        words = " ".join([*visitor.words, str(visitor.card)])
        host.run("sh", "-c", f"python3 -IS {CARDS}/card.py {words} </dev/null >/dev/null 2>&1 &", user="alice")

    # -- the master -------------------------------------------------------------------------------------------

    @property
    def _has_reservation(self) -> bool:
        return any(kept.expected_at is not None for kept in self._looks[-1].reserved.values()) if self._looks else False

    def _kill_master(self) -> None:
        self.close()
        killed = time.time()
        self._lab.kill_master()
        self._lab.start()
        self._lab.await_online()
        self._killed.append((killed, time.time()))
        self._say(f"the master was killed, and answered after {time.time() - killed:.1f} s")

    # -- what is seen -----------------------------------------------------------------------------------------

    def _cards_are_seen(self) -> bool:
        cards = [card for node in self._client(MENTOR).nodes() for card in node["gpus"]]
        return bool(cards) and all(card["condition"] == "ok" and card["memory_mib"] for card in cards)

    def _look(self) -> Look:
        client = self._client(MENTOR)
        used = {host.name: declared(host) for host in self._lab.bed.hosts}
        nodes, tasks = client.nodes(), client.tasks(states=ALIVE)
        look = Look(
            time.time(),
            {task["id"]: _shown(task) for task in tasks},
            {node["name"]: _cards(node, tasks, used[node["name"]]) for node in nodes},
            {node["name"]: kept for node in nodes if (kept := _reserved(node)) is not None},
        )
        self._looks.append(look)
        for task in tasks:
            if task["state"] == "running" and task["id"] not in self._expected:
                self._expected[task["id"]] = _expected_end(client, task["id"])
        for node, kept in look.reserved.items():
            if kept.task not in self._promises and kept.expected_at is not None:
                held = {number for gpu in kept.gpus for number in look.cards[node][gpu].held}
                ends = {number: _expected_end(client, number) for number in held}
                cards = [Card(node, gpu) for gpu in kept.gpus]
                self._promises[kept.task] = Promise(kept.task, look.at, kept.expected_at, cards, ends)
        return look

    def _tell(self) -> Seen:
        client = self._client(MENTOR)
        tasks = {number: _ended(client, number, wish) for number, wish in self._filed.items()}
        client.cancel(everything=True)  # what has not ended by now is told as a fault
        promises = list(self._promises.values())
        return Seen(self._looks, tasks, promises, self._expected, self._killed, GRACE_S)


def declared(host: Host) -> list[tuple[int | None, int, int]]:
    """What the living processes of a host declare: task, or None for somebody else's; card; MiB."""
    found: list[tuple[int | None, int, int]] = []
    folder = host.disk / CARDS.lstrip("/")
    for path in folder.iterdir():
        if path.name.isdigit() and host.outside(f"/proc/{path.name}").exists():
            with suppress(FileNotFoundError):  # it ends just now
                task, *lines = path.read_text(encoding="ascii").splitlines()
                pairs = (line.split() for line in lines)
                found += [(int(task) if task else None, int(card), int(mib)) for card, mib in pairs]
    return found


def _cards(node: Node, tasks: list[Task], used: list[tuple[int | None, int, int]]) -> list[CardSeen]:
    found = [CardSeen({}, 0, {}, card["condition"], card["memory_used_mib"]) for card in node["gpus"]]
    for task, card, mib in used:
        if task is None:
            found[card].others += mib
        else:
            found[card].used[task] = found[card].used.get(task, 0) + mib
    for one in tasks:
        for part in one["allocation"] if one["state"] != "waiting" else []:
            for card in part["gpus"] if part["node"] == node["name"] else []:
                found[card].held[one["id"]] = part.get("gpu_mib")
    return found


def _shown(task: Task) -> Shown:
    return Shown(task["state"], task["warning_key"], task["reason_key"], task["learned_gpu_mib"])


def _reserved(node: Node) -> Reserved | None:
    kept = node["reservation"]
    return None if kept is None or not kept["gpus"] else Reserved(kept["task"], kept["gpus"], kept["expected_at"])


def _expected_end(client: Client, number: int) -> float | None:
    """When a task is expected to end: by its like, after that by its limit; None where nobody knows."""
    task = client.show(number)
    if task["ended_at"] is not None:
        return task["ended_at"]
    begun, limit, expected = task["started_at"] or time.time(), task["time_limit_s"], task["expected_s"]
    takes = limit if expected is None else expected["high"]
    if takes is not None and begun + takes < time.time():
        takes = limit
    return None if takes is None else begun + takes


def _ended(client: Client, number: int, wish: Wish) -> Ended:
    task = client.show(number)
    runs = [
        Run(
            one["started_at"],
            one["ended_at"] or time.time(),
            [Card(part["node"], gpu) for part in one["parts"] for gpu in part["gpus"]],
            next((part.get("gpu_mib") for part in one["parts"]), None),
        )
        for one in task["attempts"]
        if one["started_at"] is not None
    ]
    return Ended(
        wish.kind.name,
        wish.owner,
        task["state"],
        task["reason"],
        task["submitted_at"],
        task["gpu_memory_mib"],
        task["share"],
        task["gpus"],
        task["time_limit_s"],
        runs,
        wish.kind.is_greedy,
        wish.kind.urgent or wish.kind.forced,
    )


def _told(look: Look, filed: int) -> str:
    states = [shown.state for shown in look.tasks.values()]
    held = sum(bool(card.held) for _, card in look.each_card())
    counts = f"{states.count('running')} run, {states.count('waiting')} wait"
    return f"{filed} submitted, {counts}, {held} of {len(look.each_card())} cards held"
