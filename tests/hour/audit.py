"""What must hold of an hour, by what was seen: a list of sentences for each rule, empty when all is well. Pure.

It knows the rules as people are told them (docs/asking-for-gpus.md), and nothing of the planner.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from tests.hour.seen import CARD_MIB, Card, CardSeen, Look, Promise, Run, Seen

OVER_MIB = 64
"""So much more than its share counts as more."""
RAMP_S = 60.0
"""So long the largest use counts that was seen of a task, from its start on."""
SETTLED_S = 30.0
"""What has been so for that long, samples have shown and a plan has heeded, also on a machine that has much to do."""
SAMPLE_S = 16.0
"""So old may be what a node last told of its cards, of which nvidia-smi is asked every 5 to 15 s."""
START_S = 8.0
"""So long the launch of a task may take, and the end of the one before it."""
LOOK_S = 3.0
"""What happened between two looks is seen by so much later."""
MOMENT_S = 1.0
ENDS = {"succeeded", "failed"}


def over_committed(seen: Seen) -> list[str]:
    """No card is given out twice: by the attempts, as they began and ended, and by what each look showed."""
    problems = []
    for card, held in _holders(seen).items():
        for _task, run in held:
            beside = [one for _, one in held if one.started_at <= run.started_at < one.ended_at]
            problems += _too_much(card, [one.mib for one in beside], run.started_at)
    for look in seen.looks:
        for card, shown in look.each_card():
            problems += _too_much(card, list(shown.held.values()), look.at)
    return problems


def _too_much(card: Card, granted: list[int | None], at: float) -> list[str]:
    if None in granted and len(granted) > 1:
        return [f"{_name(card)}: one of {len(granted)} has it as a whole at {at:.1f}"]
    total = sum(mib or 0 for mib in granted)
    return [f"{_name(card)}: {total} MiB are granted at {at:.1f}"] if total > CARD_MIB else []


class Room:
    """What was left of each card at each look, with the largest use that was seen lately; less than 0 where somebody
    used too much of it."""

    def __init__(self, looks: list[Look]) -> None:
        self.looks = looks
        self._at = [look.at for look in looks]
        self._left: dict[int, dict[Card, int]] = {}

    def between(self, begin: float, end: float) -> range:
        """The numbers of the looks of a time."""
        return range(bisect_left(self._at, begin), bisect_right(self._at, end))

    def open_with(self, at: int, mib: int, but: int) -> set[Card]:
        """The cards on which others share, that are closed by nothing, and have so much left, at a look."""
        look, left = self.looks[at], self.left(at)
        return {
            card
            for card, shown in look.each_card()
            if shown.is_shared
            and but not in shown.held
            and shown.condition == "ok"
            and look.kept(card) is None
            and left[card] >= mib + OVER_MIB
        }

    def left(self, at: int) -> dict[Card, int]:
        """MiB of each card."""
        if at not in self._left:
            look = self.looks[at]
            lately = [self.looks[number] for number in self.between(look.at - RAMP_S - SETTLED_S, look.at)]
            self._left[at] = {card: _left(card, shown, lately) for card, shown in look.each_card()}
        return self._left[at]


def _left(card: Card, shown: CardSeen, lately: list[Look]) -> int:
    booked = 0
    for number, mib in shown.held.items():
        used = max(_seen(look, card).used.get(number, 0) for look in lately)
        if used > (mib or 0) + OVER_MIB:
            return -1
        booked += max(mib or 0, used)
    return CARD_MIB - booked - max(_of_others(_seen(look, card)) for look in lately)


def _seen(look: Look, card: Card) -> CardSeen:
    return look.cards[card.node][card.gpu]


def _of_others(shown: CardSeen) -> int:
    """What is used by nobody who holds the card."""
    return shown.others + sum(mib for number, mib in shown.used.items() if number not in shown.held)


def alone(seen: Seen) -> list[str]:
    """No task that shares has begun on a card of its own while another one, on which others share, had room for it."""
    problems = []
    room, holders = Room(seen.looks), _holders(seen)
    for number, task in sorted(seen.tasks.items()):
        for run in task.runs if task.shares and task.gpus == 1 else []:
            at = run.started_at
            beside = (one for other, one in holders[run.cards[0]] if other != number)
            if run.mib is None or any(one.started_at <= at < one.ended_at for one in beside):
                continue
            rooms = [room.open_with(look, run.mib, number) for look in room.between(at - SAMPLE_S, at + START_S / 2)]
            could = set.intersection(*rooms) - set(run.cards) if rooms else set()
            if could:
                where = f"{_name(run.cards[0])}, and {_name(min(could))} had room"
                problems.append(f"task {number} ({task.kind}) began alone on {where}")
    return problems


def idle(seen: Seen) -> list[str]:
    """No task waits for long while a card is open that it fits on, by itself or beside others."""
    room = Room(seen.looks)
    since: dict[tuple[int, Card], float] = {}
    problems = {}
    for at, look in enumerate(seen.looks):
        free = _free(look)
        now = {
            (number, card)
            for number, mib in _waiting(look, seen)
            for card in (free if mib is None else free | room.open_with(at, mib, number))
        }
        since = {key: since.get(key, look.at) for key in now}
        for (number, card), begun in since.items():
            if look.at - begun > SETTLED_S:
                kind = seen.tasks[number].kind
                problems[number] = f"task {number} ({kind}) waited {look.at - begun:.0f} s beside {_name(card)}"
    return list(problems.values())


def _waiting(look: Look, seen: Seen) -> Iterator[tuple[int, int | None]]:
    """Tasks with one GPU that wait, and how much they want of it; None: all."""
    for number, shown in look.tasks.items():
        task = seen.tasks[number]
        if shown.state == "waiting" and task.gpus == 1:
            yield number, (task.asked_mib or shown.learned_mib) if task.shares else None


def _free(look: Look) -> set[Card]:
    """The cards that nobody uses, holds, or is to get."""
    return {
        card
        for card, shown in look.each_card()
        if not (shown.held or shown.used or shown.others or look.kept(card)) and shown.condition == "ok"
    }


class Overshoot(NamedTuple):
    """A task used more of a card than it was granted, from the first look to the last one that showed it. `told_at`:
    when its owner was first shown so."""

    task: int
    card: Card
    begun: float
    over: float
    told_at: float | None


def overshoots(seen: Seen) -> list[Overshoot]:
    """All of them, in their order."""
    found: dict[tuple[int, Card], Overshoot] = {}
    for look in seen.looks:
        for card, shown in look.each_card():
            for number, mib in shown.held.items():
                if mib is not None and shown.used.get(number, 0) > mib + OVER_MIB:
                    task = look.tasks.get(number)
                    is_told = task is not None and task.warning == "share_outgrown"
                    before = found.get((number, card), Overshoot(number, card, look.at, look.at, None))
                    told_at = look.at if is_told and before.told_at is None else before.told_at
                    found[number, card] = before._replace(over=look.at, told_at=told_at)
    return sorted(found.values(), key=lambda one: one.begun)


def closed(seen: Seen) -> list[str]:
    """A task that uses more than it was granted closes its card to new ones as soon as that is seen, and is told."""
    problems = []
    holders = _holders(seen)
    for one in overshoots(seen):
        what = f"task {one.task} overshot on {_name(one.card)}"
        if one.told_at is None and one.over - one.begun > SETTLED_S:
            problems.append(f"{what} for {one.over - one.begun:.0f} s, and its owner was not told")
        since = one.begun + SETTLED_S if one.told_at is None else one.told_at
        late = [number for number, run in holders.get(one.card, []) if since < run.started_at < one.over]
        problems += [f"{what}, and task {number} was started there" for number in late]
    return problems


def late_starts(seen: Seen) -> list[str]:
    """What has a reservation starts at or before the time that was told first, if those who were on its cards, or came
    onto them meanwhile, ran no longer than was expected of them."""
    problems = []
    for one in seen.promises:
        started = seen.tasks[one.task].started_at
        if started is None:
            problems.append(f"task {one.task} was to start by {one.expected_at:.1f} and never did")
        elif started > one.expected_at + START_S + seen.grace_s and not overran(seen, one):
            late = f"{started - one.expected_at:.1f} s after the time that was told"
            problems.append(f"task {one.task} ({seen.tasks[one.task].kind}) started {late}")
    return problems


def overran(seen: Seen, promise: Promise) -> list[int]:
    """Who was on its cards for longer than was expected, or got its place, since it goes before it."""
    reserved = seen.tasks[promise.task]
    started = reserved.started_at or promise.expected_at
    found = set() if reserved.goes_first else _kept_for_first(seen, promise, started)
    for number, task in seen.tasks.items():
        for run in task.runs if number != promise.task else []:
            is_on = set(promise.cards) & set(run.cards) and run.started_at < started and run.ended_at > promise.told_at
            end = promise.ends.get(number, seen.expected.get(number))
            if is_on and (end is None or run.ended_at > end + MOMENT_S):
                found.add(number)
    return sorted(found)


def _kept_for_first(seen: Seen, promise: Promise, until: float) -> set[int]:
    """Urgent and forced tasks for which some of its cards were kept meanwhile."""
    looks = (look for look in seen.looks if promise.told_at <= look.at <= until)
    kept = {one.task for look in looks for card in promise.cards if (one := look.kept(card)) is not None}
    return {number for number in kept if seen.tasks[number].goes_first}


def passed(seen: Seen) -> list[str]:
    """What begins on a reserved card is expected to end before that is."""
    problems = []
    for one in seen.promises:
        for number, task in seen.tasks.items():
            for run in task.runs if number != one.task else []:
                begins = one.told_at + START_S < run.started_at < (seen.tasks[one.task].started_at or run.ended_at)
                told = _told(seen, one, run) if begins else None
                end = seen.expected.get(number)
                if told is not None and (end is None or end > told + START_S):
                    problems.append(
                        f"task {number} ({task.kind}) passed task {one.task}, and was to end after its start"
                    )
    return problems


def _told(seen: Seen, promise: Promise, run: Run) -> float | None:
    """Until when its cards were kept for that task about when it began; None where they were not, or it does not
    matter."""
    looks = [look for look in seen.looks if abs(look.at - run.started_at) <= START_S / 2]
    kept = [one for look in looks for card in run.cards if (one := look.kept(card)) is not None]
    if not looks or len(kept) < len(looks) or any(one.task != promise.task for one in kept):
        return None
    return max(one.expected_at or 0.0 for one in kept)


def forgotten(seen: Seen) -> list[str]:
    """A reservation outlives a killed master, unless somebody computes on one of its cards who was not given it: that
    closes the card, and is seen with the next sample, also with the first one of a new master."""
    problems = []
    for killed, answered in seen.killed:
        before = next((look for look in reversed(seen.looks) if look.at <= killed), None)
        after = next((look for look in seen.looks if look.at >= answered), None)
        if before is None or after is None:
            continue
        for node, kept in before.reserved.items():
            waits = kept.task in after.tasks and after.tasks[kept.task].state == "waiting"
            is_closed = any(after.cards[node][gpu].condition == "busy" for gpu in kept.gpus)
            if waits and not is_closed and kept.task not in {one.task for one in after.reserved.values()}:
                problems.append(f"the reservation of task {kept.task} was lost with the master")
    return problems


def ends(seen: Seen) -> list[str]:
    """All have ended, once, by themselves; and out of memory only where somebody used more than was granted."""
    over = overshoots(seen)
    problems = []
    for number, task in sorted(seen.tasks.items()):
        if task.state not in ENDS or len(task.runs) != 1:
            problems.append(
                f"task {number} ({task.kind}) is {task.state} after {len(task.runs)} attempts: {task.reason}"
            )
        elif task.state == "failed" and not task.is_greedy and not _is_excused(task.runs[0], over, seen):
            problems.append(f"task {number} ({task.kind}) failed, and nobody overshot beside it: {task.reason}")
    return problems


def _is_excused(run: Run, over: list[Overshoot], seen: Seen) -> bool:
    """Did somebody, itself or others, use more of its card than was granted, or something that nobody had granted?"""
    if not run.cards:
        return True  # it used a GPU that it had not asked for
    beside = any(
        one.card in run.cards and one.begun <= run.ended_at + LOOK_S and one.over >= run.started_at for one in over
    )
    looks = (look for look in seen.looks if run.started_at - SETTLED_S <= look.at <= run.ended_at)
    return beside or any(_of_others(_seen(look, card)) for look in looks for card in run.cards)


def silent(seen: Seen) -> list[str]:
    """What waits for longer than a moment is told why."""
    problems = {}
    for look in seen.looks:
        for number, shown in look.tasks.items():
            waited = look.at - seen.tasks[number].submitted_at
            if shown.state == "waiting" and shown.reason is None and waited > SETTLED_S:
                problems[number] = f"task {number} waits for {waited:.0f} s and is not told why"
    return list(problems.values())


def not_looked(seen: Seen) -> list[str]:
    """Somebody looked all the time, but for when there was no master."""
    gaps = [(one.at, other.at) for one, other in pairwise(seen.looks) if other.at - one.at > SETTLED_S]
    told = [gap for gap in gaps if not any(gap[0] <= killed <= gap[1] for killed, _ in seen.killed)]
    return [f"nobody looked for {end - begin:.0f} s" for begin, end in told]


def _holders(seen: Seen) -> dict[Card, list[tuple[int, Run]]]:
    found: dict[Card, list[tuple[int, Run]]] = {}
    for number, task in seen.tasks.items():
        for run in task.runs:
            for card in run.cards:
                found.setdefault(card, []).append((number, run))
    return found


def _name(card: Card) -> str:
    return f"GPU {card.gpu} of {card.node}"


RULES = {
    "no card is given out twice": over_committed,
    "nobody is alone who could share": alone,
    "nobody waits beside a card that is open": idle,
    "an overshoot closes its card, and is told": closed,
    "reserved tasks start at or before the time told": late_starts,
    "nobody passes a reservation who might be late": passed,
    "a killed master forgets no reservation": forgotten,
    "all end by themselves, and run out of memory only beside an overshoot": ends,
    "what waits is told why": silent,
    "somebody looked all the time": not_looked,
}


def problems(seen: Seen) -> dict[str, list[str]]:
    """What breaks each rule."""
    return {name: rule(seen) for name, rule in RULES.items()}
