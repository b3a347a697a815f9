"""The verbs about allocations, as `allocations` of `client.api.Client`: GPUs that somebody holds for a while."""

from __future__ import annotations

from client.answers import clear_errors
from client.caller import new_request_id
from wire.numbers import whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.caller import Caller
    from client.shapes import Allocated, Task


@clear_errors
class Allocations:
    """The calls of a Client about allocations."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def new(self, name: str, gpus: int | None = None, **spec: Any) -> int:
        """Ask for GPUs to hold under a name, and give the id of the task that does; `granted` waits for them. `spec`:
        what of a submit tells which, where and when: `gpu_models`, `nodes`, `node`, `time_limit_s` …"""
        params = {"request_id": new_request_id(), "name": name, **({} if gpus is None else {"gpus": gpus}), **spec}
        made: int = self._caller.call("alloc.new", params)["id"]
        return made

    def granted(self, task_id: int, timeout: float | None = None) -> Task:
        """Wait until an allocation is held, or has ended, and give the task. Raises TimeoutError; `timeout` in
        seconds."""
        from client.waiting import wait

        return wait(self._caller, [task_id], timeout, until="started")[task_id]

    def list(self) -> list[Allocated]:
        """Those that are not over, the oldest first."""
        found: list[Allocated] = self._caller.call("alloc.list", {})
        return found

    def release(self, name: str | int, *, wait: bool = False) -> Allocated:
        """Give one back, by name or id. Raises ConflictError while tasks are within; with `wait` it is released once
        the last of them has ended, and takes no others."""
        params = {"id": self._id(name), "wait": wait}
        released: Allocated = self._caller.call("alloc.release", params, repeatable=False)
        return released

    def grow(self, name: str | int, gpus: int) -> Allocated:
        """So many GPUs more on each of its nodes, at once. Raises ConflictError where they are not free, or others wait
        for them."""
        params = {"id": self._id(name), "gpus": gpus}
        resized: Allocated = self._caller.call("alloc.grow", params, repeatable=False)
        return resized

    def shrink(self, name: str | int, gpus: int) -> Allocated:
        """So many GPUs less on each of its nodes. Raises ConflictError where tasks within use or need them."""
        params = {"id": self._id(name), "gpus": gpus}
        resized: Allocated = self._caller.call("alloc.shrink", params, repeatable=False)
        return resized

    def _id(self, name: str | int) -> int:
        number = name if isinstance(name, int) else whole_number(name)
        if number is not None:
            return number
        for one in self.list():
            if one["name"] == name:
                return one["id"]
        from wire.errors import NotFoundError
        from wire.message import Message

        raise NotFoundError(Message("no_allocation", name=name))
