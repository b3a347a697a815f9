"""How the costs grow with the tasks that wait, with nodes, users, and clients that are told of everything.

The cost is the master's CPU time, which other programs do not change: of a task from its submit to its acknowledged
end, on nodes whose agents end it at once (`far_agents`), so that nothing but the master's own work is in it.
`bench.charts` makes pictures of what this measures.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import people
from bench.far_lab import FarLab, How
from bench.lab import BenchError, RawConnection, Scale, cpu_seconds, eventually, request, resident_mib
from bench.pushes import pushes
from bench.report import Figure, Target, at_most

TASKS, NODES, USERS, FOLLOWERS = "waiting tasks", "nodes", "users", "clients told of everything"
WAITING = (1_000, 10_000, 100_000, 1_000_000)
MANY_NODES = (10, 100, 1_000, 2_000)
MANY_USERS = (10, 100, 1_000)
MANY_FOLLOWERS = (10, 100, 1_000, 2_000)
FLAT, FLAT_WITHIN = 100_000, 1.2
"""Up to so many waiting tasks a task may cost at most so many times what it does among the fewest."""
BESIDE = 10_000
"""So many wait where something else grows."""
A_ROUND, ROUNDS = 1_000, 10
"""So many tasks are submitted and end, so often."""
SUBMITS, LISTS, PUSHES = 1_000, 200, 20
FEW_NODES, SLOTS, FEW_USERS = 16, 8, 20
WATCH_S, SETTLE_S = 15.0, 12.0
REST_S, RESTS, RESTS_A_NODE = 1.0, 0.02, 0.0005
"""A master rests when it takes no more than this of a core, and this for each node that samples."""
A_TASK_KIB = 3
"""Of memory, ours and the kernel's for files; a million are tried where there is room for them."""
_MS = 1000
_LOOK_S = 0.05


Point = tuple[float, ...]
"""The measurements at one size, a value for each line."""


@dataclass(frozen=True)
class Line:
    """A cost that grows, or does not. `targets`: by size."""

    name: str
    unit: str
    targets: Mapping[int, Target] = field(default_factory=dict)


A_TASK = Line("a task, from submit to acknowledged end", "ms")
A_SUBMIT = Line("a durable submit", "ms")
A_LIST = Line("50 rows of the queue", "ms")
MEMORY = Line("memory of a waiting task", "KiB", {FLAT: at_most(1)})
IDLE = Line("idle, of a core", "%", {100: at_most(1)})
PUSH = Line("a push, to the last client", "ms wall", {1_000: at_most(250)})
PUSH_CPU = Line("a push", "ms")


def measure(workshop: Path, scale: Scale) -> list[Figure]:
    """Each point of each run has a fresh master."""
    return [*_of_tasks(workshop, scale), *_of_nodes(workshop, scale), *_of_users(workshop, scale),
            *_of_followers(workshop, scale)]  # fmt: skip


def _of_tasks(workshop: Path, scale: Scale) -> list[Figure]:
    def point(size: int) -> Point:
        with _lab(workshop, FEW_NODES) as lab:
            return _among(lab, scale, scale.of(size))

    sizes = [size for size in WAITING if size <= FLAT or _has_room(size)]
    runs = _runs(point, sizes, scale)
    figures = list(_figures(TASKS, (A_TASK, A_SUBMIT, A_LIST, MEMORY), sizes, runs, scale))
    within = [place for place, size in enumerate(sizes) if size <= FLAT]
    for column, line in enumerate((A_TASK, A_SUBMIT)):
        worst = tuple(max(run[place][column] for place in within) / run[0][column] for run in runs)
        name = f"{line.name}: most to fewest, up to {FLAT:,}"
        figures.append(Figure(TASKS, name, "×", worst, at_most(FLAT_WITHIN)))
    return figures


def _of_nodes(workshop: Path, scale: Scale) -> list[Figure]:
    def point(size: int) -> Point:
        with _lab(workshop, scale.of(size), samples=True) as lab:
            tokens = people.users(lab, FEW_USERS)
            people.tasks(lab, tokens, scale.of(BESIDE), exclude=["here"])
            return _a_task(lab, scale, tokens), _idle(lab, scale)

    return list(_figures(NODES, (A_TASK, IDLE), MANY_NODES, _runs(point, MANY_NODES, scale), scale))


def _of_users(workshop: Path, scale: Scale) -> list[Figure]:
    def point(size: int) -> Point:
        with _lab(workshop, FEW_NODES) as lab:
            tokens = people.users(lab, scale.of(size))
            people.tasks(lab, tokens, scale.of(BESIDE), exclude=["here"])
            # Only some users submit here: with all of them, a connection for each task would be measured instead.
            return _a_task(lab, scale, tokens[:FEW_USERS]), _a_submit(lab, scale)

    return list(_figures(USERS, (A_TASK, A_SUBMIT), MANY_USERS, _runs(point, MANY_USERS, scale), scale))


def _of_followers(workshop: Path, scale: Scale) -> list[Figure]:
    def point(size: int) -> Point:
        with _lab(workshop, 1) as lab:
            tokens = people.users(lab, FEW_USERS)
            people.tasks(lab, tokens, scale.of(BESIDE), hold=True)
            return _pushed(lab, tokens, scale.of(size))

    return list(_figures(FOLLOWERS, (PUSH, PUSH_CPU), MANY_FOLLOWERS, _runs(point, MANY_FOLLOWERS, scale), scale))


