"""A request that is sent again: with the same `request_id` it is one request, and gets the answer that it got before.

Owns how an answer is remembered, and what is the same request. The core keeps answers beside the change that they tell
of, so that after a crash there are both or neither.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, get_args

import msgspec

from master.engine.engine import Engine
from wire.errors import BadRequestError, ConflictError
from wire.message import Message

_encode = msgspec.json.Encoder(order="deterministic").encode
_NOT_IN_OLDER = frozenset({"request_id", "dry_run"})
MOST_ID = 1000
"""Characters of a request's id, which is kept with the answer."""
_OF = "of"
"""In a remembered answer: the digest of what was asked for. Those of an older master have none."""
_WITH_DIGEST = b'%%b,"%b":"%%b"}' % _OF.encode()


def answer_to(params: msgspec.Struct, result: Any) -> msgspec.Raw:
    """The answer to a request, as it is remembered."""
    return msgspec.Raw(_WITH_DIGEST % (_encode(result)[:-1], _digest(params).encode()))


def answered(engine: Engine, request_id: str, params: msgspec.Struct, result: Any) -> Any:
    """Return the earlier answer to the same request, as one of the types that the verb's `result` names; None if it is
    new.

    Raises ConflictError where the id was another request's: its answer would be taken for that of this one, which was
    never carried out; StoreUnavailableError while it cannot be told what holds.
    """
    if len(request_id) > MOST_ID:  # with the name of whose it is
        raise BadRequestError(Message("text_too_long", field="request_id", count=len(request_id), most=MOST_ID))
    known = engine.core.answered.get(request_id)
    if known is None:
        return None
    engine.check_durable()
    answer = msgspec.json.decode(known, type=dict[str, Any])
    of = answer.pop(_OF, None)
    keys = tuple(answer)
    kind = next((one for one in get_args(result) or (result,) if one.__struct_fields__ == keys), None)
    if kind is None or not _is_of(of, params):
        raise ConflictError(Message("request_id_used", request_id=request_id.rpartition("\n")[2], tasks=_which(answer)))
    return msgspec.convert(answer, kind)


def _which(answer: dict[str, Any]) -> Message:
    first: int = answer["id"] if "id" in answer else answer["first"]
    last = first + int(answer.get("count", 1)) - 1
    return Message("one_task", id=first) if last == first else Message("tasks_from", first=first, last=last)


def _is_of(of: str | None, params: msgspec.Struct) -> bool:
    """Whether an answer that has this digest was given to this request. The older way to make one is tried last: a
    request may come again to the master that follows the one it was first sent to."""
    return of is None or of == _digest(params) or of == _older_digest(params)


def _digest(params: msgspec.Struct) -> str:
    """Return a short digest of the request. A parameter that is given at its default does not count: the encoding
    leaves defaults out. The id, which is the same, may be in it."""
    return blake2b(_encode(params), digest_size=9).hexdigest()


def _older_digest(params: msgspec.Struct) -> str:
    said = {field: value for field, value in msgspec.structs.asdict(params).items() if field not in _NOT_IN_OLDER}
    usual = {field.name: field.default for field in msgspec.structs.fields(params)}
    empty: tuple[Any, ...] = (None, "", 0, False, [], {})
    said = {field: value for field, value in said.items() if value not in empty and value != usual[field]}
    return blake2b(msgspec.json.encode(said, order="sorted"), digest_size=9).hexdigest()
