"""`muster top` as a textual program: what comes in, when the screen is drawn, and what each key does.

Messages from the master are collected and drawn at most twice a second; a key is answered at once. Owns no state of the
cluster (`state`), makes no line (`frame`, `node_lines`, `task_lines`), and talks to nobody itself (`feed`).
"""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Self

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input

from client.address import Address
from client.answers import SUSPECT
from client.api import Client
from client.live.asker import Asker
from client.live.feed import Feed
from client.live.log_reader import LogReader
from client.live.state import FEEDS, State
from client.refusals import coded_error
from client.text.task_page import FAILED
from client.top import frame, pages, reasons
from client.top.lists import Lists
from client.top.rows import OneLine
from client.top.screens import Base, LogScreen, Page, Question
from client.top.stops import come_back_whole
from client.top.view import View
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.live.asker import Answers
    from client.live.worker import Source, Tell
    from client.shapes import Share
    from client.text.cells import Line

DRAW_EVERY_S = 0.5
CLOCK_S = 1.0
NOTICE_S = 8.0
SHARE = "share"
SHARE_EVERY_S = 10.0
"""So often the master is asked for the user's share of the queue, which depends on others' tasks."""
HINTS = "l logs  c cancel  w why  s show  o sort  / filter  m mine  x GPUs  ? help  q"


