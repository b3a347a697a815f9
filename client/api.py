"""The Python API: `connect()` gives a Client with one method per verb, synchronous and small.

Owns what takes more than one call: following a log, waiting for tasks. Tasks and nodes are plain dicts, typed in
`client.shapes`. Every method raises a `wire.errors.MusterError`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator

from client.address import Address, find
from client.nodes import NodeVerbs
from client.session import CALL_TIMEOUT_S, ConnectionLostError, Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, Self

    from client.files import Files
    from client.shapes import Cancelled, Task, Why

    OnWarning = Callable[[str | None], object]

ENDED = frozenset({"succeeded", "failed", "cancelled", "timed_out", "lost"})
LOG_CHUNK = 1 << 20
LOG_WAIT_S = 20.0
"""How long the master keeps a question for more of a log; it answers as soon as there is more."""
_LEAST_PAUSE_S = 0.05
_KEEPALIVE_S = 20.0


def connect(conf: str | None = None, master: str | None = None, token: str | None = None) -> Client:
    """A client of the master that conf.json `conf` describes or that listens at `master` (HOST[:PORT]).

    Without either: MUSTER_MASTER, MUSTER_CONF, ./conf.json. Raises ConfigError, UnreachableError.
    """
    client = Client(find(conf, master), token or os.environ.get("MUSTER_TOKEN"))
    client.session.connect()
    return client


class Client(NodeVerbs):
    """The verbs. Use it as a context manager, or `close()` it."""

    def __init__(self, address: Address, token: str | None = None) -> None:
        self.address = address
        self.token = token
        self.session = Session(address.host, address.data, token, trust=address.trust)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.session.close()

    def submit(self, command: list[str] | str, **spec: Any) -> int:
        """Queue a command (an argument list, or a string for bash) and give its id; it is on disk by then.

        `spec`: name, project, cwd, env, setup, variables, gpus, gpu_ids, cpus, node, after, priority, urgent,
        time_limit_s, log, hold; and `request_id`: two submits with the same one are one submit.
        """
        spec.setdefault("request_id", new_request_id())
        return int(self.call("task.submit", {"command": command, **spec})["id"])

    def submit_batch(self, commands: list[str], **spec: Any) -> list[int]:
        """Queue many bash lines with the same `spec`, all of them or none; the ids are consecutive."""
        spec.setdefault("request_id", new_request_id())
        result = self.call("task.submit_batch", {"commands": commands, **spec})
        return list(range(result["first"], result["first"] + result["count"]))

    def check(self, command: list[str] | str, **spec: Any) -> dict[str, Any]:
        """Where the command would run now (`placement`), or why it would wait (`reason`); nothing is queued."""
        return self._dict("task.submit", {"command": command, **spec, "dry_run": True})

    def list_tasks(self, **filters: Any) -> tuple[list[Task], int]:
        """Tasks in the queue's order, and how many there are without `limit` and `offset`.

        `filters`: states, active (True unless said), ended, user, search, ids, limit, offset.
        """
        result = self.call("task.list", {**filters, "sparse": True})
        return whole_tasks(result), result["total"]

    def tasks(self, **filters: Any) -> list[Task]:
        """Like `list_tasks`, without the total."""
        return self.list_tasks(**filters)[0]

    def show(self, task_id: int) -> Task:
        """One task, whole."""
        task: Task = self.call("task.show", {"id": task_id})
        return task

    def why(self, task_id: int) -> Why:
        """Why a task is in the state in which it is."""
        why: Why = self.call("task.why", {"id": task_id})
        return why

    def cancel(self, ids: Iterable[int] = (), *, everything: bool = False, mine: bool = False) -> Cancelled:
        """End tasks: those named, all (`everything`), or all of ours (`mine`)."""
        which: dict[str, Any] = {"all": True} if everything else {"mine": True} if mine else {"ids": list(ids)}
        done: Cancelled = self.call("task.cancel", which)
        return done

    def edit(self, task_id: int, **changes: Any) -> Task:
        """Change fields of a task; the names are those of `submit`."""
        return self._task("task.edit", {"id": task_id, "changes": changes})

    def hold(self, task_id: int) -> Task:
        """Keep a waiting task from starting until it is released."""
        return self._task("task.hold", {"id": task_id})

    def release(self, task_id: int) -> Task:
        """Let a held task wait again."""
        return self._task("task.release", {"id": task_id})

    def move(self, task_id: int, position: int) -> Task:
        """Put a waiting task at a place in the queue; 1 is the next one."""
        return self._task("task.move", {"id": task_id, "position": position})

    def start(self, task_id: int) -> Task:
        """Start a task as soon as its GPUs are free, whatever its priority, predecessors and hold say."""
        return self._task("task.start", {"id": task_id}, repeatable=False)

    def retry(self, task_id: int) -> Task:
        """Queue an ended task again, as a new attempt."""
        return self._task("task.retry", {"id": task_id}, repeatable=False)

    def remove(self, task_id: int, *, successors: bool = False) -> list[int]:
        """Delete a task that is not alive, with those that wait for it if so asked; gives the ids that are gone."""
        params = {"id": task_id, "successors": successors}
        return list(self.call("task.remove", params, repeatable=False)["removed"])

    def info(self) -> dict[str, Any]:
        """Version, ports, counts and health of the master."""
        return self._dict("server.info", {})

    def stop_master(self) -> None:
        """End the master; tasks run on."""
        self.call("server.stop", {}, repeatable=False)

    @property
    def files(self) -> Files:
        """The files beneath the visible folders."""
        from client.files import Files

        return Files(self)

    def read_log(
        self, task_id: int | None, offset: int, limit: int = LOG_CHUNK, **how: Any
    ) -> tuple[bytes, dict[str, Any]]:
        """At most `limit` bytes (1 MiB) of a log from `offset` (negative: from the end), and {offset, size, ended,
        path, warning}. None is the master's own log.

        `how`: `wait_s` waits for more than `seen` bytes if there is nothing; `collapse` keeps of each line only its
        last state, the state of the line without an end being `rest`, and `next` is where to read on.
        """
        import base64

        which = {"server": True} if task_id is None else {"id": task_id}
        reply = self._dict("log.read", {**which, "offset": offset, "limit": limit, **how})
        if "rest" in reply:
            reply["rest"] = base64.b64decode(reply["rest"])
        return base64.b64decode(reply.pop("data")), reply

    def logs(
        self, task_id: int | None, *, follow: bool = False, offset: int = 0, on_warning: OnWarning | None = None
    ) -> Iterator[bytes]:
        """The log in pieces from `offset` (bytes); with `follow` until the task has ended and all was read.

        `on_warning` gets, with each answer before the end, what looks wrong with the task, or None."""
        how: dict[str, Any] = {"wait_s": LOG_WAIT_S} if follow else {}
        while True:
            begin = time.monotonic()
            data, state = self.read_log(task_id, offset, **how)
            if on_warning is not None and not state.get("ended"):
                on_warning(state.get("warning"))
            if data:
                offset = state["offset"] + len(data)
                yield data
                continue
            if not follow or state.get("ended"):
                return
            # A log that became shorter was begun anew.
            offset = state["size"] if offset < 0 else 0 if state["size"] < offset else offset
            # The master waits for us; one that answers at once is not asked without a pause.
            time.sleep(max(0.0, min(_LEAST_PAUSE_S, begin + _LEAST_PAUSE_S - time.monotonic())))

    def collapsed_logs(
        self, task_id: int | None, *, follow: bool = False, offset: int = 0, on_warning: OnWarning | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """The log with each line in its last state, as a terminal shows it after a progress bar: whole lines, and the
        state of the line that has no end yet. `offset` must be where a line begins."""
        seen: int | None = None
        while True:
            how: dict[str, Any] = {"wait_s": LOG_WAIT_S, "seen": seen} if follow and seen is not None else {}
            lines, state = self.read_log(task_id, offset, collapse=True, **how)
            if on_warning is not None and not state.get("ended"):
                on_warning(state.get("warning"))
            offset, end = state["next"], state["next"] + len(state["rest"])
            news = bool(lines) or end != seen
            seen = end
            if state["size"] < end:
                offset, seen = 0, None  # a log that became shorter was begun anew
            if news:
                yield lines, state["rest"].rstrip(b"\r")
            elif state.get("ended") or not follow:
                return
            else:
                time.sleep(_LEAST_PAUSE_S)

    def wait(
        self,
        ids: Iterable[int],
        timeout: float | None = None,
        on_change: Callable[[dict[int, Task]], None] | None = None,
        *,
        until: str = "ended",
    ) -> dict[int, Task]:
        """Wait until all of the tasks have ended (or have `started`), and give them. `timeout` in seconds.

        `on_change` gets what is known at first and after each change. Raises NotFoundError for an id that does not
        exist (or was deleted meanwhile) and TimeoutError.
        """
        wanted = list(dict.fromkeys(ids))
        deadline = None if timeout is None else time.monotonic() + timeout
        where = self.address
        pushes = Session(where.host, self._train_state_port(), self.token, self.session.patience, where.trust)
        pushes.on_retry = self.session.on_retry
        try:
            while True:
                try:
                    return self._wait_once(pushes, wanted, deadline, on_change, until)
                except ConnectionLostError as error:
                    pushes.close()
                    if self.session.on_retry is not None:
                        self.session.on_retry(str(error))
                    self.session.call("server.info", {})
        finally:
            pushes.close()

    def _wait_once(
        self,
        pushes: Session,
        wanted: list[int],
        deadline: float | None,
        on_change: Callable[[dict[int, Task]], None] | None,
        until: str,
    ) -> dict[int, Task]:
        # Subscribed first, asked second: a change between the two is seen twice, never missed.
        pushes.call("subscribe", {"ids": wanted, "snapshot": "none"})
        known = {task["id"]: task for task in self.tasks(ids=wanted, active=True, ended=True)}
        for task_id in wanted:
            if task_id not in known:
                raise _not_found(task_id)
        while True:
            if on_change is not None:
                on_change(known)
            if all(_reached(task["state"], until) for task in known.values()):
                return known
            self._take_change(pushes, known, deadline)

    def _take_change(self, pushes: Session, known: dict[int, Task], deadline: float | None) -> None:
        left = _KEEPALIVE_S if deadline is None else deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the tasks have not all ended in time")
        for message in pushes.notifications(min(left, _KEEPALIVE_S)):
            params = message.get("params", {})
            if params.get("gone") and params.get("id") in known:
                raise _not_found(params["id"])
            task = params.get("task")
            if task and task["id"] in known:
                known[task["id"]] = task
                return
        # Silence: see that the master is there at all, so that a connection that died unseen is noticed.
        try:
            pushes.call("server.info", {}, timeout=_KEEPALIVE_S, repeatable=False)
        except Exception as error:
            from wire.errors import UnreachableError

            if isinstance(error, UnreachableError):
                raise ConnectionLostError(str(error)) from None
            raise

    def watch(self, what: Literal["tasks", "nodes"]) -> Iterator[dict[str, Any]]:
        """What is there now, then every change as a notification; see `client.watch`."""
        from client.watch import watch

        return watch(self, what)

    def call(self, method: str, params: dict[str, Any], *, repeatable: bool = True) -> Any:
        """Any verb by its name on the wire. `repeatable`: asking twice does no harm."""
        return self.session.call(method, params, timeout=CALL_TIMEOUT_S, repeatable=repeatable)

    def _dict(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = self.call(method, params)
        return result

    def _task(self, method: str, params: dict[str, Any], *, repeatable: bool = True) -> Task:
        task: Task = self.call(method, params, repeatable=repeatable)
        return task

    def _train_state_port(self) -> int:
        if self.address.train_state is None:
            self.address.train_state = int(self.info()["ports"]["train_state_port"])
        return self.address.train_state


def new_request_id() -> str:
    """A name for one submit, so that sending it again after a broken connection is not a second task."""
    return os.urandom(16).hex()


def _reached(state: str, until: str) -> bool:
    return state in ENDED or (until == "started" and state in ("running", "paused"))


def _not_found(task_id: int) -> Exception:
    from wire.errors import NotFoundError

    return NotFoundError(f"there is no task {task_id}")


def whole_tasks(sparse: dict[str, Any]) -> list[Task]:
    """The tasks of an answer of `task.list`, sparse or not, every key present."""
    defaults = sparse.get("defaults", {})
    tasks: list[Any] = [{**defaults, **task} for task in sparse["tasks"]]
    reasons = {task_id: reason for reason, ids in sparse.get("reasons", {}).items() for task_id in ids}
    if reasons:
        for task in tasks:
            if task["id"] in reasons:
                task["reason"] = reasons[task["id"]]
    warnings = {task_id: text for text, ids in sparse.get("warnings", {}).items() for task_id in ids}
    for task in tasks if warnings else ():
        task["warning"] = warnings.get(task["id"])
    return tasks
