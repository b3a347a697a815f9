"""The routes of files, logs and tickets."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from web import any_path, downloads  # noqa: F401  (it brings `{path:any}`)
from web.callers import Shown
from web.hall import Hall
from web.query import FLAG, TEXT, check_none, checked
from web.session import shown_by
from web.tickets import Tickets
from web.uploads import Uploads
from web.zip_downloads import Archives
from wire.errors import BadRequestError
from wire.message import Message
from wire.routes import BASE

_OF_GET = {"zip": FLAG, "after": TEXT}


class Transfers:
    """Of one console."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._uploads = Uploads(hall)
        self._archives = Archives(hall)
        self._tickets = Tickets()

    @property
    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route(f"{BASE}/files", self._roots),
            Route(f"{BASE}/files/{{path:any}}", self._get),
            Route(f"{BASE}/files/{{path:any}}", self._put, methods=["PUT"]),
            Route(f"{BASE}/files/{{path:any}}", self._delete, methods=["DELETE"]),
            Route(f"{BASE}/tasks/{{id:int}}/log", self._log),
            Route("/tickets", self._ticket, methods=["POST"]),
            Route("/tickets/{name}", self._taken),
        ]

    async def _roots(self, request: Request) -> Response:
        check_none(request.query_params.multi_items())
        answer = await self._hall.callers.call(shown_by(request, self._hall), "file.roots", {})
        return Response(bytes(answer), media_type="application/json")

    async def _get(self, request: Request) -> Response:
        shown, path = shown_by(request, self._hall), request.path_params["path"]
        asked = checked(request.query_params.multi_items(), _OF_GET)
        if asked.get("zip"):
            return await self._archives.of(shown, path)
        return await downloads.file(request, self._hall, shown, path, after=asked.get("after", ""))

    async def _put(self, request: Request) -> Response:
        self._hall.check_asker(request)
        shown, path = shown_by(request, self._hall), request.path_params["path"]
        if checked(request.query_params.multi_items(), {"parents": FLAG}).get("parents"):
            await self._make_parents(shown, path)
        return await self._uploads.put(request, shown, path)

    async def _make_parents(self, shown: Shown, path: str) -> None:
        """So that a folder is sent file by file, each of which can go on where it broke off."""
        params = {"path": path.rpartition("/")[0], "kind": "folder", "parents": True}
        await self._hall.callers.call(shown, "file.make", params)

    async def _delete(self, request: Request) -> Response:
        self._hall.check_asker(request)
        asked = checked(request.query_params.multi_items(), {"recursive": FLAG})
        params = {"path": request.path_params["path"], "recursive": False, **asked}
        answer = await self._hall.callers.call(shown_by(request, self._hall), "file.delete", params)
        return Response(bytes(answer), media_type="application/json")

    async def _log(self, request: Request) -> Response:
        return await downloads.log(request, self._hall, shown_by(request, self._hall), request.path_params["id"])

    async def _ticket(self, request: Request) -> Response:
        """For a caller with access now: the rights are checked when the ticket is used."""
        shown = shown_by(request, self._hall)
        what = (await self._hall.body(request, shown)).get("path")
        if not isinstance(what, str):
            raise BadRequestError(Message("no_ticket_for", path=str(what)))
        await self._hall.callers.call(shown, "auth.whoami", {})
        name = self._tickets.make(shown, what, await self._hall.callers.user(shown))
        return JSONResponse({"url": f"{request.scope['muster'].base}tickets/{name}"}, 201)

    async def _taken(self, request: Request) -> Response:
        ticket = self._tickets.take(request.path_params["name"], request.scope["muster"].address)
        if ticket.task is not None:
            return await downloads.log(request, self._hall, ticket.shown, ticket.task)
        if ticket.is_server_log:
            return await downloads.server_log(request, self._hall, ticket.shown)
        if ticket.is_zip:
            return await self._archives.of(ticket.shown, ticket.path)
        return await downloads.file(request, self._hall, ticket.shown, ticket.path)
