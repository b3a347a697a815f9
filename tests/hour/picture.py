"""`python -m tests.hour.picture SEEN.json NODE GPU FROM TO FILE`: what the tasks on one card used in some minutes of an
hour, as an SVG. SEEN.json is what `make soak ARGS="--hour --report SEEN.json"` wrote; FROM and TO are minutes."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.hour.seen import CARD_MIB, CardSeen, Seen

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 280, 56, 12, 34, 30
COLOURS = ("#54aeff", "#4ac26b", "#d4a72c", "#c297ff", "#ff8182", "#76e3ea")
MOST_MIB, POINTS = 26_000, 240
FULL, NARROW = 0.8, 36
"""A task is named where it uses such a part of its most, for so many pixels at least."""
STYLE = "text{font:11px sans-serif;fill:#24292f}.head{font-weight:bold;font-size:13px}.axis{stroke:#8c959f}"
LINES = ".granted{fill:none;stroke:#24292f;stroke-width:1.5}.card{stroke:#cf222e;stroke-dasharray:5 4}"
Moment = tuple[float, CardSeen]


def picture(seen: Seen, node: str, gpu: int, begin: float, end: float) -> str:
    """The SVG: memory that each task declares, one upon the other, and what was granted of the card (the line)."""
    start = seen.looks[0].at
    shown = [(look.at - start) / 60.0 for look in seen.looks]
    moments = [(at, look.cards[node][gpu]) for at, look in zip(shown, seen.looks, strict=True) if begin <= at <= end]
    moments = moments[:: max(1, len(moments) // POINTS)]
    tasks = list(dict.fromkeys(number for _, card in moments for number in card.held))

    def x(at: float) -> float:
        return round(LEFT + (at - begin) / (end - begin) * (WIDTH - LEFT - RIGHT), 1)

    def y(mib: float) -> float:
        return round(HEIGHT - BOTTOM - mib / MOST_MIB * (HEIGHT - TOP - BOTTOM), 1)

    parts = [f'<text class="head" x="{LEFT}" y="18">GPU {gpu} of {node}: memory in use, and granted</text>']
    for at, number in enumerate(tasks):
        area = list(_area(moments, tasks[:at], number))
        above = " ".join(f"{x(when)},{y(top)}" for when, _, top in area)
        below = " ".join(f"{x(when)},{y(base)}" for when, base, _ in reversed(area))
        name = f"task {number}, {seen.tasks[number].kind}"
        colour = COLOURS[at % len(COLOURS)]
        parts.append(f'<polygon fill="{colour}" points="{above} {below}"><title>{name}</title></polygon>')
        most = max(top - base for _, base, top in area)
        full = [one for one in area if one[2] - one[1] >= most * FULL]
        if most and x(full[-1][0]) - x(full[0][0]) >= NARROW:
            when, base, top = full[len(full) // 2]
            middle = f'x="{x(when)}" y="{y((base + top) / 2) + 4}" text-anchor="middle"'
            parts.append(f"<text {middle}>{seen.tasks[number].kind}</text>")
    granted = " ".join(
        f"{x(when)},{y(sum(CARD_MIB if mib is None else mib for mib in card.held.values()))}" for when, card in moments
    )
    parts.append(f'<polyline class="granted" points="{granted}"/>')
    parts.append(f'<line class="card" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(CARD_MIB)}" y2="{y(CARD_MIB)}"/>')
    scale = (0, 8000, 16_000, CARD_MIB)
    parts += [f'<text x="{LEFT - 6}" y="{y(mib) + 4}" text-anchor="end">{mib:,}</text>' for mib in scale]
    minutes = range(int(begin), int(end) + 1)
    parts += [f'<text x="{x(at)}" y="{HEIGHT - 10}" text-anchor="middle">{at} min</text>' for at in minutes]
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(0)}" y2="{y(0)}"/>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">'
    return "\n".join([head, f"<style>{STYLE}{LINES}</style>", *parts, "</svg>", ""])


def _area(moments: list[Moment], below: list[int], number: int) -> Iterator[tuple[float, int, int]]:
    """When a task used what: from what the ones before it used on, up to that and its own."""
    for at, card in moments:
        base = sum(card.used.get(one, 0) for one in below)
        yield at, base, base + card.used.get(number, 0)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.hour.picture", description=__doc__)
    parser.add_argument("seen", type=Path)
    parser.add_argument("node")
    parser.add_argument("gpu", type=int)
    parser.add_argument("begin", type=float)
    parser.add_argument("end", type=float)
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    seen = msgspec.json.decode(options.seen.read_bytes(), type=Seen)
    drawn = picture(seen, options.node, options.gpu, options.begin, options.end)
    options.file.write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
