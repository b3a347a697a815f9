"""A console as a real process beside a lab's master, and browsers and scripts that come to it over real TLS."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

import httpx
from websockets.exceptions import ConnectionClosed

from tests.ports import free_ports
from tests.system.lab import ROOT, Lab
from tests.waiting import PATIENCE_S, NeverError, until
from tests.web.websocket import Socket, websocket

PROXY = "127.0.0.2"
"""Who comes from there may say for whom he asks."""
PASSWORD = "gull kettle 七 orchard"  # noqa: S105


class Console:
    """The console of a lab, whose conf.json gets a `web`. `bounds` of its modules (`"timely.HEAD_S": 1.0`) are other
    ones, where a test would wait for long or send much."""

    def __init__(self, lab: Lab, *, bounds: Mapping[str, float] | None = None, **web: Any) -> None:
        self.lab = lab
        self._bounds = bounds or {}
        self.port = free_ports(1)[0]
        lab.write_conf(web={"port": self.port, **web})
        self.process: subprocess.Popen[bytes] | None = None
        self._clients: list[httpx.Client] = []

    @property
    def url(self) -> str:
        """What a browser on this machine types."""
        return f"https://localhost:{self.port}"

    @property
    def cookie(self) -> str:
        """The name of the cookie."""
        return f"__Host-muster-{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.end()

    def start(self, pages: Path | None = None) -> None:
        """Start it, and wait until it listens; with other `pages` than ours."""
        with (self.lab.folder / "web.out").open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, *self._program(pages), "--conf", str(self.lab.conf)],
                cwd=ROOT, env=self.lab.environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip
        until("the console is at work", self._is_at_work)

    def _program(self, pages: Path | None) -> list[str]:
        if not self._bounds and pages is None:
            return ["-m", "web"]
        lines = [f"import pathlib, web.pages; web.pages.Pages.__init__.__defaults__ = (pathlib.Path({str(pages)!r}),)"]
        lines = [*(lines if pages else [])] + [
            f"import web.{name.partition('.')[0]}; web.{name} = {bound!r}" for name, bound in self._bounds.items()
        ]
        return ["-c", "\n".join([*lines, "import sys; from web.process import main; sys.exit(main())"])]

    def _is_at_work(self) -> bool:
        if self.process is None or self.process.poll() is not None:
            raise NeverError(f"the console ended: {self.said()}")
        lock = self.lab.task_info / "web.lock"
        return lock.exists() and lock.read_text(encoding="ascii").strip() == str(self.process.pid)

    def said(self) -> str:
        """What it wrote into its log."""
        return (self.lab.folder / "web.out").read_text(encoding="utf-8")

    def kill(self) -> None:
        """SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def end(self) -> None:
        """End it as `muster down` would, and wait."""
        while self._clients:
            self._clients.pop().close()
        if self.process is not None:
            self.process.terminate()
            self.process.wait(PATIENCE_S)
            self.process = None

    def trust(self) -> ssl.SSLContext:
        """What a machine believes on which the root was installed, and no other."""
        return ssl.create_default_context(cafile=self.lab.task_info / "web" / "authority.pem")

    def http(self, **more: Any) -> httpx.Client:
        """Somebody who has shown nothing."""
        made = httpx.Client(**{"verify": self.trust(), "base_url": self.url, "timeout": PATIENCE_S, **more})
        self._clients.append(made)
        return made

    def by_proxy(self, address: str, **headers: str) -> httpx.Client:
        """Somebody elsewhere, for whom a reverse proxy asks."""
        return self.http(
            transport=httpx.HTTPTransport(verify=self.trust(), local_address=PROXY),
            headers={"X-Forwarded-For": address, "Origin": self.url, **headers},
        )

    def sign_in(self, user: str, password: str = PASSWORD) -> Browser:
        """A browser in which this user has signed in."""
        return self.signed_in({"user": user, "password": password})

    def signed_in(self, words: dict[str, str]) -> Browser:
        """A browser, with whatever it shows."""
        http = self.http(headers={"Origin": self.url})
        answer = http.post("/session", json=words)
        if answer.status_code != httpx.codes.OK:
            raise NeverError(f"nobody could sign in: {answer.text}")
        told = answer.json()
        http.headers["X-Muster-Key"] = told["key"]
        return Browser(self, http, told["key"], told["id"], answer.headers["set-cookie"])


class Browser(NamedTuple):
    """One in which somebody has signed in: `http` sends both halves."""

    console: Console
    http: httpx.Client
    key: str
    session: str
    set_cookie: str

    @property
    def half(self) -> str:
        """The cookie."""
        return str(self.http.cookies[self.console.cookie])

    @contextmanager
    def live(self, **more: Any) -> Iterator[Live]:
        """A page's WebSocket."""
        headers = {"Cookie": f"{self.console.cookie}={self.half}", **more.pop("headers", {})}
        with talk(self.console, headers, **more) as socket:
            yield Live(socket, self.key)


@contextmanager
def talk(console: Console, headers: Mapping[str, str], origin: str | None = None) -> Iterator[Socket]:
    """A WebSocket of whoever says so."""
    url = f"wss://localhost:{console.port}/live"
    with websocket(url, console.trust(), origin or console.url, headers) as socket:
        yield socket


class Live:
    """A page's end of the WebSocket. What is told unasked is kept in `told`."""

    def __init__(self, socket: Socket, key: str) -> None:
        self.socket = socket
        self.told: list[dict[str, Any]] = []
        self._last = 0
        socket.send(json.dumps({"key": key}))

    def ask(self, verb: str, **params: Any) -> Any:
        """Call a verb; its result. Raises AssertionError for a refusal."""
        answer = self.answer(verb, **params)
        assert "result" in answer, answer
        return answer["result"]

    def answer(self, verb: str, **params: Any) -> dict[str, Any]:
        """Call a verb; the whole answer."""
        self._last += 1
        self.socket.send(json.dumps({"jsonrpc": "2.0", "id": self._last, "method": verb, "params": params}))
        while True:
            message: dict[str, Any] = json.loads(self.socket.receive())
            if message.get("id") == self._last:
                return message
            self.told.append(message)

    def ends(self) -> int | None:
        """Wait until it is closed from the other side; with which code."""
        with suppress(ConnectionClosed):
            while True:
                self.socket.receive()
        return self.socket.close_code

    def hear(self, method: str) -> dict[str, Any]:
        """The next notification of this kind."""
        while True:
            for at, message in enumerate(self.told):
                if message["method"] == method:
                    del self.told[: at + 1]
                    params: dict[str, Any] = message["params"]
                    return params
            self.told.append(json.loads(self.socket.receive()))
