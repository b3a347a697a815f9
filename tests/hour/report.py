"""What came of an hour, as lines for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from statistics import mean, median

from tests.hour.audit import Overshoot, overran, overshoots, problems
from tests.hour.seen import CARD_MIB, CardSeen, Seen


def text(seen: Seen) -> str:
    """All of it."""
    lines = [f"{name:<58}  {value}" for name, value in figures(seen)]
    found = problems(seen)
    lines += [f"{'ok' if not said else f'{len(said)} problems':<58}  {name}" for name, said in found.items()]
    return "\n".join(lines)


def figures(seen: Seen) -> Iterator[tuple[str, str]]:
    """What is told of it: the name, the value."""
    states = Counter(task.state for task in seen.tasks.values())
    yield "tasks", ", ".join([str(len(seen.tasks)), *(f"{state} {count}" for state, count in states.most_common())])
    for kind in dict.fromkeys(task.kind for task in seen.tasks.values()):
        yield f"  {kind}", _of_kind(seen, kind)
    yield from _of_cards(seen)
    yield from _of_overshoots(seen)
    for one in seen.promises:
        started = seen.tasks[one.task].started_at
        early = "never started" if started is None else f"started {one.expected_at - started:.0f} s before it"
        kind = seen.tasks[one.task].kind
        late = f"; {len(longer)} ran longer than expected" if (longer := overran(seen, one)) else ""
        yield (
            f"reserved for {kind} (task {one.task})",
            f"told {one.expected_at - one.told_at:.0f} s ahead, {early}{late}",
        )
    yield "kills of the master, seconds until it answered", ", ".join(f"{up - down:.1f}" for down, up in seen.killed)
    yield "looks", str(len(seen.looks))


def _of_kind(seen: Seen, kind: str) -> str:
    tasks = [task for task in seen.tasks.values() if task.kind == kind]
    waits = [task.started_at - task.submitted_at for task in tasks if task.started_at is not None]
    failed = sum(task.state == "failed" for task in tasks)
    waited = f"waited {median(waits):.0f} s, {max(waits):.0f} s at most" if waits else "never started"
    return f"{len(tasks)}, {failed} failed, {waited}"


def _of_cards(seen: Seen) -> Iterator[tuple[str, str]]:
    cards = [card for look in seen.looks for _, card in look.each_card()]
    held = [card for card in cards if card.held]
    shared = [card for card in held if card.is_shared]
    yield "card time held", f"{100 * len(held) / len(cards):.1f} %"
    if not shared:
        return
    granted = [sum(mib or 0 for mib in card.held.values()) for card in shared]
    yield "tasks on a card that is shared", f"{mean(len(card.held) for card in shared):.2f}, {_most(shared)} at most"
    yield "most MiB granted of a card", f"{max(granted):,} of {CARD_MIB:,}"


def _most(shared: list[CardSeen]) -> int:
    return max(len(card.held) for card in shared)


def _of_overshoots(seen: Seen) -> Iterator[tuple[str, str]]:
    found = overshoots(seen)
    told = [one.told_at - one.begun for one in found if one.told_at is not None]
    yield (
        "overshoots",
        f"{len(found)}, {len(told)} of them told, after {median(told):.0f} s" if told else str(len(found)),
    )
    failed = Counter(_what_failed(seen, number, found) for number, task in seen.tasks.items() if task.state == "failed")
    yield "out of memory", ", ".join(f"{count} {what}" for what, count in failed.items()) or "none"


def _what_failed(seen: Seen, number: int, found: list[Overshoot]) -> str:
    if any(one.task == number for one in found):
        return "that overshot"
    cards = {card for run in seen.tasks[number].runs for card in run.cards}
    return "beside an overshoot" if any(one.card in cards for one in found) else "beside somebody outside the queue"
