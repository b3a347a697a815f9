"""Tables that fit the terminal. Gets finished, harmless cells; owns widths, cutting and colour, and knows no task."""

from __future__ import annotations

from client.cli.text import cut, width

COLOURS = {
    "running": "32", "online": "32", "succeeded": "32", "starting": "36", "connecting": "36", "waiting": "33",
    "held": "35", "paused": "35", "failed": "31", "timed_out": "31", "lost": "31", "unreachable": "31",
    "untrusted": "31", "cancelled": "90", "drained": "33", "draining": "33", "leaving": "33", "closed": "33",
}  # fmt: skip
_GAP = "  "


def render(
    titles: list[str],
    rows: list[list[str]],
    room: int | None,
    *,
    flexible: dict[str, int],
    right: frozenset[str] = frozenset(),
    coloured: str | None = None,
) -> str:
    """The table as text, one line a row, with a head line.

    `room`: columns of the terminal, or None for no cutting. `flexible`: columns that may be cut, and to how little.
    Columns without a single entry are left out. `coloured`: the title of the column that holds a state.
    """
    columns: list[list[str]] = [list(column) for column in zip(*rows, strict=True)]
    kept = [index for index, column in enumerate(columns) if any(column)]
    titles = [titles[index] for index in kept]
    columns = [columns[index] for index in kept]
    plain = [all(map(str.isascii, column)) for column in columns]
    sizes = [
        max(map(len if ascii_only else width, (title, *column)))
        for title, column, ascii_only in zip(titles, columns, plain, strict=True)
    ]
    if room is not None:
        _shrink(titles, sizes, room, flexible)
    filled = [
        _fill(title, column, size, ascii_only=ascii_only, right=title in right, last=index == len(titles) - 1)
        for index, (title, column, size, ascii_only) in enumerate(zip(titles, columns, sizes, plain, strict=True))
    ]
    if coloured in titles:
        where = titles.index(coloured)
        filled[where] = [filled[where][0], *map(_paint, columns[where], filled[where][1:])]
    lines = map(_GAP.join, zip(*filled, strict=True))
    if room is None:
        return "".join([line.rstrip() + "\n" for line in lines])
    return "".join([_fit(line, room) + "\n" for line in lines])


def paint(state: str) -> str:
    """A state in its colour."""
    return _paint(state, state)


def _paint(state: str, cell: str) -> str:
    colour = COLOURS.get(state)
    return cell if colour is None else f"\x1b[{colour}m{cell}\x1b[0m"


def _shrink(titles: list[str], sizes: list[int], room: int, flexible: dict[str, int]) -> None:
    excess = sum(sizes) + len(_GAP) * (len(sizes) - 1) - room
    while excess > 0:
        able = [index for index, title in enumerate(titles) if sizes[index] > flexible.get(title, sizes[index])]
        if not able:
            return
        sizes[max(able, key=sizes.__getitem__)] -= 1
        excess -= 1


def _fill(title: str, column: list[str], size: int, *, ascii_only: bool, right: bool, last: bool) -> list[str]:
    cells = [title, *column]
    if ascii_only:
        if max(map(len, cells)) > size:
            cells = [cell if len(cell) <= size else cut(cell, size) for cell in cells]
        if last and not right:
            return cells
        return [cell.rjust(size) for cell in cells] if right else [cell.ljust(size) for cell in cells]
    cells = [cut(cell, size) for cell in cells]
    return [_pad(cell, size, right=right) for cell in cells]


def _pad(cell: str, size: int, *, right: bool) -> str:
    spaces = " " * (size - width(cell))
    return spaces + cell if right else cell + spaces


def _fit(line: str, room: int) -> str:
    line = line.rstrip()
    # A colour's escapes take no room; only a terminal too narrow for even the least widths needs a cut here.
    if "\x1b" in line or len(line) * 2 <= room or width(line) <= room:
        return line
    return cut(line, room)
