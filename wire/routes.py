"""The routes of the HTTP interface that are a verb each: what the console answers by, and the OpenAPI document tells.

A route is a method and a path, the verb behind it, and where the verb's parameters come from: names in the path, and of
a GET the query, of any other the body.
"""

from __future__ import annotations

from typing import NamedTuple

BASE = "/api/v1"
RPC = f"{BASE}/rpc/"
NOT_OVER_HTTP = frozenset(
    {"subscribe", "server.hello", "auth.login", "auth.token", "auth.redeem", "auth.relay", "auth.session"}
)
"""Verbs that make of a connection somebody's, or tell over it what changes: an HTTP request says each time who asks."""


class Route(NamedTuple):
    """`path` beneath BASE. `whole`: the one parameter that the body is, if it is one; `listed`: the parameter that is a
    list of what the path names; `makes`: it creates, and answers 201."""

    method: str
    path: str
    verb: str
    whole: str = ""
    listed: str = ""
    makes: bool = False


def _acts(noun: str, name: str, *words: str) -> list[Route]:
    """`POST /NOUNs/{NAME}/WORD` for verbs of one thing."""
    return [Route("POST", f"/{noun}s/{{{name}}}/{word}", f"{noun}.{word}") for word in words]


ROUTES: tuple[Route, ...] = (
    Route("GET", "/info", "server.info"),
    Route("GET", "/tasks", "task.list"),
    Route("POST", "/tasks", "task.submit", makes=True),
    Route("POST", "/tasks/batch", "task.submit_batch", makes=True),
    Route("POST", "/tasks/array", "task.submit_array", makes=True),
    Route("GET", "/tasks/archived", "task.archived"),
    Route("GET", "/tasks/{id}", "task.show"),
    Route("PATCH", "/tasks/{id}", "task.edit", whole="changes"),
    Route("DELETE", "/tasks/{id}", "task.remove"),
    Route("GET", "/tasks/{id}/why", "task.why"),
    Route("POST", "/tasks/{id}/cancel", "task.cancel", listed="ids"),
    *_acts("task", "id", "hold", "release", "pause", "resume", "move", "start", "retry"),
    Route("GET", "/nodes", "node.list"),
    Route("POST", "/nodes", "node.add", makes=True),
    Route("GET", "/nodes/{name}", "node.show"),
    Route("PATCH", "/nodes/{name}", "node.edit", whole="changes"),
    Route("DELETE", "/nodes/{name}", "node.remove"),
    *_acts("node", "name", "drain", "resume"),
    Route("GET", "/users", "user.list"),
    Route("POST", "/users", "user.add", makes=True),
    Route("PATCH", "/users/{name}", "user.edit", whole="changes"),
    Route("DELETE", "/users/{name}", "user.remove"),
    *_acts("user", "name", "disable", "enable"),
    Route("GET", "/groups", "group.list"),
    Route("POST", "/groups", "group.add", makes=True),
    Route("PATCH", "/groups/{name}", "group.edit"),
    Route("DELETE", "/groups/{name}", "group.remove"),
    Route("GET", "/projects", "project.list"),
    Route("PATCH", "/projects/{name}", "project.edit", whole="changes"),
    Route("GET", "/tokens", "token.list"),
    Route("POST", "/tokens", "token.new", makes=True),
    Route("DELETE", "/tokens/{id}", "token.revoke", listed="tokens"),
    Route("GET", "/settings", "setting.list"),
    Route("PUT", "/settings/{name}", "setting.set"),
    Route("DELETE", "/settings/{name}", "setting.reset"),
    Route("GET", "/conf/{name}", "conf.read"),
    Route("PUT", "/conf/{name}", "conf.write"),
    Route("GET", "/conf/{name}/kept", "conf.kept"),
    Route("GET", "/envs", "env.list"),
    Route("GET", "/audit", "audit.read"),
)


def names_in(path: str) -> list[str]:
    """The parameters that stand in a path."""
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]
