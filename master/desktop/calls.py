"""A request of the desktop client: which function answers it through the verbs, and how a refusal of it is shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from master.verbs.call import Calls
from master.verbs.convert import convert
from wire.errors import BadRequestError

T = TypeVar("T")

Reply = tuple[str, Any]
"""The mode of the reply and its `info`."""


class Kind(msgspec.Struct, frozen=True):
    """One request of the client. `refuse(info, text)` is the reply that shows the text; `changes`: it is carried out
    even if the client has left meanwhile; after `limit_s` seconds it is refused, whatever its result. `begins(calls,
    info)`: whether it may be the first of several that belong together, and must be carried out at one instant."""

    handle: Callable[[Calls, Any], Reply | Awaitable[Reply]]
    refuse: Callable[[Any, str], Reply]
    changes: bool = False
    limit_s: float = 30.0
    begins: Callable[[Calls, Any], bool] | None = None


def read_form(info: Any, kind: type[T], about: str) -> T:
    """Read the request as the type says. Raises BadRequestError that says what is wrong with it, behind `about`:
    a sentence, because the client shows nothing else."""
    try:
        return convert(info, kind)
    except BadRequestError as error:
        raise BadRequestError(f"{about}{error}") from None
