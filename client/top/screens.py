"""Screens that open over the lists: a page of text, a question, a log that is followed."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.reactive import Reactive
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Static

from client.live.log_reader import LogReader
from client.text import cells
from client.text.columns import fit, wrapped
from client.top.rows import OneLine, Rows
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.text.cells import Line

LOG_LINES = 20_000
"""Lines of a log that are kept to look back at."""


class Base(Screen[None]):
    """The screen below all others. It is not drawn again when the focus moves: the focused widget draws the change."""

    focused: Reactive[Widget | None] = Reactive(None, repaint=False)


class Page(ModalScreen[None]):
    """Text that is read and closed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,escape,enter,space,question_mark", "close", show=False),
        Binding("j,down", "by(1)", show=False),
        Binding("k,up", "by(-1)", show=False),
    ]
    CSS = """
    Page { align: center middle; background: ansi_default; }
    Page VerticalScroll { width: 100%; max-width: 110; height: auto; max-height: 100%; border: round ansi_cyan;
        background: ansi_default; padding: 0 1; scrollbar-size: 1 1; }
    Page Static { background: ansi_default; color: ansi_default; height: auto; }
    """

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        """The text in a frame."""
        with VerticalScroll() as frame:
            frame.border_title = f"{self._title} (q closes)"
            yield Static(Text(self._text))

    def action_close(self) -> None:
        """Close it."""
        self.dismiss()

    def action_by(self, lines: int) -> None:
        """Scroll."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)


class Question(ModalScreen[bool]):
    """Yes or no; anything but `y` is no."""

    CSS = """
    Question { align: center middle; background: ansi_default; }
    Question Static { width: auto; max-width: 90%; height: auto; border: heavy ansi_yellow; padding: 1 2;
        background: ansi_default; color: ansi_default; }
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """The question in a frame."""
        yield Static(Text(f"{self._text}\n\n[y] yes   [n] no", justify="center"))

    def on_key(self, event: Any) -> None:
        """Answer."""
        event.stop()
        self.dismiss(event.key == "y")


class LogScreen(Screen[None]):
    """A log, followed while the cursor is on its last line."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,escape,l", "close", show=False)]
    CSS = "LogScreen Rows { height: 1fr; } LogScreen OneLine { height: 1; }"

    def __init__(self, reader: LogReader, title: str) -> None:
        super().__init__()
        self.reader = reader
        self._title = title
        self._lines: list[str] = []
        self._rest = ""
        self._wrapped: list[str] = []
        self._wrapped_to = (0, 0)
        self._shown: list[str] = []
        self._end = ""
        self._rows = Rows(self._head, self._line)

    def compose(self) -> ComposeResult:
        """The log, and what the keys do."""
        yield self._rows
        yield OneLine(lambda _size: (("q back   j k g G move; at the end (G) it is followed", "dim"),))

    def on_mount(self) -> None:
        """Begin to read."""
        self._rows.focus()
        self.reader.start()

    def on_unmount(self) -> None:
        """Nobody looks any more."""
        self.reader.end()

    def take(self, params: dict[str, Any]) -> None:
        """Take a message of the reader."""
        if "error" in params:
            self._end = str(params["error"])
        elif params.get("over"):
            self._end = "the task has ended"
        else:
            text = params["lines"].decode("utf-8", "replace")
            self._lines += text.split("\n")[:-1] if text else []
            self._rest = params["rest"].decode("utf-8", "replace")
            if len(self._lines) > LOG_LINES:
                del self._lines[: len(self._lines) - LOG_LINES * 3 // 4]
                self._wrapped_to = (0, 0)

    def redraw(self) -> None:
        """Draw what came since."""
        size = max(self._rows.size.width, 1)
        follow = self._rows.cursor >= len(self._rows.keys) - 1
        self._shown = [*self._wrap(size), *(_pieces(self._rest, size) if self._rest else [])]
        self._rows.show(range(len(self._shown)))
        if follow:
            self._rows.action_end(last=True)

    def action_close(self) -> None:
        """Back to the lists."""
        self.dismiss()

    def _wrap(self, size: int) -> list[str]:
        """The lines as they fit; only those that came since are looked at, unless the screen is another."""
        wrapped_for, count = self._wrapped_to
        if wrapped_for != size:
            self._wrapped, count = [], 0
        for line in self._lines[count:]:
            self._wrapped += _pieces(line, size)
        self._wrapped_to = (size, len(self._lines))
        return self._wrapped

    def _head(self, size: int) -> Line:
        said = self._end or ("following" if self._shown else "no output yet")
        return ((fit(self._title, max(size - len(said) - 2, 0)), "title"), (f"  {said}", "info"))

    def _line(self, index: int, size: int) -> Line:
        return cells.fit_line(((self._shown[index] if index < len(self._shown) else "", ""),), size)


def _pieces(line: str, size: int) -> list[str]:
    return wrapped(harmless(line.expandtabs()), size)