class Top(App[None]):
    """The program. `sources(tell)` gives what tells it of the cluster, `asker(tell)` what tells it answers; `address`
    and `token` are for logs; `me`: whose tasks are mine."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: ansi_default; color: ansi_default; layout: vertical; }
    OneLine { height: 1; }
    #filter { height: 1; border: none; padding: 0; background: ansi_default; color: ansi_default; display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", show=False),
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
        Binding("l", "logs", show=False),
        Binding("c", "cancel", show=False),
        Binding("w", "why", show=False),
        Binding("s", "show", show=False),
        Binding("d", "diff", show=False),
        Binding("o", "change('sort')", show=False),
        Binding("m", "change('mine')", show=False),
        Binding("e", "change('ended')", show=False),
        Binding("x", "change('pack')", show=False),
        Binding("z", "zoom", show=False),
        Binding("slash", "filter", show=False),
        Binding("enter", "open", show=False),
        Binding("escape", "unfilter", show=False),
        Binding("question_mark,h,f1", "help", show=False),
    ]

    class News(Message):
        """Something waits in the inbox."""

    def __init__(
        self,
        address: Address,
        token: str | None,
        sources: Callable[[Tell], list[Source]],
        me: str,
        *,
        asker: Callable[[Tell], Answers] | None = None,
        reasons_every_s: float = reasons.EVERY_S,
    ) -> None:
        super().__init__(ansi_color=True)
        self.animation_level = "none"
        self.state = State()
        self.view = View()
        self.lists = Lists(self.state, self.view, me)
        self._address, self._token, self._me = address, token, me
        self._inbox: deque[dict[str, Any]] = deque()
        self._sources = sources(self.tell)
        self._asker = asker(self.tell) if asker else Asker(address, token, self.tell)
        self._reasons = reasons.Reasons(self.state, self._asker, reasons_every_s)
        self._answered: dict[str, Callable[[Any], None]] = {}
        self._asked = 0
        self._due: Timer | None = None
        self._drawn_at = 0.0
        self._notice: tuple[str, str, float] = ("", "", 0.0)
        self._filtering = "tasks"
        self._compared: int | None = None
        self._share: Share | None = None
        self._share_asked = False

    @classmethod
    def of(cls, address: Address, token: str | None, me: str = "") -> Self:
        """The program for a real master. `me`: who we are there; unless said, who we are here."""

        def feeds(tell: Tell) -> list[Source]:
            return [Feed(what, address, token, tell) for what in FEEDS]

        return cls(address, token, feeds, me or pwd.getpwuid(os.getuid()).pw_name)

    # -- what textual calls -----------------------------------------------------------------------------------

    def get_default_screen(self) -> Base:
        """Beneath all others."""
        return Base(id="_default")

    def _headline(self, size: int) -> Line:
        return frame.headline(self.state, str(self._address), size, time.time(), self._me, share=self._share)

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield OneLine(self._headline, id="headline")
        yield self.lists
        yield OneLine(self._foot, id="foot")
        yield Input(id="filter", placeholder="words that must be there; Enter keeps them, Esc removes them")

    def on_mount(self) -> None:
        """Begin."""
        # A signal from outside restores the terminal before the end. (After SIGHUP there is no terminal.)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, partial(self.exit, return_code=128 + number))
        come_back_whole(self)
        # Text that the shell wrote meanwhile stays on the screen wherever our lines have not changed, so draw all of
        # it.
        self.app_resume_signal.subscribe(self, lambda _: self.screen.refresh())
        self.lists.focus_list("tasks")
        self.set_interval(CLOCK_S, self._draw_soon)
        self._asker.start()
        for source in self._sources:
            source.start()
        self._ask_share()
        self.set_interval(SHARE_EVERY_S, self._ask_share)

    def on_unmount(self) -> None:
        """End the threads."""
        everybody = (*self._sources, self._asker)
        for one in everybody:
            one.end()
        for one in everybody:
            one.join()

    def on_resize(self) -> None:
        """Share the screen anew."""
        self.call_after_refresh(self.draw)

    # -- news and drawing -------------------------------------------------------------------------------------

    def tell(self, message: dict[str, Any]) -> None:
        """Take a message, in any thread; what it changes is seen at the next drawing."""
        self._inbox.append(message)
        if len(self._inbox) == 1:
            self.post_message(self.News())

    def on_top_news(self) -> None:
        """Draw, but not too often."""
        self._draw_soon()

    def _draw_soon(self) -> None:
        if self._due is not None:
            return
        wait = self._drawn_at + DRAW_EVERY_S - time.monotonic()
        if wait <= 0:
            self.draw()
        else:
            self._due = self.set_timer(wait, self.draw)

    def draw(self) -> None:
        """Take over what came, and redraw what that changes on the screen that is open."""
        if not self.screen_stack:
            return  # it came due while the program ends
        # A key may have been quicker than the timer; two of them would go on side by side.
        if self._due is not None:
            self._due.stop()
            self._due = None
        self._drawn_at = time.monotonic()
        while self._inbox:
            self._take(self._inbox.popleft())
        if isinstance(self.screen, LogScreen):
            self.screen.redraw()
        elif len(self.screen_stack) == 1:
            self.lists.draw()
            for line in self.query(OneLine):  # none is there any more while the screen is taken down
                line.redraw()
            self._reasons.ask(list(self.lists.waiting_in_sight()))

    def _take(self, message: dict[str, Any]) -> None:
        try:
            self._take_told(message)
        except SUSPECT as error:
            why = coded_error("protocol", "answer_unreadable", at=str(self._address), detail=repr(error))
            self.say(f"protocol: {why}", "bad")

    def _take_told(self, message: dict[str, Any]) -> None:
        params = message["params"]
        if message["method"] == "answer":
            self._take_answer(params)
        elif message["method"] == "log":
            if isinstance(self.screen, LogScreen) and self.screen.reader is params["reader"]:
                self.screen.take(params)
        else:
            self.state.take(message, time.time())

    def _foot(self, size: int) -> Line:
        text, kind, until = self._notice
        if time.monotonic() < until:
            return ((text, kind),)
        return ((HINTS if size >= len(HINTS) else "? help  q quit", "dim"),)

    def say(self, text: str, kind: str = "info") -> None:
        """A line at the bottom, for a while."""
        self._notice = (harmless(text), kind, time.monotonic() + NOTICE_S)
        self._draw_foot()

    def _draw_foot(self) -> None:
        if len(self.screen_stack) == 1:
            for line in self.query("#foot").results(OneLine):
                line.redraw()

    # -- questions to the master ------------------------------------------------------------------------------

    def ask(self, question: Callable[[Client], Any], answered: Callable[[Any], None]) -> None:
        """Ask in another thread; `answered` gets the result. An error is said at the bottom."""
        self._asked += 1
        self._answered[str(self._asked)] = answered
        self._asker.ask(str(self._asked), question)

    def _ask_share(self) -> None:
        """Ask, unless there is no answer yet. Errors are reported by the feeds."""
        if not self._share_asked:
            self._share_asked = True
            self._asker.ask(SHARE, lambda client: client.people.whoami())

    def _take_answer(self, params: dict[str, Any]) -> None:
        if params["to"] == reasons.MARK:
            self._reasons.take(params)
            return
        if params["to"] == SHARE:
            self._share_asked = False
            self._share = params.get("result", {}).get("share")  # an earlier master does not say
            return
        answered = self._answered.pop(params["to"])
        if "error" in params:
            self.say(f"{params['error'].code}: {params['error']}", "bad")
        else:
            answered(params["result"])

    # -- keys -------------------------------------------------------------------------------------------------

    def _chosen(self) -> int | None:
        """The chosen task; where there is none that is said."""
        task_id = self.lists.chosen_task()
        if task_id is None:
            self.say("no task holds this; Tab goes to the queue" if self.lists.on_nodes else "there is no task here")
        return task_id

    def action_logs(self) -> None:
        """Follow the log."""
        task_id = self._chosen()
        if task_id is not None:
            task = self.state.task(task_id)
            name = f" {harmless(task['name'])}" if task and task["name"] else ""
            reader = LogReader(task_id, self._address, self._token, self.tell)
            self.push_screen(LogScreen(reader, f"log of task {task_id}{name}"), self._back)

    def action_cancel(self) -> None:
        """Ask, then cancel."""
        task_id = self._chosen()
        task = self.state.task(task_id) if task_id is not None else None
        if task_id is None or task is None:
            return

        def decided(answer: bool | None) -> None:  # noqa: FBT001  (textual's signature)
            self.draw()
            if answer:
                self.ask(lambda client: client.cancel([task_id]), self._cancelled)

        what = f"task {task_id} {harmless(task['name'])}".rstrip()
        self.push_screen(Question(f"Cancel {what} of {harmless(task['owner'])} ({task['state']})?"), decided)

    def _cancelled(self, done: dict[str, Any]) -> None:
        gone = [f"task {task_id} is cancelled" for task_id in done["cancelled"]]
        told = [f"task {task_id} is told to end" for task_id in done["signalled"]]
        refused = list(done["refused"].values())
        self.say("; ".join([*gone, *told, *refused]) or "there was nothing to cancel", "bad" if refused else "info")

    def action_why(self) -> None:
        """Why a task waits, or what is the matter with a node."""
        node = self.state.nodes.get(self.lists.chosen_node() or "")
        if node is not None:
            self._open_page("why", pages.node_why(node))
        elif (task_id := self._chosen()) is not None:
            self.ask(lambda client: _with_log_end(client, client.why(task_id)), self._show_why)

    def _show_why(self, answer: tuple[Any, list[str]]) -> None:
        self._open_page("why", pages.why_page(*answer))

    def action_show(self) -> None:
        """Everything about a task or a node."""
        name = self.lists.chosen_node()
        if name is not None:
            self.ask(lambda client: client.node(name), lambda node: self._open_page("node", pages.node_page(node)))
        elif (task_id := self._chosen()) is not None:

            def shown(answer: tuple[Any, list[str]]) -> None:
                self._open_page("task", pages.task_page(answer[0], time.time(), answer[1]))

            self.ask(lambda client: _with_log_end(client, client.show(task_id)), shown)

    def action_diff(self) -> None:
        """In what two tasks differ: the one that was chosen before, and this one. One of an array is compared at once
        with the nearest that succeeded."""
        task_id = self._chosen()
        if task_id is None:
            return
        task, first = self.state.task(task_id), self._compared
        self._compared = None
        if first is not None and first != task_id:
            self._open_diff(first, task_id)
        elif task is not None and task.get("array") and first is None:
            self._open_diff(task_id, None)
        else:
            self._compared = task_id
            self.say(f"task {task_id}: d on another one tells in what they differ")

    def _open_diff(self, one: int, other: int | None) -> None:
        def told(found: Any) -> None:
            self._open_page(f"{found['id']} and {found['other']}", pages.diff_page(found))

        self.ask(lambda client: client.diff(one, other), told)

    def action_open(self) -> None:
        """Show a task; of a node, give its GPUs lines of their own, or pack them."""
        name = self.lists.chosen_node()
        if name is None:
            self.action_show()
        else:
            self.view.opened ^= {name}
            self.draw()

    def action_help(self) -> None:
        """The keys."""
        self._open_page("keys", pages.help_page())

    def _open_page(self, title: str, text: str) -> None:
        if len(self.screen_stack) == 1:
            self.push_screen(Page(title, text), self._back)

    def _back(self, _: None) -> None:
        self.draw()

    def action_change(self, what: str) -> None:
        """Sort, mine, ended, pack."""
        change = {"sort": self.lists.sort, "mine": self.lists.mine, "ended": self.lists.ended, "pack": self.lists.pack}
        self.say(change[what]())
        self.draw()

    def action_zoom(self) -> None:
        """One list alone, or both."""
        self.lists.zoom()
        self.draw()

    # -- the filter -------------------------------------------------------------------------------------------

    def action_filter(self) -> None:
        """Open the line in which to type a filter for the list that has the cursor."""
        self._filtering = "nodes" if self.lists.on_nodes else "tasks"
        line = self.query_one("#filter", Input)
        line.value = self.view.node_filter if self._filtering == "nodes" else self.view.task_filter
        self._show_filter(shown=True)
        line.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while it is typed."""
        self._filter_by(event.value)

    def on_input_submitted(self) -> None:
        """Keep it."""
        self._show_filter(shown=False)

    def action_unfilter(self) -> None:
        """Remove the filter."""
        if not self.query_one("#filter", Input).display:
            self._filtering = "nodes" if self.lists.on_nodes else "tasks"
        self._filter_by("")
        self._show_filter(shown=False)

    def _filter_by(self, text: str) -> None:
        if self._filtering == "nodes":
            self.view.node_filter = text
        else:
            self.view.task_filter = text
        self._draw_soon()

    def _show_filter(self, *, shown: bool) -> None:
        self.query_one("#filter", Input).display = shown
        self.query_one("#foot").display = not shown
        if not shown:
            self.lists.focus_list(self._filtering)
            self.draw()


def _with_log_end(client: Client, task: Any) -> tuple[Any, list[str]]:
    """Return the task, and the last lines of its log if it failed."""
    return task, client.last_lines(task["id"]) if task["state"] in FAILED else []
