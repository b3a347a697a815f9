"""Every request of the desktop client, by its mode: who answers it, and how a refusal of it is told.

A refusal must reach the user whatever was asked: most of the client's boxes are modal and closed by the reply only,
and some replies show nothing. Those are told through the box of another request.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import Any

from master.desktop import envs, files, logs, tasks
from master.desktop.calls import Kind, Reply, durable
from master.verbs.base import Context
from wire.errors import MusterError

log = logging.getLogger("muster.desktop")


async def answer(kind: Kind, context: Context, info: Any) -> Reply:
    """The reply to a request, once all that it tells is durable. Never raises an Exception, and never takes longer
    than the request may."""
    try:
        async with asyncio.timeout(kind.limit_s):
            reply = kind.handle(context, info)
            if inspect.isawaitable(reply):
                reply = await reply
            await durable(context)
    except MusterError as error:
        return kind.refuse(info, str(error))
    except TimeoutError:
        cure = "it may still happen: look before you ask again" if kind.changes else "try again, or see `muster nodes`"
        return kind.refuse(info, f"no answer within {kind.limit_s:g} s; {cure}")
    except Exception:
        log.exception("a request of the desktop client at %s failed: %.300r", context.peer.address, info)
        return kind.refuse(info, "the master met a defect; its log has the details")
    return reply


REQUESTS: dict[str, Kind] = {**tasks.KINDS, **logs.KINDS, **files.KINDS, **envs.KINDS}
