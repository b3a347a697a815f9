"""The walk over HTTP: whoever there is, with what a program shows or with the two halves of a browser, asks for every
route and calls every verb through the console, on what is his, his group's and another's.

What he should be allowed stands in `rules.py`. The console runs in this process, on the ports of a real master; who is
refused has reached nothing, changed nothing and seen nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Route as HttpRoute
from starlette.types import ASGIApp

from master.core.people.people import Scope
from master.ports.port_server import NODES, TASKS
from master.verbs.table import VERBS
from tests.attack import rules
from tests.attack.lab_of_many import NAMES, SECRET, LabOfMany, lab_of_many
from tests.attack.rules import Caller, Object, Who, may_call, may_use
from tests.attack.test_walk import HIDDEN, OBJECTS, OF_SEVERAL, QUEUED_ONLY, THINGS, Call, doing_nothing
from tests.master.in_process import DATA, run
from tests.master.verbs.parameters import required
from tests.master.verbs.test_people import PASSWORD
from tests.soak import one_in
from web.app import application, console
from web.certificates import Certificates
from web.hall import Hall
from web.session import cookie_name
from web.settings import Settings
from wire.console import Web
from wire.routes import BASE, NOT_OVER_HTTP, ROUTES, RPC, Route

ORIGIN = "https://localhost:8443"
REFUSED = {401, 403}
ROUTE_OF = {(route.method, route.path): route for route in ROUTES}
IN_STEPS = {"/files/{path}", "/events", "/me"}
"""They ask for something before they do what they are for."""
SCRIPTS: tuple[frozenset[Scope] | None, ...] = (None, frozenset({"read"}), frozenset({"wall"}))
CALLERS = [
    *(Caller("token", who, scopes) for who in NAMES for scopes in SCRIPTS),  # type: ignore[arg-type]
    Caller("password", "user"),
    Caller("unknown", "nobody"),
]


class Visitor(NamedTuple):
    """Somebody who comes to the console over HTTP."""

    hall: Hall
    http: httpx.AsyncClient

    async def ask(self, method: str, path: str, **how: Any) -> httpx.Response:
        """Ask for a path beneath /api/v1."""
        return await self.http.request(method, f"{BASE}{path}", **how)


class HttpLab(NamedTuple):
    """A lab of many with a console."""

    lab: LabOfMany
    app: ASGIApp
    hall: Hall

    async def come_in(self, caller: Caller) -> Visitor:
        """As a program with a token, as a browser in which somebody has signed in, or as nobody."""
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False, client=("127.0.0.1", 5))
        http = httpx.AsyncClient(transport=transport, base_url=ORIGIN, headers={"Origin": ORIGIN}, timeout=60)
        if caller.kind == "token":
            http.headers["Authorization"] = f"Bearer {await self.lab.token(caller)}"
        elif caller.kind == "password":
            words = {"user": NAMES[caller.who], "password": PASSWORD}
            signed = await http.post("/session", json=words)
            http.headers["X-Muster-Key"] = signed.json()["key"]
            half = re.match(r"[^=]+=([^;]+)", signed.headers["set-cookie"])
            http.headers["Cookie"] = f"{cookie_name(self.hall)}={half[1] if half else ''}"
        await http.get(f"{BASE}/me")  # his line to the master is open from here on
        return Visitor(self.hall, http)


@asynccontextmanager
async def http_lab(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HttpLab]:
    """Run it."""
    async with lab_of_many(folder, monkeypatch) as lab:
        ports = {
            what: lab.master.address(name)[1] for what, name in (("calls", DATA), ("tasks", TASKS), ("nodes", NODES))
        }
        settings = Settings(folder / "conf.json", Web(), "127.0.0.1", folder / "task_info", "127.0.0.1", ports, "off")
        hall = Hall.of(settings, Certificates(settings))
        app = console(hall)
        try:
            yield HttpLab(lab, app, hall)
        finally:
            await hall.close()


# -- all there is has its rule ----------------------------------------------------------------------------------------


def routes_of(app: Starlette) -> Iterator[tuple[str, str]]:
    """What the console answers only to whom it knows."""
    for route in app.routes:
        if isinstance(route, HttpRoute) and (route.path.startswith(BASE) or route.path == "/metrics"):
            for method in (route.methods or set()) - {"HEAD"}:
                yield method, re.sub(r":\w+\}", "}", route.path).removeprefix(BASE)


def test_every_route_of_the_console_has_its_rule_and_every_rule_its_route(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with http_lab(tmp_path, monkeypatch) as made:
            open_to_all = {("GET", "/openapi.json"), ("POST", "/rpc/{verb}")}
            assert set(routes_of(application(made.hall))) - open_to_all == rules.OVER_HTTP.keys()
            for route in ROUTES:
                assert rules.OVER_HTTP[route.method, route.path] == route.verb
            stranger = await made.come_in(Caller("unknown", "nobody"))
            document = (await stranger.ask("GET", "/openapi.json")).json()["paths"]
            assert {path.removeprefix(RPC) for path in document if path.startswith(RPC)} == rules.VERBS.keys()

    run(story())


# -- the dispatcher ---------------------------------------------------------------------------------------------------


def request_of(method: str, path: str, params: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """The request for a call of the verb behind a route."""
    route = ROUTE_OF.get((method, path), Route(method, path, ""))
    left = dict(params)
    if route.listed:
        left["id"] = left.pop(route.listed, [1])[0]
    for name in re.findall(r"\{(\w+)\}", path):
        path = path.replace(f"{{{name}}}", quote(str(left.pop(name, "x")), safe="/"))
    if method == "GET":
        return method, path, {"params": left}
    return method, path, {"json": left[route.whole] if route.whole else left}


def door_requests(task: int) -> Iterator[tuple[str, tuple[str, str, dict[str, Any]]]]:
    """A request for every verb by its name, and for every route; on this task where it is about one."""
    for verb in rules.VERBS.keys() - NOT_OVER_HTTP:
        yield verb, ("POST", f"/rpc/{verb}", {"json": {**required(verb), **_of_task(verb, task)}})
    for (method, path), verb in rules.OVER_HTTP.items():
        if path not in IN_STEPS and path != "/metrics":
            yield verb, request_of(method, path, {**required(verb), **_of_task(verb, task)})


def _of_task(verb: str, task: int) -> dict[str, Any]:
    fields = VERBS[verb].params.__struct_fields__
    return {"id": task} if "id" in fields else {"ids": [task]} if "ids" in fields else {}


@pytest.mark.parametrize("caller", CALLERS, ids=str)
def test_the_door_opens_for_whom_the_rules_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caller: Caller
) -> None:
    async def story() -> None:
        async with http_lab(tmp_path, monkeypatch) as made:
            visitor = await made.come_in(caller)
            things = THINGS if caller.scopes is None else THINGS[:1]
            with doing_nothing(monkeypatch) as reached:
                for thing in things:
                    task = made.lab.task(made.lab.whose(caller, thing) or "somebody")
                    for verb, (method, path, how) in door_requests(task):
                        reached.clear()
                        answer = await visitor.ask(method, path, **how)
                        whose = rules.VERBS[verb].whose
                        at_door = {"group": "group", "ahead": "group", "own": "own"}.get(whose)
                        if verb in OF_SEVERAL or at_door is None:
                            allowed = may_call(caller, verb) and caller.who != "nobody"
                        else:
                            allowed = may_use(caller, verb, thing, at_door)
                        told = f"{method} {path} on {thing}, by {caller}: {answer.status_code} {answer.text}"
                        if allowed:
                            assert verb in reached or answer.is_success, told
                        else:
                            assert verb not in reached, told
                            assert answer.status_code == (401 if caller.who == "nobody" else 403), told
                            assert answer.headers["content-type"] == "application/problem+json"

    run(story())


# -- what is behind it ------------------------------------------------------------------------------------------------


def requests_of(call: Call) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The requests that make this call: by the route of its verb where there is one that can, else by its name."""
    params = call.params
    if call.verb in ("file.read", "file.stat", "file.list", "file.delete"):
        method = "DELETE" if call.verb == "file.delete" else "GET"
        yield method, f"/files/{quote(params['path'])}", {}
        if call.verb == "file.list":
            yield method, f"/files/{quote(params['path'])}", {"params": {"zip": "1"}}
    elif call.verb == "file.write":
        yield "PUT", f"/files/{quote(params['path'])}", {"content": b""}
        yield "PUT", f"/files/{quote(params['path'])}", {"content": b"", "params": {"parents": "1"}}
    elif call.verb == "log.read":
        yield "GET", f"/tasks/{params['id']}/log", {}
    elif call.verb == "task.cancel" and "all" in params:
        yield "POST", f"/rpc/{call.verb}", {"json": params}
    else:
        found = [key for key, verb in rules.OVER_HTTP.items() if verb == call.verb and call.verb != "token.revoke"]
        yield request_of(*found[0], params) if found else ("POST", f"/rpc/{call.verb}", {"json": params})


