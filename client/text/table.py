"""Tables that fit the terminal. Gets finished, harmless cells; owns widths, cutting and colour, and knows no task."""

from __future__ import annotations

from client.text.colours import STATE_KINDS, painted
from client.text.columns import cut, fit, width

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
        kinds = map(STATE_KINDS.get, columns[where])
        filled[where] = [filled[where][0], *map(painted, filled[where][1:], kinds)]
    lines = map(_GAP.join, zip(*filled, strict=True))
    if room is None:
        return "".join([line.rstrip() + "\n" for line in lines])
    return "".join([_fit(line, room) + "\n" for line in lines])


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
    return [fit(cell, size, right=right) for cell in cells]


def _fit(line: str, room: int) -> str:
    line = line.rstrip()
    # A colour's escapes take no room; only a terminal too narrow for even the least widths needs a cut here.
    if "\x1b" in line or len(line) * 2 <= room or width(line) <= room:
        return line
    return cut(line, room)
