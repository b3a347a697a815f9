"""A real Chromium on the console's pages, signed in. Whatever the browser complains of (an error, something that the
page's policy forbids) is kept, and fails the test that brought it about."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Error, Page, Playwright, expect, sync_playwright

from tests.rights import need_program
from tests.web.console import PASSWORD, Console

CHROMIUM = "/usr/bin/chromium-headless-shell"
"""Chromium without what it draws around a page, which costs a third of its time."""
PATIENCE_MS = 60_000
WIDE, NARROW = (1280, 800), (360, 740)
LANGUAGES = ("en", "zh-CN")
expect.set_options(timeout=PATIENCE_MS)  # else 5 s, which a loaded machine takes


def need_chromium() -> None:
    """Raises CannotHere where it is not installed."""
    need_program("chromium-headless-shell", "chromium-headless-shell")


_kept = ExitStack()


@cache
def driver() -> Playwright:
    """Playwright, started when it is first needed and kept until `end`. Meanwhile no test can run a loop of its own in
    this thread."""
    return _kept.enter_context(sync_playwright())


@cache
def _browser() -> Browser:
    need_chromium()
    browser = driver().chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
    _kept.callback(browser.close)
    return browser


@contextmanager
def chromium() -> Iterator[Browser]:
    """The system's browser, the same for all who ask: to start it takes as long as a test."""
    if not _browser().is_connected():
        _browser.cache_clear()
    browser = _browser()
    try:
        yield browser
    finally:
        for context in browser.contexts:
            context.close()


def end() -> None:
    """End the browser and Playwright, if they were started."""
    _browser.cache_clear()
    driver.cache_clear()
    _kept.close()


class Visit:
    """Somebody's visit to the console: `page` is Playwright's, `complaints` what the browser said against ours, `url`
    what they type."""

    def __init__(self, page: Page, console: Console, url: str = "") -> None:
        self.page = page
        self.console = console
        self.url = url or console.url
        self.complaints: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", self._told)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _told(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and "net::ERR" not in message.text:
            self.complaints.append(f"{message.text} ({message.location.get('url')})")

    def sign_in(self, user: str = "root2", password: str = PASSWORD) -> None:
        """By name and password, through the page."""
        self.page.goto(self.url)
        self.page.fill("input[name=user]", user)
        self.page.fill("input[name=password]", password)
        self.page.click("button[type=submit]")
        self.page.wait_for_selector(".live.is-live")

    def go(self, path: str) -> None:
        """To a page, as one does who types its address; then what it asks for first has come."""
        try:
            self.page.goto(f"{self.url}/{path}")
        except Error as error:  # an address of this machine came or went, which is no matter of the page's
            if "ERR_NETWORK_CHANGED" not in error.message:
                raise
            self.page.goto(f"{self.url}/{path}")
        self.page.wait_for_selector(".live.is-live")
        self.page.wait_for_selector("main :is(.page, .empty)")
        expect(self.page.locator("main [aria-busy=true]")).to_have_count(0)

    def texts(self, selector: str) -> list[str]:
        """What stands in the elements."""
        return [text.strip() for text in self.page.locator(selector).all_inner_texts()]

    def count(self, selector: str) -> int:
        """How many elements there are."""
        return self.page.locator(selector).count()

    def is_wider_than_the_window(self) -> bool:
        """Does the page as a whole scroll sideways?"""
        return bool(self.page.evaluate("document.documentElement.scrollWidth > innerWidth"))


@contextmanager
def visit(
    browser: Browser,
    console: Console,
    *,
    url: str = "",
    size: tuple[int, int] = WIDE,
    language: str = "en",
    theme: Any = "light",
) -> Iterator[Visit]:
    """A browser of its own, as far as cookies and storage go; `url`: another one than the console's, of a proxy before
    it. It fails where the browser complained."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        locale=language,
        color_scheme=theme,
        ignore_https_errors=True,
        reduced_motion="reduce",
    )
    made = Visit(context.new_page(), console, url)
    try:
        yield made
    finally:
        context.close()
    assert made.complaints == [], made.complaints


@contextmanager
def signed_in(browser: Browser, console: Console, user: str = "root2", **how: Any) -> Iterator[Visit]:
    """The same, signed in without the form: quicker, where signing in is not what is tried."""
    with visit(browser, console, **how) as made:
        signed = console.sign_in(user)
        made.page.context.add_cookies(
            [{"name": console.cookie, "value": signed.half, "url": console.url, "secure": True, "httpOnly": True}]
        )
        made.page.add_init_script(f"localStorage.setItem('muster.key', {json.dumps(json.dumps(signed.key))})")
        yield made
