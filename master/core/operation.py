"""An operation of a part, under a name of the core. Pure.

The class has it by name, so that `help`, an editor and a search find it there, with its description and its types; what
is called is the method of the one part of its class that the core has.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

if TYPE_CHECKING:
    from master.core.core import Core

Part = TypeVar("Part")
P = ParamSpec("P")
R = TypeVar("R")


class operation(Generic[Part, P, R]):  # noqa: N801 - used like `property`
    """`method`: of the class of a part, of which the core has exactly one."""

    def __init__(self, method: Callable[Concatenate[Part, P], R]) -> None:
        self._method = method
        self._class = method.__qualname__.partition(".")[0]
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, core: None, owner: type) -> Callable[Concatenate[Part, P], R]: ...

    @overload
    def __get__(self, core: Core, owner: type) -> Callable[P, R]: ...

    def __get__(self, core: Core | None, owner: type) -> Callable[..., Any]:
        """Return the method of the core's part. It is looked up once for each core."""
        if core is None:
            return self._method
        bound = MethodType(self._method, core.part(self._class))
        vars(core)[self._name] = bound
        return bound
