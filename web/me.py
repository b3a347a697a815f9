"""The signed-in user, and facts about this lab that a page needs."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from web.hall import Hall
from web.problems import TYPE, body
from web.query import check_none
from web.session import shown_by
from wire.errors import UnauthenticatedError
from wire.version import VERSION

LANGUAGES = ("en", "zh")


async def me(request: Request, hall: Hall) -> Response:
    """`GET api/v1/me`: `auth.whoami`, and the lab's `version`, `privacy` and `languages`. Nobody is told 401, with
    whether anybody can sign in at all."""
    check_none(request.query_params.multi_items())
    try:
        shown = shown_by(request, hall)
        who = msgspec.json.decode(await hall.callers.call(shown, "auth.whoami", {}))
    except UnauthenticatedError as error:
        told = {**body(error), "is_shared": await hall.about.is_shared()}
        return Response(msgspec.json.encode(told), 401, media_type=TYPE)
    who |= {"version": VERSION, "privacy": await hall.about.privacy(), "languages": LANGUAGES}
    return Response(msgspec.json.encode(who), media_type="application/json", headers={"Cache-Control": "no-store"})
