"""`python -m bench.charts RESULT.json FOLDER`: a small SVG of each thing that grew in what `bench --json` wrote.

The medians as a line, the lowest and the highest run as a bar through each point, the goal as a dashed line; sizes on a
logarithmic scale, costs on a linear one from zero. Owns the pictures and nothing of what is in them.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from html import escape
from pathlib import Path
from typing import Any

from bench.report import number

WIDTH, HEIGHT = 460, 240
LEFT, RIGHT, TOP, BOTTOM = 56, 36, 44, 30
_ABOVE = 1.15
"""So far above the largest value the picture ends."""
_STYLE = (
    "text{font:11px sans-serif;fill:#24292f}.title{font-weight:bold;font-size:13px}.axis{stroke:#8c959f}"
    ".line{fill:none;stroke:#0969da;stroke-width:2}.bar{stroke:#0969da;stroke-width:1}.dot{fill:#0969da}"
    ".goal{stroke:#cf222e;stroke-dasharray:5 4}.aim{fill:#cf222e}"
)


def series(figures: list[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Figures of what grew, by subject and name, the smallest first."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in figures:
        if one.get("at") is not None:
            found.setdefault((one["subject"], one["name"]), []).append(one)
    return {key: sorted(points, key=lambda one: int(one["at"])) for key, points in found.items() if len(points) > 1}


def chart(subject: str, name: str, points: list[dict[str, Any]]) -> str:
    """One picture, as SVG."""
    goals = [one["target"] for one in points if one["target"] is not None]
    top = _ABOVE * max([max(one["runs"]) for one in points] + goals) or 1.0
    first, last = (math.log10(points[end]["at"]) for end in (0, -1))

    def x(at: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(at) - first) / (last - first)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top

    floor = y(0)
    parts = [
        f'<text class="title" x="{LEFT}" y="18">{escape(name)}</text>',
        f'<text x="{LEFT}" y="34">{escape(points[0]["unit"])}, by {escape(subject)}</text>',
        f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{floor:.1f}H{WIDTH - RIGHT}"/>',
    ]
    parts += [
        f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{number(value)}</text>'
        for value in (0.0, top / _ABOVE)
    ]
    for goal in sorted(set(goals)):
        parts.append(f'<path class="goal" d="M{LEFT} {y(goal):.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text class="aim" x="{WIDTH - RIGHT}" y="{y(goal) - 4:.1f}" text-anchor="end">goal</text>')
    way = "L".join(f"{x(one['at']):.1f} {y(one['median']):.1f}" for one in points)
    parts.append(f'<path class="line" d="M{way}"/>')
    for one in points:
        at, middle = x(one["at"]), y(one["median"])
        parts.append(f'<path class="bar" d="M{at:.1f} {y(min(one["runs"])):.1f}V{y(max(one["runs"])):.1f}"/>')
        parts.append(f'<circle class="dot" cx="{at:.1f}" cy="{middle:.1f}" r="3"/>')
        parts.append(f'<text x="{at:.1f}" y="{middle - 8:.1f}" text-anchor="middle">{number(one["median"])}</text>')
        parts.append(f'<text x="{at:.1f}" y="{floor + 16:.1f}" text-anchor="middle">{one["at"]:,}</text>')
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(name)}">\n'
        f'<style>{_STYLE}</style>\n<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
    )


def file_name(subject: str, name: str) -> str:
    """Of its picture: small letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", f"{subject} {name}".lower()).strip("-") + ".svg"


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the names of the pictures are printed."""
    parser = argparse.ArgumentParser(prog="python -m bench.charts", description="Draw what grew.")
    parser.add_argument("result", type=Path, help="what `python -m bench growth --json FILE` wrote")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    options = parser.parse_args(arguments)
    figures = json.loads(options.result.read_text(encoding="utf-8"))["figures"]
    options.folder.mkdir(parents=True, exist_ok=True)
    for (subject, name), points in series(figures).items():
        path = options.folder / file_name(subject, name)
        path.write_text(chart(subject, name, points), encoding="utf-8")
        print(path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
