"""The routes of the HTTP interface in the OpenAPI document: those that are a verb each are made of what is told of the
verb, by `wire.routes`; the few that are more than that are written down here. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wire.routes import BASE, ROUTES, RPC, Route, names_in

_JSON = "application/json"
_OCTETS = "application/octet-stream"
_BEYOND = {"description": "Nothing is there: `Content-Range` says how long it is."}
_BYTES = {"type": "string", "format": "binary"}
_PROBLEM = "#/components/schemas/Problem"
SECURITY = {
    "token": {"type": "http", "scheme": "bearer", "description": "`muster tokens new`"},
    "session": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Muster-Key",
        "description": "A browser's log-in (`POST /session`): this header, and the cookie that came with it.",
    },
}


def routes(rpc: Mapping[str, Any]) -> dict[str, Any]:
    """Their paths. `rpc`: those of all verbs."""
    paths: dict[str, Any] = {}
    for route in ROUTES:
        if f"{RPC}{route.verb}" not in rpc:
            continue  # of a table of fewer verbs less is told
        told = _operation(route, rpc[f"{RPC}{route.verb}"]["post"])
        paths.setdefault(f"{BASE}{route.path}", {})[route.method.lower()] = told
    for path, method, verb, told in _written_down():
        if f"{RPC}{verb}" not in rpc:
            continue
        paths.setdefault(path, {})[method] = {**told, "responses": {**told["responses"], "default": _refused()}}
    return paths


def _operation(route: Route, verb: Mapping[str, Any]) -> dict[str, Any]:
    taken = verb["requestBody"]["content"][_JSON]["schema"]
    fields: dict[str, Any] = taken["properties"]
    named = {name: _field(fields, route, name) for name in names_in(route.path)}
    rest = {name: schema for name, schema in fields.items() if name not in named and name != route.listed}
    kept = ("tags", "summary", "description", "x-muster-role", "x-muster-scope", "x-muster-whose")
    told: dict[str, Any] = {"operationId": _id_of(route), **{key: verb[key] for key in kept}}
    parameters = [_parameter("path", name, schema, needed=True) for name, schema in named.items()]
    if route.method == "GET":
        needed = taken.get("required", ())
        parameters += [_parameter("query", name, schema, needed=name in needed) for name, schema in rest.items()]
    elif rest:
        told["requestBody"] = _body(route, taken, rest)
    if "request_id" in fields:
        text = {"type": "string"}
        parameters.append(_parameter("header", "Idempotency-Key", text, needed=False))
    if "if_seq" in fields:
        parameters.append(_parameter("header", "If-Match", {"type": "string"}, needed=False))
    if parameters:
        told["parameters"] = parameters
    answer = verb["responses"]["200"]
    told["responses"] = {"201" if route.makes else "200": answer, "default": _refused()}
    if route.makes and route.verb == "task.submit":
        told["responses"]["200"] = {**answer, "description": "With `dry_run`: nothing was filed."}
    return told


def _id_of(route: Route) -> str:
    """As the functions of a client that is made from the document are called: `tasks_get`, `task_cancel_post`. The
    verbs' own are `task_submit`, so these must be others."""
    words = route.path.strip("/").split("/")
    of_one = [word.removesuffix("s") if at + 1 < len(words) and words[at + 1].startswith("{") else word
              for at, word in enumerate(words) if not word.startswith("{")]  # fmt: skip
    return "_".join([*of_one, route.method.lower()])


def _field(fields: Mapping[str, Any], route: Route, name: str) -> dict[str, Any]:
    """Return the schema of a value in the path: for a list, that of its items."""
    if route.listed:
        listed: dict[str, Any] = fields[route.listed]
        ways = listed.get("anyOf", [listed])
        return next(dict(way["items"]) for way in ways if way.get("type") == "array")
    return dict(fields[name])


def _body(route: Route, taken: Mapping[str, Any], rest: Mapping[str, Any]) -> dict[str, Any]:
    needed = [name for name in taken.get("required", ()) if name in rest]
    if route.whole:
        schema = dict(rest[route.whole])
    else:
        schema = {"type": "object", "properties": dict(rest), "additionalProperties": False}
        if needed:
            schema["required"] = needed
    return {"required": bool(needed), "content": {_JSON: {"schema": schema}}}


