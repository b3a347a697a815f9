"""Signing in and out of a browser. A log-in is the master's; the browser holds it in two halves.

One half is a cookie that scripts cannot read, and that every service of this host gets to see, for cookies know no
ports; the other a key in the storage of our origin, which the page sends along. Neither is of use without the other:
they are the two halves of one secret.
"""

from __future__ import annotations

from http.cookies import SimpleCookie
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from web.bodies import read
from web.callers import Shown
from web.hall import Hall
from web.upstream import Upstream
from wire.errors import BadRequestError, ForbiddenError, UnauthenticatedError
from wire.message import Message

KEY = "x-muster-key"
HALF = 21
"""Of the 43 signs of a secret so many stand in the cookie: 126 bits, and 132 in the key."""
MAX_AGE_S, SCREEN_AGE_S = 30 * 86400, 400 * 86400
"""So long a browser keeps the cookie: as long as the log-in lasts at most, that of a screen on a wall for longer."""
MOST_BYTES = 64 << 10
_Text = Annotated[str, Meta(max_length=4096)]


class SignIn(msgspec.Struct, forbid_unknown_fields=True):
    """With a `user` and `password`; with a `token`; or with a `link` and the new `password`."""

    user: _Text | None = None
    password: _Text | None = None
    token: _Text | None = None
    link: _Text | None = None


def cookie_name(hall: Hall) -> str:
    """Two labs on one machine have different ones: cookies know no ports."""
    return f"__Host-muster-{hall.settings.web.port}"


def shown_by(connection: HTTPConnection, hall: Hall, key: str | None = None) -> Shown:
    """Return the credentials of a request: a program's token, or both halves of a browser's log-in; `key`: the second
    half, if it did not come in its header. Raises UnauthenticatedError."""
    whence = connection.scope["muster"]
    bearer = connection.headers.get("authorization", "")
    if bearer[:7].lower() == "bearer ":
        return Shown(bearer[7:].strip(), whence.address, whence.account)
    half = connection.cookies.get(cookie_name(hall), "")
    token_id, _, first = half.partition(".")
    second = connection.headers.get(KEY, "") if key is None else key
    if not (token_id and first and second):
        raise UnauthenticatedError(Message("sign_in_first"))
    return Shown(f"mst_{token_id}_{first}{second}", whence.address, whence.account)


async def sign_in(request: Request, hall: Hall) -> Response:
    """`POST session`: 200 with the key, and the other half as a cookie."""
    whence = request.scope["muster"]
    hall.gate.check_origin(whence, request.headers, needed=True)
    if whence.is_plain:
        raise ForbiddenError(Message("plain_sign_in"))
    wanted = await _wanted(request)
    upstream = await Upstream.open(hall.settings, "calls", origin=whence.address, account=whence.account)
    try:
        made = msgspec.json.decode(await _begun(upstream, wanted, _label(request.headers.get("user-agent", ""))))
        user = await upstream.call("auth.whoami", {})
    finally:
        await upstream.close()
    _, token_id, secret = made["token"].split("_", 2)
    body = {"key": secret[HALF:], "id": token_id, "until": made["until"], "user": user}
    answer = Response(msgspec.json.encode(body), media_type="application/json", headers={"Cache-Control": "no-store"})
    age_s = SCREEN_AGE_S if msgspec.json.decode(user)["scopes"] == ["wall"] else MAX_AGE_S
    answer.headers.append("Set-Cookie", _cookie(hall, f"{token_id}.{secret[:HALF]}", age_s))
    return answer


async def _begun(upstream: Upstream, wanted: SignIn, label: str) -> msgspec.Raw:
    if wanted.link is not None and wanted.password is not None:
        return await upstream.call("auth.redeem", {"link": wanted.link, "password": wanted.password, "label": label})
    if wanted.token is not None:
        await upstream.call("auth.token", {"token": wanted.token.strip()})
        return await upstream.call("auth.session", {"label": label})
    if wanted.user is None or wanted.password is None:
        raise BadRequestError(Message("sign_in_with"))
    return await upstream.call("auth.login", {"name": wanted.user, "password": wanted.password, "label": label})


async def sign_out(request: Request, hall: Hall) -> Response:
    """`DELETE session`: the log-in ends, everywhere and at once."""
    hall.gate.check_origin(request.scope["muster"], request.headers, needed=True)
    await hall.callers.call(shown_by(request, hall), "auth.logout", {})
    answer = Response(status_code=204)
    answer.headers.append("Set-Cookie", _cookie(hall, "", 0))
    return answer


async def before(_request: Request, hall: Hall) -> Response:
    """`GET session`: what the page to sign in needs to know, before anybody is known."""
    told = {
        "is_shared": await hall.about.is_shared(),
        "command": "muster users add NAME --admin",
        "authority": hall.certificates.fingerprint(),
    }
    return Response(msgspec.json.encode(told), media_type="application/json", headers={"Cache-Control": "no-store"})


async def _wanted(request: Request) -> SignIn:
    try:
        return msgspec.json.decode(await read(request, MOST_BYTES), type=SignIn)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise BadRequestError(Message("sign_in_with")) from None


def _cookie(hall: Hall, value: str, age_s: int) -> str:
    cookie: SimpleCookie = SimpleCookie()
    name = cookie_name(hall)
    cookie[name] = value
    told: Any = cookie[name]
    told["path"], told["max-age"], told["samesite"] = "/", age_s, "Strict"
    told["secure"] = told["httponly"] = True
    return str(told.OutputString())


def _label(agent: str) -> str:
    """In which browser, on which system, as far as it says so: for the list of log-ins."""
    browsers = {"Edg/": "Edge", "Firefox/": "Firefox", "Chrome/": "Chrome", "Safari/": "Safari"}
    systems = {"Windows": "Windows", "Android": "Android", "iPhone": "iOS", "iPad": "iOS", "Mac OS": "macOS",
               "Linux": "Linux"}  # fmt: skip
    found = [next((name for sign, name in table.items() if sign in agent), "") for table in (browsers, systems)]
    return ", ".join(filter(None, found)) or "browser"