def _runs(point: Callable[[int], Point], sizes: Iterable[int], scale: Scale) -> list[list[Point]]:
    return [[point(size) for size in sizes] for _ in range(scale.runs)]


def _figures(
    subject: str, lines: tuple[Line, ...], sizes: Iterable[int], runs: list[list[Point]], scale: Scale
) -> Iterator[Figure]:
    """`sizes`: the full ones, as goals have them."""
    for column, line in enumerate(lines):
        for place, size in enumerate(sizes):
            values = tuple(run[place][column] for run in runs)
            yield Figure(subject, line.name, line.unit, values, line.targets.get(size), scale.of(size))


def _has_room(size: int) -> bool:
    available = Path("/proc/meminfo").read_text(encoding="ascii").partition("MemAvailable:")[2].split()[0]
    return int(available) > size * A_TASK_KIB


@contextmanager
def _lab(workshop: Path, nodes: int, *, samples: bool = False) -> Iterator[FarLab]:
    """One whose nodes are online, and take nothing yet."""
    with FarLab(workshop, nodes, How(samples=samples, slots=SLOTS)) as lab, lab.agents():
        _let(lab, "drain")
        yield lab


def _let(lab: FarLab, what: str) -> None:
    """Drain all far nodes, or resume them."""
    frames = b"".join(request(number, f"node.{what}", {"name": name}) for number, name in enumerate(lab.names))
    with RawConnection(lab.data_port) as connection:
        if b'"error"' in b"".join(connection.exchange(frames, len(lab.names))):
            raise BenchError(f"not all nodes could be told to {what}")


def _among(lab: FarLab, scale: Scale, waiting: int) -> Point:
    """Of so many tasks: ms of a CPU for one that runs, for one more, and for a look at the first; KiB of each."""
    tokens = people.users(lab, FEW_USERS)
    empty = resident_mib(lab.pid)
    people.tasks(lab, tokens, waiting, exclude=["here"])
    _rest(lab)
    each = (resident_mib(lab.pid) - empty) * 1024 / waiting
    return _a_task(lab, scale, tokens), _a_submit(lab, scale), _a_list(lab), each


def _a_task(lab: FarLab, scale: Scale, tokens: list[str]) -> float:
    """Milliseconds of the master's CPU for one task, while those that are there wait, and up to two rounds more: of the
    round in the middle, so that neither what is written anew now and then, nor what else the machine did, is in it."""
    each = scale.of(A_ROUND)
    people.tasks(lab, tokens, each, exclude=["here"])
    _rest(lab)
    with lab.client() as client:

        def ended() -> int:
            return lab.far.seen().acknowledged

        def round_() -> float:
            used, before = cpu_seconds([lab.pid]), ended()
            people.tasks(lab, tokens, each, exclude=["here"])
            eventually(lambda: ended() >= before + each, "the end of the tasks", _LOOK_S)
            return (cpu_seconds([lab.pid]) - used) / (ended() - before)

        _let(lab, "resume")
        spent = statistics.median(round_() for _ in range(ROUNDS))
        _let(lab, "drain")
        eventually(lambda: client.info()["tasks"]["running"] == 0, "the end of the last", _LOOK_S)
    return spent * _MS


def _rest(lab: FarLab) -> None:
    """Wait until the master has done what follows on so many submits: what it writes anew, what it looks through."""

    def is_idle() -> bool:
        used = cpu_seconds([lab.pid])
        time.sleep(REST_S)
        return cpu_seconds([lab.pid]) - used <= REST_S * (RESTS + RESTS_A_NODE * len(lab.names))

    eventually(is_idle, "a master that rests")


def _a_submit(lab: FarLab, scale: Scale) -> float:
    count = scale.of(SUBMITS)
    frames = [request(number, "task.submit", {"command": "true", "hold": True}) for number in range(count)]
    return _spent(lab, frames)


def _a_list(lab: FarLab) -> float:
    return _spent(lab, [request(number, "task.list", {"limit": 50, "sparse": True}) for number in range(LISTS)])


def _spent(lab: FarLab, frames: list[bytes]) -> float:
    """Milliseconds of the master's CPU for each of these requests, one after the other; the first is not counted, which
    may sort what no other has to."""
    with RawConnection(lab.data_port) as connection:
        connection.exchange(frames[0])
        used = cpu_seconds([lab.pid])
        for frame in frames[1:]:
            connection.exchange(frame)
    return (cpu_seconds([lab.pid]) - used) * _MS / (len(frames) - 1)


def _idle(lab: FarLab, scale: Scale) -> float:
    """Percent of a core that the master takes while nothing happens but samples."""
    seconds = WATCH_S * max(scale.share, 0.2)
    time.sleep(SETTLE_S * scale.share)
    used = cpu_seconds([lab.pid])
    time.sleep(seconds)
    return 100 * (cpu_seconds([lab.pid]) - used) / seconds


def _pushed(lab: FarLab, tokens: list[str], followers: int) -> tuple[float, float]:
    """Milliseconds until the last of so many followers has heard of a submit; and of the master's CPU for it."""
    everything = [tokens[number % len(tokens)] for number in range(followers)]
    with people.clients(lab, everything=everything) as crowd:
        pushes(lab, crowd, range(1), followers)
        used = cpu_seconds([lab.pid])
        took = statistics.median(pushes(lab, crowd, range(1, 1 + PUSHES), followers))
        return took, (cpu_seconds([lab.pid]) - used) * _MS / PUSHES