def _parameter(place: str, name: str, schema: Mapping[str, Any], *, needed: bool) -> dict[str, Any]:
    return {"in": place, "name": name, "required": needed, "schema": schema}


def _refused() -> dict[str, Any]:
    return {"description": "Why not.", "content": {"application/problem+json": {"schema": {"$ref": _PROBLEM}}}}


def _written_down() -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Path, method, a verb that is behind it, and what is told of it."""
    path = _parameter("path", "path", {"type": "string", "examples": ["data/run1/model.pt"]}, needed=True)
    task = _parameter("path", "id", {"type": "integer", "minimum": 1}, needed=True)
    span = _parameter("header", "Range", {"type": "string", "examples": ["bytes=0-99", "bytes=-65536"]}, needed=False)
    tag = _parameter("header", "If-Match", {"type": "string"}, needed=False)
    fresh = _parameter("header", "If-None-Match", {"type": "string", "examples": ["*"]}, needed=False)
    part = _parameter("header", "Content-Range", {"type": "string", "examples": ["bytes 0-99/200"]}, needed=False)
    upload = _parameter("header", "X-Muster-Upload", {"type": "string"}, needed=False)
    follow = _parameter("query", "follow", {"type": "boolean"}, needed=False)
    rank = _parameter("query", "rank", {"type": "integer", "minimum": 0}, needed=False)
    stream = _parameter("query", "stream", {"enum": ["tasks", "nodes"], "default": "tasks"}, needed=False)
    last = _parameter("header", "Last-Event-ID", {"type": "string"}, needed=False)
    recursive = _parameter("query", "recursive", {"type": "boolean"}, needed=False)
    listing = {"schema": {"$ref": "#/components/schemas/Listing"}}
    files = f"{BASE}/files/{{path}}"
    yield files, "get", "file.read", _told(
        "files_get", "A file, or a range of it; of a folder what is in it", [path, span],
        {"200": {**_raw(_OCTETS), "content": {_OCTETS: {"schema": _BYTES}, _JSON: listing}},
         "206": _raw(_OCTETS), "416": _BEYOND},
    )  # fmt: skip
    given = {"schema": {"$ref": "#/components/schemas/Entry"}}
    entry = {"description": "It is in its place.", "content": {_JSON: given}}
    more = {"description": "So much is there (`Range`), more is to come, for the upload `X-Muster-Upload`."}
    yield files, "put", "file.write", {
        **_told("files_put", "Write a file, whole or in pieces", [path, tag, fresh, part, upload],
                {"201": entry, "200": entry, "308": more}),
        "requestBody": _written(),
    }  # fmt: skip
    gone = {"description": "It is gone.", "content": {_JSON: {"schema": {"$ref": "#/components/schemas/Deleted"}}}}
    yield (
        files,
        "delete",
        "file.delete",
        _told("files_delete", "Delete a file or a folder", [path, recursive], {"200": gone}),
    )
    yield f"{BASE}/tasks/{{id}}/log", "get", "log.read", _told(
        "task_log", "A task's log, or a range of it; with `follow` all that is added until it has ended",
        [task, rank, follow, span],
        {"200": _raw(_OCTETS), "206": _raw(_OCTETS), "416": _BEYOND},
    )  # fmt: skip
    yield f"{BASE}/events", "get", "subscribe", _told(
        "events", "A snapshot, then each change, as server-sent events", [stream, last],
        {"200": _raw("text/event-stream")},
    )  # fmt: skip
    yield "/metrics", "get", "node.list", _told("metrics", "Numbers for Prometheus", [], {"200": _raw("text/plain")})
    for name, told in (("healthz", "The console is there"), ("readyz", "The master is there, too")):
        yield f"/{name}", "get", "server.info", {**_told(name, told, [], {"200": _raw("text/plain")}), "security": []}


def _told(name: str, summary: str, parameters: list[dict[str, Any]], responses: dict[str, Any]) -> dict[str, Any]:
    told = {"operationId": name, "tags": ["http"], "summary": summary, "responses": responses}
    return {**told, "parameters": parameters} if parameters else told


def _written() -> dict[str, Any]:
    return {"required": True, "content": {_OCTETS: {"schema": _BYTES}}}


def _raw(kind: str) -> dict[str, Any]:
    schema = {"type": "string"} if kind.startswith("text/") else _BYTES
    return {"description": "As it is.", "content": {kind: {"schema": schema}}}
