"""The widgets that draw lines: one line, and a list of rows of which only the visible ones are ever made.

A row's line is made anew when the screen is drawn and compared with what stands there; only where it differs it is
drawn again (textual sends it from its begin to the last column that does). Owns cursor and scrolling; knows neither
tasks nor nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from client.text import cells

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.text.cells import Line

STYLES = {
    "": Style(),
    "dim": Style(dim=True),
    "held": Style(dim=True),
    "good": Style(color="green"),
    "info": Style(color="cyan"),
    "warn": Style(color="yellow"),
    "bad": Style(color="red", bold=True),
    "alarm": Style(color="red", bold=True, reverse=True),
    "strong": Style(bold=True),
    "title": Style(bold=True, underline=True),
}
_CURSOR = Style(reverse=True)


def strip_of(line: Line, *, cursor: bool = False) -> Strip:
    """A line as textual draws it."""
    drawn = [(text, STYLES[kind] + _CURSOR if cursor else STYLES[kind]) for text, kind in line if text]
    return Strip([Segment(text, style) for text, style in drawn], cells.size_of(line))


def changed_span(old: Line, new: Line) -> tuple[int, int]:
    """From which column, and over how many, two lines of the same size differ."""
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    last = 0
    while last < min(len(old), len(new)) - first and old[-1 - last] == new[-1 - last]:
        last += 1
    begin = cells.size_of(new[:first])
    return begin, cells.size_of(new) - begin - cells.size_of(new[len(new) - last :])


class Drawn(Widget):
    """Lines that are compared with those drawn before. A subclass gives the content of line `y`."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002  (textual's name for it)
        super().__init__(id=id)
        self._drawn: list[tuple[Line, bool]] = []

    def line(self, y: int, size: int) -> tuple[Line, bool]:
        """Return the content of a line of `size` columns, and whether it is under the cursor."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Make the visible lines anew and have redrawn what differs."""
        size = self.size
        if not size.width:
            return
        fresh = [self.line(y, size.width) for y in range(size.height)]
        stale, self._drawn = self._drawn, fresh
        if len(stale) != len(fresh):
            self.refresh()
            return
        regions = []
        for y, (old, new) in enumerate(zip(stale, fresh, strict=True)):
            if old == new:
                continue
            same_size = old[1] == new[1] and cells.size_of(old[0]) == cells.size_of(new[0])
            begin, length = changed_span(old[0], new[0]) if same_size else (0, size.width)
            regions.append(Region(begin, y, length, 1))
        if regions:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        """Textual asks for a line."""
        if y >= len(self._drawn):
            return Strip.blank(self.size.width)
        line, cursor = self._drawn[y]
        return strip_of(line, cursor=cursor).adjust_cell_length(self.size.width)

    def on_resize(self, _event: events.Resize) -> None:
        """Everything is another size."""
        self._drawn = []
        self.redraw()
        self.refresh()


class OneLine(Drawn):
    """A single line."""

    def __init__(self, make: Callable[[int], Line], *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._make = make

    def line(self, y: int, size: int) -> tuple[Line, bool]:
        """The line; what is beneath it is empty."""
        return (cells.fit_line(self._make(size), size) if y == 0 else cells.fit_line((), size)), False


class Rows(Drawn, can_focus=True):
    """A head and rows by key. `head(size)` and `row(key, size)` make the lines. The cursor stays with its key."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("pagedown,ctrl+f", "page(1)", show=False),
        Binding("ctrl+u", "page(-0.5)", show=False),
        Binding("ctrl+d", "page(0.5)", show=False),
        Binding("home,g", "end(False)", show=False),
        Binding("end,G", "end(True)", show=False),
    ]

    def __init__(
        self,
        head: Callable[[int], Line],
        row: Callable[[Any, int], Line],
        *,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(id=id)
        self._head = head
        self._row = row
        self.keys: Sequence[Hashable] = ()
        self.cursor = 0
        self.first = 0
        self._on: Hashable = None

    @property
    def selected(self) -> Any:
        """The key under the cursor, None if there are no rows."""
        return self.keys[self.cursor] if self.cursor < len(self.keys) else None

    @property
    def visible_keys(self) -> Sequence[Hashable]:
        """Those on the screen."""
        return self.keys[self.first : self.first + self._room]

    @property
    def position(self) -> str:
        """`1-12 of 10,042`."""
        if not self.keys:
            return "none"
        last = min(self.first + self._room, len(self.keys))
        return (
            f"{self.first + 1}-{last} of {len(self.keys):,}" if len(self.keys) > self._room else f"{len(self.keys):,}"
        )

    def show(self, keys: Sequence[Hashable]) -> None:
        """Show these rows. The cursor stays on its row if that is still there, else where it is on the screen."""
        if keys is not self.keys:
            self.keys = keys
            if self.cursor >= len(keys) or keys[self.cursor] != self._on:
                self._find()
        self._keep_in_sight()
        self.redraw()

    def line(self, y: int, size: int) -> tuple[Line, bool]:
        """The head, then the rows."""
        if y == 0:
            return cells.fit_line(self._head(size), size), False
        index = self.first + y - 1
        if index >= len(self.keys):
            return cells.fit_line((), size), False
        return self._row(self.keys[index], size), index == self.cursor and self.has_focus

    def action_move(self, by: int) -> None:
        """One row up or down."""
        self._go(self.cursor + by)

    def action_page(self, by: float) -> None:
        """Screens up or down."""
        self._go(self.cursor + round(by * max(self._room - 1, 1)))

    def action_end(self, last: bool) -> None:  # noqa: FBT001  (textual passes what the binding says)
        """To the first or the last row."""
        self._go(len(self.keys) - 1 if last else 0)

    def watch_has_focus(self, _has_focus: bool) -> None:  # noqa: FBT001  (textual's signature)
        """Nothing of the style hangs on it."""

    def on_focus(self, event: events.Focus) -> None:
        """The cursor appears."""
        self._focus_came(event, here=True)

    def on_blur(self, event: events.Blur) -> None:
        """The cursor goes."""
        self._focus_came(event, here=False)

    def _focus_came(self, event: events.Event, *, here: bool) -> None:
        """Textual's own way would send the whole list again, for the sake of two lines."""
        event.prevent_default()
        self.has_focus = here
        self.redraw()

    @property
    def _room(self) -> int:
        return max(self.size.height - 1, 1)

    def _go(self, index: int) -> None:
        self.cursor = min(max(index, 0), max(len(self.keys) - 1, 0))
        self._on = self.selected
        self._keep_in_sight()
        self.redraw()

    def _find(self) -> None:
        shift = self.cursor - self.first
        try:
            self.cursor = self.keys.index(self._on)
            if self.first:  # who looks at the top goes on looking at the top
                self.first = self.cursor - shift
        except ValueError:
            self.cursor = min(self.cursor, max(len(self.keys) - 1, 0))
            self._on = self.selected

    def _keep_in_sight(self) -> None:
        self.first = min(self.first, self.cursor, max(len(self.keys) - self._room, 0))
        self.first = max(self.first, self.cursor - self._room + 1, 0)
