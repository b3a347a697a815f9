"""Tables that fit the terminal. Gets finished, harmless cells; owns widths, cutting and colour, and knows no task."""

from __future__ import annotations

from client.text.colours import STATE_KINDS, painted
from client.text.columns import cut, fit, width

NARROW: dict[str, int] = {}
"""In place of columns that may be cut: from here on one blank is enough between them."""
_GAP = "  "


def render(
    titles: list[str],
    rows: list[list[str]],
    room: int | None,
    *,
    flexible: dict[str, int] | tuple[dict[str, int], ...],
    right: frozenset[str] = frozenset(),
    coloured: str | None = None,
) -> str:
    """The table as text, one line a row, with a head line.

    `room`: columns of the terminal, or None for no cutting. `flexible`: columns that may be cut, and to how little;
    of several such tables the first is made use of first.
    Columns without a single entry are left out. `coloured`: the title of the column that holds a state.
    """
    titled = zip(titles, zip(*rows, strict=True), strict=bool(rows))
    columns = [[title, *cells] for title, cells in titled if any(cells)]
    titles = [column[0] for column in columns]
    plain = [all(map(str.isascii, column)) for column in columns]
    sizes = [max(map(len if ascii_only else width, column)) for column, ascii_only in zip(columns, plain, strict=True)]
    steps = flexible if isinstance(flexible, tuple) else (flexible,)
    gap = _GAP
    fits = room is None
    for step in steps:
        if room is None or fits:
            break
        gap = " " if step is NARROW else gap
        fits = _shrink(titles, sizes, room - len(gap) * (len(sizes) - 1), step)
    forms = []
    for at, (title, size) in enumerate(zip(titles, sizes, strict=True)):
        if plain[at] and title != coloured:
            columns[at] = _cut(columns[at], size)
            forms.append(f"%{size}s" if title in right else f"%-{size}s")
        else:  # a format counts characters, not columns
            columns[at] = _filled(columns[at], size, right=title in right, in_colour=title == coloured)
            forms.append("%s")
    lines = [*map(str.rstrip, map(gap.join(forms).__mod__, zip(*columns, strict=True)))]
    if room is not None and not fits:
        lines = [_fit(line, room) for line in lines]
    return "\n".join([*lines, ""])


def needed(titles: list[str], rows: list[list[str]]) -> int:
    """The columns of a terminal that the table takes without cutting."""
    columns = [
        [title, *cells] for title, cells in zip(titles, zip(*rows, strict=True), strict=bool(rows)) if any(cells)
    ]
    return sum(max(map(width, column)) for column in columns) + len(_GAP) * (len(columns) - 1)


def _shrink(titles: list[str], sizes: list[int], room: int, flexible: dict[str, int]) -> bool:
    """Make the flexible columns smaller until all are within `room`; whether they are then."""
    excess = sum(sizes) - room
    while excess > 0:
        able = [index for index, title in enumerate(titles) if sizes[index] > flexible.get(title, sizes[index])]
        if not able:
            return False
        sizes[max(able, key=sizes.__getitem__)] -= 1
        excess -= 1
    return True


def _cut(cells: list[str], size: int) -> list[str]:
    """ASCII cells in at most `size` columns."""
    if max(map(len, cells)) <= size:
        return cells
    return [cell if len(cell) <= size else cut(cell, size) for cell in cells]


def _filled(cells: list[str], size: int, *, right: bool, in_colour: bool) -> list[str]:
    """Cells in exactly `size` columns; below the title each in the colour of the state that it names."""
    filled = [fit(cell, size, right=right) for cell in cells]
    if in_colour:
        filled[1:] = map(painted, filled[1:], map(STATE_KINDS.get, cells[1:]))
    return filled


def _fit(line: str, room: int) -> str:
    """A line of a terminal that is too narrow for even the least widths. A colour's escapes take no room."""
    return line if "\x1b" in line else cut(line, room)
