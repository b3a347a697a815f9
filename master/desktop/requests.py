"""Every request of the desktop client, by its mode: which function answers it, and how a refusal of it is shown.

A refusal must reach the user in every case: most of the client's boxes are modal and closed by the reply only. Some
replies show nothing; those refusals are shown by the box of another request.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from master.desktop import envs, files, logs, tasks
from master.desktop.calls import Kind, Reply
from master.desktop.chinese import in_chinese, words_in_chinese
from master.verbs.call import Calls


async def answer(kind: Kind, calls: Calls, info: Any) -> Reply:
    """The reply to a request, once all that it tells is durable. Never raises an Exception, and never takes longer
    than the request may."""
    try:
        async with asyncio.timeout(kind.limit_s):
            reply = kind.handle(calls, info)
            if inspect.isawaitable(reply):
                reply = await reply
            await calls.settled()
    except TimeoutError:
        cure = "it may still happen: look before you ask again" if kind.changes else "try again, or see `muster nodes`"
        return kind.refuse(info, words_in_chinese(f"no answer within {kind.limit_s:g} s; {cure}"))
    except Exception as error:  # noqa: BLE001  (a modal box of the client's waits for the reply, whatever failed)
        return kind.refuse(info, in_chinese(calls.told(error, "the desktop client", info)))
    return reply


REQUESTS: dict[str, Kind] = {**tasks.KINDS, **logs.KINDS, **files.KINDS, **envs.KINDS}
