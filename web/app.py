"""All that the console answers, put together: who is heard, the routes, and what every answer says to the browser."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as Sent
from starlette.websockets import WebSocket

from web import any_path, health, me, session, shares  # noqa: F401  (the first brings `{path:any}`)
from web.certificates import Certificates
from web.events import events
from web.hall import Hall
from web.live import live
from web.pages import Pages
from web.problems import problem
from web.rest import Rest
from web.transfers import Transfers
from web.whence import SAFE
from wire.errors import BadRequestError, ForbiddenError, LimitError, MusterError, NotFoundError
from wire.message import Message
from wire.routes import BASE

log = logging.getLogger("muster.web")

HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"x-frame-options": b"DENY",
}
POLICY = b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox"
"""For whatever is no page of ours."""
_LENGTHS = frozenset({b"content-length", b"transfer-encoding"})
_TWO_LENGTHS = Message("two_lengths")
Answer = Callable[[Request, Hall], Awaitable[Response]]


class Guard:
    """Around the whole app: nobody is heard who should not be, whatever route it is."""

    def __init__(self, app: ASGIApp, hall: Hall) -> None:
        self._app = app
        self._hall = hall

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            refused = self._refused(scope)
        except (ForbiddenError, BadRequestError) as error:
            refused = problem(error, headers={"Connection": "close"} if error.key == _TWO_LENGTHS.key else None)
        if refused is None:
            await self._counted(scope, receive, send)
        elif scope["type"] == "http":
            await refused(scope, receive, _with_headers(send))
        else:
            await send({"type": "websocket.close", "code": 4403, "reason": ""})

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, as far as the share of whoever asks allows it."""
        whence = scope["muster"]
        ticket = shares.Ticket(self._hall.shares)
        shares.begin(ticket)
        try:
            ticket.enter(whence.address if whence.account is None else f"account {whence.account}")
            await self._app(scope, receive, shares.counted(_with_headers(send), ticket))
        except LimitError as error:
            if scope["type"] == "http":
                await problem(error)(scope, receive, _with_headers(send))
            else:
                await send({"type": "websocket.close", "code": 1013, "reason": ""})
        finally:
            ticket.close()

    def _refused(self, scope: Scope) -> Response | None:
        """Return a redirect to HTTPS for a plain request; None if the request is not plain. Raises ForbiddenError for
        one that cannot be redirected, and BadRequestError for one that says twice where it ends: a proxy may believe
        the other, and take what follows for the next request of somebody else."""
        if {name for name, _ in scope["headers"]} >= _LENGTHS:
            raise BadRequestError(_TWO_LENGTHS)
        whence = scope["muster"] = self._hall.gate.whence(scope)
        if not whence.is_plain:
            return None
        if scope["type"] == "http" and scope["method"] in SAFE:
            path = f"{whence.prefix}{scope['raw_path'].decode('ascii', 'replace')}"
            query = scope["query_string"].decode("ascii", "replace")
            return RedirectResponse(f"https://{whence.host}{path}{'?' if query else ''}{query}", 307)
        raise ForbiddenError(Message("plain_sign_in"))


def _with_headers(send: Send) -> Send:
    async def sent(said: Sent) -> None:
        if said["type"] == "http.response.start":
            there = {name.lower() for name, _ in said.get("headers", ())}
            more = [(name, value) for name, value in HEADERS.items() if name not in there]
            if b"content-security-policy" not in there:
                more.append((b"content-security-policy", POLICY))
            said["headers"] = [*said.get("headers", ()), *more]
        await send(said)

    return sent


def console(hall: Hall) -> ASGIApp:
    """The app, guarded."""
    return Guard(application(hall), hall)


def application(hall: Hall) -> Starlette:
    """Return the console as an application: its routes, and the answer of each."""
    pages = Pages()

    async def page(request: Request) -> Response:
        return pages.index(request)

    async def file(request: Request) -> Response:
        return pages.file(request)

    async def talk(socket: WebSocket) -> None:
        await live(socket, hall)

    async def authority(request: Request) -> Response:
        return _authority(request, hall.certificates)

    routes: list[BaseRoute] = [
        Route("/session", _told(hall, session.sign_in), methods=["POST"]),
        Route("/session", _told(hall, session.sign_out), methods=["DELETE"]),
        Route("/session", _told(hall, session.before), methods=["GET"]),
        Route("/api/v1/me", _told(hall, me.me)),
        WebSocketRoute("/live", talk),
        Route("/authority.{kind:str}", authority),
        *Rest(hall).routes,
        *Transfers(hall).routes,
        Route(f"{BASE}/events", _told(hall, events)),
        Route("/metrics", _told(hall, health.metrics)),
        Route("/healthz", _told(hall, health.healthz)),
        Route("/readyz", _told(hall, health.readyz)),
        Route("/static/{path:path}", file),
        Route("/api/{path:path}", _nowhere, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
        Route("/{path:any}", page),
    ]

    @asynccontextmanager
    async def life(_app: Starlette) -> AsyncIterator[None]:
        tending = asyncio.create_task(hall.callers.tend())
        try:
            yield
        finally:
            tending.cancel()
            with suppress(asyncio.CancelledError):
                await tending
            await hall.close()

    handlers = {MusterError: _refusal, HTTPException: _http_refusal, Exception: _defect}
    return Starlette(routes=routes, lifespan=life, exception_handlers=handlers)  # type: ignore[arg-type]


def _told(hall: Hall, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
    async def told(request: Request) -> Response:
        return await answer(request, hall)

    return told


def _authority(_request: Request, certificates: Certificates) -> Response:
    """The root that people install, as they need it: PEM, or DER with the name that Windows and phones open."""
    kind = _request.path_params["kind"]
    if certificates.root is None or kind not in ("pem", "crt"):
        raise NotFoundError(Message("no_page", path=_request.url.path))
    data = certificates.root.read_bytes()
    if kind == "crt":
        data = certificates.der()
    headers = {"Content-Disposition": f'attachment; filename="muster-authority.{kind}"', "Cache-Control": "no-cache"}
    return Response(data, media_type="application/x-x509-ca-cert", headers=headers)


async def _nowhere(request: Request) -> Response:
    raise NotFoundError(Message("no_page", path=request.url.path))


async def _refusal(_request: Request, error: MusterError) -> Response:
    return problem(error)


async def _http_refusal(request: Request, error: HTTPException) -> Response:
    if error.status_code == 405:  # noqa: PLR2004
        told = BadRequestError(Message("no_method", method=request.method, path=request.url.path))
        return problem(told, 405, dict(error.headers or {}))
    return problem(NotFoundError(Message("no_page", path=request.url.path)), error.status_code)


async def _defect(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem(MusterError(Message("defect")))
