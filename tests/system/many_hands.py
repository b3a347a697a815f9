"""People who do everything at once with the tasks of a small lab, in no order that makes sense, while master and agents
are killed among them; and somebody who looks at what the queue says meanwhile. What each of them asks may be refused.
It may not be answered with a defect, nor may more be held at any moment than there is, nor anything stay at the end."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from client.api import Client
from tests.system import books
from tests.system.lab import Lab
from tests.system.ledger import ACTIVE
from tests.waiting import NeverError, until
from wire.errors import MusterError

ALIVE = ["waiting", "held", *sorted(ACTIVE)]
CARD_MIB = 10_000
REST_S = 180.0
"""So long it may take until all has ended that nothing holds back."""
ENOUGH = Counter({"submit": 6, "looks": 21})
"""What must have been done at least."""
NODES, GPUS = 3, 2
SOLVERS = 2
TASK = """echo x >> {marks}/ckpt-$MUSTER_TASK_ID
for gpu in ${{CUDA_VISIBLE_DEVICES//,/ }}; do
  [ -z "$XLA_PYTHON_CLIENT_PREALLOCATE" ] || continue
  exec {{fd}}>"{marks}/$MUSTER_NODE-$gpu"
  flock -n $fd || echo "$MUSTER_LAUNCH_ID on $MUSTER_NODE, GPU $gpu" >> {marks}/conflicts
done
sleep {nap}; exit {code}"""
"""Whoever has a GPU to himself locks it; who shares has a variable that says so."""
KINDS: tuple[dict[str, Any], ...] = (
    {"gpus": 1}, {"gpus": 2}, {"gpus": 1, "gpus_max": 2}, {"gpus": 1, "nodes": 2}, {"gpus": 2, "nodes": 3},
    {"gpus": 1, "share": True, "gpu_memory_mib": 3000}, {"gpus": 1, "share": True, "gpu_memory_mib": 6000},
    {"gpus": 2, "share": True, "gpu_memory_mib": 4000}, {"gpus": 1, "nodes": 2, "share": True, "gpu_memory_mib": 5000},
    {"gpus": 1, "licences": {"solver": 1}}, {"gpus": 0, "licences": {"solver": 2}}, {"gpus": 1, "exclude": ["node0"]},
    {"gpus": 1, "node_list": ["node1", "node2"]}, {"gpus_on": {"node2": [1], "node0": [0]}},
    {"gpu_ids": [1], "node": "node1"}, {"gpus": 0}, {"gpus": 1, "gpus_max": 2, "elastic": True},
    {"gpus": 1, "project": "narrow"}, {"gpus": 2, "project": "narrow"},
)  # fmt: skip
MORE: tuple[dict[str, Any], ...] = (
    {}, {}, {}, {"max_retries": 1}, {"time_limit_s": 0.5},
    {"time_limit_s": 0.4, "on_timeout": "requeue", "max_retries": 2}, {"priority": 1}, {"urgent": True}, {"hold": True},
)  # fmt: skip


class ManyHandsLab(Lab):
    """Three nodes of this machine with two GPUs each, whose memory the registry tells, and a lab's licences."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, nodes=NODES, gpus=GPUS)
        self.marks = folder / "marks"
        self.marks.mkdir()
        rules = {"grace_s": 0.5, "retry_after_s": 0.2, "resize_after": 1.0, "reserve_after": 1.0}
        self.write_conf(licences={"solver": SOLVERS}, scheduler=rules)
        entry = {"ip": "127.0.0.1", "driver": "local", "gpu_probe": "declared", "gpu_count": GPUS, "slots": 3}
        self.write_registry([{"name": name, **entry, "gpu_memory": [CARD_MIB] * GPUS} for name in self.nodes])


class Hand(threading.Thread):
    """Somebody who does something every moment until he is told to stop. `defects`: what was answered with one;
    `done`: how often what was done, and was not refused."""

    def __init__(self, lab: ManyHandsLab, seed: str, stopped: threading.Event) -> None:
        super().__init__(name=f"hand {seed}", daemon=True)
        self.defects: list[str] = []
        self.done: Counter[str] = Counter()
        self._lab = lab
        self._chance = random.Random(seed)
        self._stopped = stopped

    def run(self) -> None:
        """Do it."""
        client: Client | None = None
        while not self._stopped.wait(self._chance.uniform(0.0, 0.05)):
            what = self._chance.choice(WHAT)
            try:
                client = client or self._lab.client()
                client.session.patience = 0.0
                what(self, client)
                self.done[what.__name__] += 1
            except MusterError as error:
                if error.code == "internal" or (error.code == "bad_request" and what is not Hand.edit):
                    self.defects.append(f"{what.__name__}: {type(error).__name__} {error}")
                if error.code in ("unreachable", "protocol"):
                    _closed(client)
                    client = None
            except Exception as error:  # noqa: BLE001  (whatever it is, it is told, and the others go on)
                self.defects.append(f"{what.__name__}: {type(error).__name__} {error}")
                _closed(client)
                client = None
        _closed(client)

    # -- what one may do --------------------------------------------------------------------------------------

    def _wish(self) -> tuple[str, dict[str, Any]]:
        chance = self._chance
        spec = {**chance.choice(KINDS), **chance.choice(MORE)}
        if spec.get("elastic"):
            spec = {**{key: value for key, value in spec.items() if key != "time_limit_s"}, "on_timeout": "fail"}
            spec |= {"checkpoint": f"{self._lab.marks}/ckpt-*"}
        nap, code = round(chance.choice((0.0, 0.1, 0.3, 1.0, 2.5)), 2), chance.choice((0, 0, 0, 1))
        return TASK.format(marks=self._lab.marks, nap=nap, code=code), spec

    def _some(self, client: Client, *states: str) -> int:
        tasks = client.tasks(states=list(states or ("waiting", "held", *ACTIVE)))
        return int(self._chance.choice(tasks)["id"]) if tasks else 1

    def submit(self, client: Client) -> None:
        if client.list_tasks(states=["waiting"], limit=1)[1] < 25:
            command, spec = self._wish()
            client.submit(command, **spec)

    def array(self, client: Client) -> None:
        if client.list_tasks(states=["waiting"], limit=1)[1] < 25:
            command, spec = self._wish()
            client.submit_array(command, "0-4", cap=self._chance.choice((None, 1, 2)), max_fails=2, **spec)

    def after(self, client: Client) -> None:
        command, spec = self._wish()
        client.submit(command, after=[{"id": self._some(client), "on": self._chance.choice(("any", "ok"))}], **spec)

    def allocate(self, client: Client) -> None:
        name = self._chance.choice("xy")
        client.allocations.new(name, gpus=1, **self._chance.choice(({}, {"nodes": 2}, {"time_limit_s": 1.0})))

    def size(self, client: Client) -> None:
        held = client.allocations.list()
        if held:
            one = self._chance.choice(held)["id"]
            what = (client.allocations.grow, client.allocations.shrink)[self._chance.randrange(2)]
            what(one, 1)

    def give_up(self, client: Client) -> None:
        held = client.allocations.list()
        if held:
            client.allocations.release(self._chance.choice(held)["id"], wait=self._chance.random() < 0.5)

    def within(self, client: Client) -> None:
        held = client.allocations.list()
        if held:
            command, spec = self._wish()
            client.submit(command, **spec, within=self._chance.choice(held)["id"])

    def pause(self, client: Client) -> None:
        client.pause(self._some(client, *ACTIVE))

    def resume(self, client: Client) -> None:
        client.resume(self._some(client, *ACTIVE))

    def cancel(self, client: Client) -> None:
        client.cancel([self._some(client)])

    def hold(self, client: Client) -> None:
        client.hold(self._some(client, "waiting"))

    def release(self, client: Client) -> None:
        client.release(self._some(client, "held"))

    def force(self, client: Client) -> None:
        client.start(self._some(client, "waiting", "held"))

    def move(self, client: Client) -> None:
        client.move(self._some(client, "waiting", "held"), self._chance.randint(1, 5))

    def edit(self, client: Client) -> None:
        _, spec = self._wish()
        wanted = {key: value for key, value in spec.items() if key not in ("hold", "elastic", "checkpoint")}
        client.edit(self._some(client, "waiting", "held"), **wanted)

    def cap(self, client: Client) -> None:
        tasks = [task for task in client.tasks(states=["waiting", *ACTIVE]) if task["array"]]
        if tasks:
            client.edit_array(tasks[0]["array"]["id"], cap=self._chance.choice((None, 1, 3)))  # type: ignore[index]

    def retry(self, client: Client) -> None:
        ended = [task for task in client.tasks(ended=True, active=False) if not task["is_allocation"]]
        if ended:
            client.retry(int(self._chance.choice(ended)["id"]))

    def remove(self, client: Client) -> None:
        client.remove(self._some(client, "waiting", "held"), successors=self._chance.random() < 0.5)

    def quota(self, client: Client) -> None:
        bounds = self._chance.choice(({"max_total_gpus": 1}, {"max_running": 1}, {"max_total_gpus": 3}, {}))
        none = dict.fromkeys(("max_total_gpus", "max_running", "max_gpus_per_task"))
        client.people.edit_project("narrow", **{**none, **bounds})

    def set(self, client: Client) -> None:
        name, values = self._chance.choice(
            (("scheduler.max_running", (None, 3)), ("scheduler.max_tasks_per_gpu", (None, 1, 2)),
             ("scheduler.reservations", (0, 1, 4)), ("scheduler.keep_gpu_memory", (0.0, 0.2)))
        )  # fmt: skip
        client.settings.set(name, self._chance.choice(values))

    def drain(self, client: Client) -> None:
        node = self._chance.choice(self._lab.nodes)
        client.call("node.drain", {"name": node, "reason": "to look"})
        client.call("node.resume", {"name": node})

    def look(self, client: Client) -> None:
        number = self._some(client)
        client.why(number)
        client.show(number)


def _closed(client: Client | None) -> None:
    if client is not None:
        with suppress(MusterError, OSError):
            client.close()


WHAT: tuple[Callable[[Hand, Client], None], ...] = (
    Hand.submit, Hand.submit, Hand.submit, Hand.submit, Hand.array, Hand.after, Hand.allocate, Hand.size, Hand.give_up,
    Hand.within, Hand.within, Hand.pause, Hand.pause, Hand.resume, Hand.resume, Hand.cancel, Hand.cancel, Hand.hold,
    Hand.release, Hand.release, Hand.force, Hand.move, Hand.edit, Hand.edit, Hand.cap, Hand.retry, Hand.remove,
    Hand.quota, Hand.set, Hand.drain, Hand.look,
)  # fmt: skip


def wrong(tasks: list[Any]) -> list[str]:
    """What cannot be of what is alive at one moment."""
    found, whole, solvers = [], {task["id"]: task for task in tasks}, 0
    holders: dict[tuple[str, int], dict[int, int | None]] = {}
    inside: dict[tuple[str, int], dict[int, int | None]] = {}
    for task in tasks:
        number, nodes = task["id"], [part["node"] for part in task["allocation"]]
        if len(set(nodes)) != task["nodes"] or len(nodes) != task["nodes"]:
            found.append(f"task {number} is on {nodes}, and asked for {task['nodes']} nodes")
        if set(nodes) & set(task["exclude"]):
            found.append(f"task {number} is on {nodes}, of which it excluded some")
        solvers += task["licences"].get("solver", 0)
        for part in task["allocation"]:
            if part.get("is_free"):
                continue
            place = holders if task["within"] is None else inside
            for gpu in part["gpus"]:
                place.setdefault((part["node"], gpu), {})[number] = part.get("gpu_mib")
            if task["within"] is not None:
                found += _beyond(task, part, whole.get(task["within"]))
    for place in (holders, inside):
        found += [f"GPU {gpu} is held as {held}" for gpu, held in place.items() if not _fits(held)]
    return found + ([f"{solvers} licences are in use of {SOLVERS}"] if solvers > SOLVERS else [])


def _beyond(task: Any, part: Any, allocation: Any) -> list[str]:
    if allocation is None:
        return [f"task {task['id']} runs within allocation {task['within']}, which is over"]
    has = {gpu for one in allocation["allocation"] if one["node"] == part["node"] for gpu in one["gpus"]}
    return [f"task {task['id']} has {part['gpus']} of {has}"] if set(part["gpus"]) - has else []


def _fits(held: dict[int, int | None]) -> bool:
    if None in held.values():
        return len(held) == 1
    return sum(mib or 0 for mib in held.values()) <= CARD_MIB


class Looker(threading.Thread):
    """Looks as often as it can."""

    def __init__(self, lab: Lab, stopped: threading.Event) -> None:
        super().__init__(name="looker", daemon=True)
        self.problems: list[str] = []
        self.looks = 0
        self._lab = lab
        self._stopped = stopped

    def run(self) -> None:
        """Look, until it is told to stop."""
        client: Client | None = None
        while not self._stopped.wait(0.03):
            try:
                client = client or self._lab.client()
                client.session.patience = 0.0
                self.problems += wrong(client.tasks(states=sorted(ACTIVE)))[:5]
                self.looks += 1
            except MusterError:
                _closed(client)
                client = None
        _closed(client)


def run(folder: Path, seed: int, seconds: float, *, hands: int = 4, kills: int = 3) -> tuple[list[str], Counter[str]]:
    """Everybody at once, for so long; what was wrong, and what was done how often."""
    lab, stopped, chance = ManyHandsLab(folder), threading.Event(), random.Random(seed)
    people = [Hand(lab, f"{seed}/{number}", stopped) for number in range(hands)]
    looker = Looker(lab, stopped)
    problems: list[str] = []
    try:
        lab.start()
        with lab.client() as client:
            client.people.edit_project("narrow", max_total_gpus=2)
            until("the nodes are there", lambda: [node["state"] for node in client.nodes()] == ["online"] * NODES)
        for thread in (*people, looker):
            thread.start()
        for at in range(kills):
            stopped.wait(seconds / (kills + 1))
            if at % 2:
                lab.kill_agent(chance.choice(lab.nodes))
            else:
                lab.kill_master()
                problems += books.audit_crashed(lab)
                lab.start()
        stopped.wait(seconds / (kills + 1))
        with suppress(NeverError):  # on a busy machine it takes longer until it was a test
            until("enough was done", lambda: _done(people, looker) >= ENOUGH)
        stopped.set()
        for thread in (*people, looker):
            thread.join(30)
        problems += [told for hand in people for told in hand.defects] + looker.problems + _comes_to_rest(lab, chance)
        conflicts = lab.marks / "conflicts"
        problems += conflicts.read_text().splitlines() if conflicts.exists() else []
        lab.stop_master()
        problems += books.audit_crashed(lab)
    finally:
        stopped.set()
        left = lab.close()
    problems += [f"left: {process}" for process in left]
    return problems, _done(people, looker)


def _done(people: list[Hand], looker: Looker) -> Counter[str]:
    return sum((hand.done.copy() for hand in people), Counter({"looks": looker.looks}))


def _comes_to_rest(lab: Lab, chance: random.Random) -> list[str]:
    """Whatever held somebody back is taken away, some are cancelled, and all must end."""
    with lab.client() as client:
        for name in ("max_running", "max_tasks_per_gpu"):
            client.settings.set(f"scheduler.{name}", None)
        client.settings.set("scheduler.keep_gpu_memory", 0.0)
        client.people.edit_project("narrow", max_total_gpus=None, max_running=None)
        for node in client.nodes():
            if node["state"] == "draining":
                client.call("node.resume", {"name": node["name"]})
        for task in client.tasks(states=ALIVE):
            with suppress(MusterError):
                if task["is_allocation"] or chance.random() < 0.3:
                    client.cancel([task["id"]])
                elif task["state"] == "held":
                    client.release(task["id"])
                else:
                    client.resume(task["id"])
        with suppress(NeverError):
            until("all has ended", lambda: not _let_go(client), REST_S)
        if left := client.tasks(states=ALIVE):
            return [f"task {task['id']} ({task['state']}): {task['reason'] or task['warning']}" for task in left]
        held = [(node["name"], gpu["index"]) for node in client.nodes() for gpu in node["gpus"] if gpu["held_by"]]
        return [f"GPU {place} is held, and nothing lives" for place in held]


def _let_go(client: Client) -> list[Any]:
    """What is left; who stands still or is held goes on."""
    left = client.tasks(states=ALIVE)
    for task in left:
        with suppress(MusterError):
            if task["state"] == "paused" or task["pause_asked"]:
                client.resume(task["id"])
            elif task["state"] == "held":
                client.release(task["id"])
    return left