@pytest.mark.parametrize("caller", one_in(2, [pytest.param(one, id=str(one)) for one in CALLERS if one.scopes is None]))
def test_whose_a_thing_is_decides_and_whoever_is_refused_changes_and_sees_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caller: Caller
) -> None:
    async def story() -> None:
        async with http_lab(tmp_path, monkeypatch) as made:
            for verb, make in OBJECTS.items():
                visitor = await made.come_in(caller)
                for thing in THINGS:
                    for call in make(made.lab, caller, thing):
                        for request in requests_of(call):
                            await check_request(made.lab, visitor, caller, (thing, call), request)
                        if rules.VERBS[verb].whose in ("account", "secret"):
                            await put_back(made, caller)
                            visitor = await made.come_in(caller)

    run(story())


async def put_back(made: HttpLab, caller: Caller) -> None:
    """Whoever changed his password can come in again."""
    if caller.who != "nobody":
        await made.lab.owner.call("user.password", name=made.lab.name(caller), password=PASSWORD)


async def check_request(
    lab: LabOfMany,
    visitor: Visitor,
    caller: Caller,
    about: tuple[Object, Call],
    request: tuple[str, str, dict[str, Any]],
) -> None:
    """Ask: it is let in where the rules say so, and where not all is as it was."""
    thing, call = about
    method, path, how = request
    before = await lab.state()
    answer = await visitor.ask(method, path, **how)
    is_fine = answer.status_code < 400
    code = "" if is_fine else answer.json()["code"]
    is_in = call.is_in(answer.json()) if is_fine and call.verb == "task.cancel" else is_fine or code not in HIDDEN
    told = f"{method} {path} on {thing}, by {caller}: {answer.status_code} {answer.text}"
    assert is_in == may_use(caller, call.verb, thing, call.whose), told
    if not is_in and call.verb != "task.cancel":
        assert await lab.state() == before, told
        assert SECRET not in answer.text
    elif is_in and call.verb not in QUEUED_ONLY:
        assert is_fine, told


