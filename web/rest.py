"""Verbs over HTTP: a route for each that people know as a thing and what is done to it, and `rpc/VERB` for all.

The shipped document (`wire/openapi.json`) says which parameters a verb takes; the master says what is wrong with a
value. A request shows a program's token, or both halves of a browser's log-in.
"""

from __future__ import annotations

import hashlib
import re
from functools import cached_property
from importlib.resources import files
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as HttpRoute

from web.hall import Hall
from web.query import check_none, typed, typed_one
from web.session import shown_by
from web.whence import SAFE
from wire.errors import BadRequestError, ConflictError, NotFoundError, UnknownMethodError
from wire.message import Message
from wire.routes import BASE, NOT_OVER_HTTP, ROUTES, RPC, Route, names_in

JSON = "application/json"
_TASK_TAG = re.compile(r'"([0-9]{1,18})-[0-9a-f]{16}"')
_NEVER_KEPT = {"Cache-Control": "no-store"}


class _Changed(msgspec.Struct):
    """Of a task: the number of its last change."""

    seq: int = 0


class Document:
    """The OpenAPI document that this version ships, which describes the verbs."""

    @cached_property
    def text(self) -> bytes:
        """The document itself."""
        return files("wire").joinpath("openapi.json").read_bytes()

    @cached_property
    def _takes(self) -> dict[str, dict[str, Any]]:
        paths = msgspec.json.decode(self.text)["paths"]
        return {
            path.removeprefix(RPC): told["post"]["requestBody"]["content"][JSON]["schema"]["properties"]
            for path, told in paths.items()
            if path.startswith(RPC)
        }

    def takes(self, verb: str) -> dict[str, Any]:
        """The schemas of a verb's parameters, by their names. Raises UnknownMethodError."""
        try:
            return self._takes[verb]
        except KeyError:
            raise UnknownMethodError(Message("no_page", path=f"{RPC}{verb}")) from None


class Rest:
    """The routes of one console."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._document = Document()

    @property
    def routes(self) -> list[HttpRoute]:
        """All of them."""
        made = [HttpRoute(f"{BASE}{one.path}", self._of(one), methods=[one.method]) for one in ROUTES]
        return [
            HttpRoute(f"{RPC}{{verb}}", self.rpc, methods=["POST"]),
            HttpRoute(f"{BASE}/openapi.json", self.document),
            *made,
        ]

    async def document(self, request: Request) -> Response:
        """The OpenAPI document."""
        check_none(request.query_params.multi_items())
        return Response(self._document.text, media_type=JSON)

    async def rpc(self, request: Request) -> Response:
        """`POST rpc/VERB`: the body is the parameters, the answer the result."""
        verb = request.path_params["verb"]
        if verb in NOT_OVER_HTTP:
            raise BadRequestError(Message("verb_of_connections", verb=verb))
        takes = self._document.takes(verb)
        check_none(request.query_params.multi_items())
        params = await self._body(request)
        return await self._answer(request, verb, self._once(request, verb, takes, params))

    def _of(self, route: Route) -> Any:
        async def answer(request: Request) -> Response:
            takes = self._document.takes(route.verb)
            params = _named(route, request, takes)
            in_query = {k: v for k, v in takes.items() if k not in params} if route.method == "GET" else {}
            asked = typed(request.query_params.multi_items(), in_query)
            if route.method == "GET":
                params |= asked
            elif route.whole:
                params[route.whole] = await self._body(request)
            else:
                params = {**await self._body(request), **params}
            params = self._once(request, route.verb, takes, _if_matched(request, route, takes, params))
            return await self._answer(request, route.verb, params, makes=route)

        return answer

    async def _body(self, request: Request) -> dict[str, Any]:
        return await self._hall.body(request, shown_by(request, self._hall))

    @staticmethod
    def _once(request: Request, verb: str, takes: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
        """With the key under which the request is carried out once, however often it comes."""
        key = request.headers.get("idempotency-key")
        if key is None:
            return params
        if "request_id" not in takes:
            raise BadRequestError(Message("no_idempotency", verb=verb))
        return {**params, "request_id": key}

    async def _answer(
        self, request: Request, verb: str, params: dict[str, Any], makes: Route | None = None
    ) -> Response:
        self._hall.check_asker(request)
        result = bytes(await self._hall.callers.call(shown_by(request, self._hall), verb, params))
        headers = dict(_NEVER_KEPT)
        if verb == "task.edit":
            headers["ETag"] = _tag_of_task(result)
        if request.method in SAFE:
            tag = _tag_of_task(result) if verb == "task.show" else _tag(result)
            headers = {"Cache-Control": "private, no-cache", "ETag": tag, "Vary": "Authorization, Cookie"}
            if request.headers.get("if-none-match") == headers["ETag"]:
                return Response(status_code=304, headers=headers)
        is_made = makes is not None and makes.makes and not params.get("dry_run")
        if is_made and makes is not None and makes.path == "/tasks":
            headers["Location"] = f"{request.scope['muster'].base}api/v1/tasks/{msgspec.json.decode(result)['id']}"
        return Response(result, 201 if is_made else 200, headers, JSON)


def _named(route: Route, request: Request, takes: dict[str, Any]) -> dict[str, Any]:
    """The parameters that the path names."""
    found: dict[str, Any] = {}
    for name in names_in(route.path):
        text = request.path_params[name]
        if route.listed:
            found[route.listed] = [typed_one(text, takes[route.listed].get("items", {}))]
        else:
            found[name] = typed_one(text, takes[name])
        if route.path.startswith("/tasks/{") and not text.isdecimal():
            raise NotFoundError(Message("no_page", path=request.url.path))
    return found


def _if_matched(request: Request, route: Route, takes: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    """With what must still be so. Raises BadRequestError where the verb looks at nothing such, and ConflictError for a
    tag that is no task's."""
    said = request.headers.get("if-match")
    if said is None:
        return params
    if "if_seq" not in takes:
        raise BadRequestError(Message("no_if_match", verb=route.verb))
    if said.strip() == "*":
        return params
    found = _TASK_TAG.fullmatch(said.strip())
    if found is None:
        raise ConflictError(Message("task_changed", id=params["id"]))
    return {**params, "if_seq": int(found[1])}


def _tag_of_task(result: bytes) -> str:
    """The change number, by which an edit knows what it was made for, and what else is told of the task."""
    digest = hashlib.sha256(result).hexdigest()[:16]
    return f'"{msgspec.json.decode(result, type=_Changed).seq}-{digest}"'


def _tag(result: bytes) -> str:
    return f'"{hashlib.sha256(result).hexdigest()[:32]}"'