@pytest.mark.parametrize("who", [*NAMES, "nobody"])
def test_what_changes_and_the_numbers_are_told_to_who_may_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: Who
) -> None:
    async def story() -> None:
        async with http_lab(tmp_path, monkeypatch) as made:
            for scopes in (*SCRIPTS, frozenset({"submit"})):
                caller = Caller("unknown", "nobody") if who == "nobody" else Caller("token", who, scopes)
                visitor = await made.come_in(caller)
                for path, verb in (("/metrics", "node.list"), (f"{BASE}/events", "subscribe")):
                    status = await status_of(made.app, path, dict(visitor.http.headers))
                    assert (status == 200) == may_call(caller, verb), (path, str(caller), status)
                    assert status in {200, *REFUSED}

    run(story())


async def status_of(app: ASGIApp, path: str, headers: dict[str, str]) -> int:
    """With what an answer begins that may go on for ever."""
    begun: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start" and not begun.done():
            begun.set_result(message["status"])

    async def receive() -> Any:
        await asyncio.Event().wait()

    told = [(name.lower().encode(), value.encode()) for name, value in {**headers, "host": "localhost:8443"}.items()]
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "https",
             "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": told,
             "client": ("127.0.0.1", 5), "server": ("localhost", 8443)}  # fmt: skip
    asked = asyncio.ensure_future(app(scope, receive, send))
    try:
        return await begun
    finally:
        asked.cancel()
        with suppress(asyncio.CancelledError):
            await asked
