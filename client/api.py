"""The Python API: `connect()` returns a Client with one method per verb. All calls are synchronous.

Tasks and nodes are plain dicts, typed in `client.shapes`. Errors are subclasses of `wire.errors.MusterError`. Methods
that need more than one call have files of their own, which are loaded at the first use.
"""

from __future__ import annotations

from client.address import find
from client.answers import clear_errors
from client.caller import new_request_id, token_for
from client.nodes import NodeVerbs
from client.task_list import list_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from client.address import Address
    from client.allocations import Allocations
    from client.caller import What
    from client.conf_files import ConfFiles
    from client.files import Files
    from client.people import People
    from client.session import Session
    from client.settings import Settings
    from client.shapes import Array, AuditPage, Cancelled, ClockAccepted, Diff, Note, Removed, Task, TaskPage, Why

    OnWarning = Callable[[str | None], object]


_OF_A_SUBMIT = {"request_id", "as", "strict", "dry_run"}
"""Parameters of a submit that are not fields of the task."""


_MOST_AT_ONCE = 10_000_000
"""Tasks of one submit, more than any master takes."""


def _ids(filed: dict[str, Any], most: int) -> list[int]:
    """Return the ids of the tasks of one submit. Raises ValueError for more than `most`."""
    if filed["count"] > most:
        raise ValueError(f"{filed['count']} tasks of {most}")
    return list(range(filed["first"], filed["first"] + filed["count"]))


def connect(
    conf: str | None = None, master: str | None = None, token: str | None = None, proxy: str | None = None
) -> Client:
    """Connect to the master of the conf.json `conf`, or to the one at `master` (HOST[:PORT]).

    Without either: MUSTER_MASTER, MUSTER_CONF, the conf.json of this folder or of one above, the master of the last
    `muster login`. `token` identifies the user; without it MUSTER_TOKEN, MUSTER_TOKEN_FILE (in a task that was
    submitted with `token="submit"`), or the stored log-in. `proxy`: socks5://HOST:PORT for a master on another machine,
    else MUSTER_PROXY. Raises ConfigError, UnreachableError, UnauthenticatedError; ForbiddenError if another account of
    this machine has taken the master's port.
    """
    address = find(conf, master, proxy)
    client = Client(address, token_for(address, token))
    client.session.connect()
    return client


@clear_errors
class Client(NodeVerbs):
    """The verbs. Use it as a context manager, or `close()` it."""

    def __init__(self, address: Address, token: str | None = None, session: Session | None = None) -> None:
        super().__init__(address, token, session)
        self.unreadable: dict[str, int] = {}
        """Damaged lines of the master's history that the last list left out, by file."""

    def submit(self, command: list[str] | str, **spec: Any) -> int:
        """Queue a command (an argument list, or a string for bash) and return its id once the task is on disk.

        `spec`: name, project, cwd, env, setup, variables, gpus, gpus_max, gpu_ids, gpu_memory_mib, gpu_models, share,
        min_free_util, cpus, memory_mib, tmp_disk_mib, licences, nodes, node, node_list, gpus_on (`{"gpu1": [0, 1]}`),
        exclude, after, priority, urgent, time_limit_s, on_timeout (`fail` or `requeue`), signal, begin_at (seconds
        since the epoch), max_retries, retry_on (of `fail oom lost`), elastic, checkpoint, log, hold, token (`submit`:
        the task gets a token of its owner and can submit other tasks); `**muster.snapshot(folder)`: run in a copy of
        that folder's code; `as`: the owner (for root on the master's machine); `request_id`: two submits with the same
        one are one submit; `strict`: raise ConflictError if `preflight` finds anything."""
        spec.setdefault("request_id", new_request_id())
        return int(self.call("task.submit", {"command": command, **self._with_ids(spec)})["id"])

    def missing_places(self, cwd: str = "", env: str = "") -> list[str]:
        """Return a line for the folder and for the environment if a task would not find it, as far as the master can
        see."""
        return [str(note["text"]) for note in self.preflight(cwd=cwd, env=env)]

    def preflight(self, command: list[str] | str | None = None, **spec: Any) -> list[Note]:
        """Return what would make the start of such a task fail now, as far as the master can see it quickly. `spec` as
        for `submit`, or `commands` as for `submit_batch`. Queues nothing."""
        said = self._with_ids(spec if command is None else {"command": command, **spec})
        asked = {name: value for name, value in said.items() if name not in _OF_A_SUBMIT}
        found: dict[str, Any] = self.call("task.places", asked, repeatable=False)
        said_and_keys = zip(found["missing"], found["missing_messages"], strict=True)
        return [{"key": note["key"], "args": note["args"], "text": text} for text, note in said_and_keys]

    def submit_batch(self, commands: list[str], **spec: Any) -> list[int]:
        """Queue many bash lines with the same `spec`, all of them or none; return the ids, which are consecutive."""
        spec.setdefault("request_id", new_request_id())
        result = self.call("task.submit_batch", {"commands": commands, **self._with_ids(spec)})
        return _ids(result, len(commands))

    def submit_array(
        self,
        command: list[str] | str,
        array: str | None = None,
        *,
        sweep: dict[str, list[str]] | None = None,
        cap: int | None = None,
        max_fails: int | None = None,
        **spec: Any,
    ) -> list[int]:
        """Queue a command for each index of `array` (`0-9:2`), or for each combination of the values in `sweep`, all of
        them or none; return the ids, which are consecutive. `{index}`, or `{NAME}` of a sweep, in the command and in
        `name` is replaced by the value of each task. `cap`: the most tasks that run at once; `max_fails`: the number of
        failures after which the rest is held. `spec`: as for `submit`."""
        spec.setdefault("request_id", new_request_id())
        said = {"array": array, "sweep": sweep, "cap": cap, "max_fails": max_fails}
        params = {name: value for name, value in said.items() if value is not None}
        result = self.call("task.submit_array", {"command": command, **params, **self._with_ids(spec)})
        return _ids(result, _MOST_AT_ONCE)

    def edit_array(self, array: int, **changes: int | None) -> Array:
        """Change `cap` or `max_fails` of an array, named by the id of its first task; None removes the bound."""
        page: Array = self.call("task.edit_array", {"id": array, **changes})
        return page

    def check(self, command: list[str] | str, **spec: Any) -> dict[str, Any]:
        """Return where the command would run now (`placement`), or why it would wait (`reason`). Queues nothing."""
        return self._dict("task.submit", {"command": command, **self._with_ids(spec), "dry_run": True})

    def list_tasks(self, **filters: Any) -> tuple[list[Task], int]:
        """Return tasks in the order of the queue, and their number without `limit` and `offset`.

        `filters`: states, active (default: True), ended, mine, user, search, since (seconds since the epoch: leave out
        tasks that finished earlier), ids, array (the id of the first task of an array), sort (see `muster queue
        --help`), reverse, limit, offset; `history=False` leaves out finished tasks that the master reads from its
        monthly files. In a sorted list these come last.
        """
        return list_all(self, filters)

    def tasks(self, **filters: Any) -> list[Task]:
        """Return tasks like `list_tasks`, without the number."""
        return self.list_tasks(**filters)[0]

    def find_id(self, task: int | str) -> int:
        """Return the id of a task, named by its id or by its name. A name finds an active task of the caller; all
        methods accept both. Raises NotFoundError; ConflictError if several tasks have the name."""
        if not isinstance(task, str):
            return task
        from client.named import find_id

        return find_id(self, task)

    def named(self, name: str) -> list[Task]:
        """Return the caller's active tasks of this name, ordered by id."""
        from client.named import active

        return active(self, name)

    def show(self, task_id: int | str) -> TaskPage:
        """Return one task with all fields."""
        task: TaskPage = self.call("task.show", {"id": self.find_id(task_id)})
        return task

    def why(self, task_id: int | str) -> Why:
        """Return why a task is in its state."""
        why: Why = self.call("task.why", {"id": self.find_id(task_id)})
        return why

    def diff(self, task_id: int | str, other: int | str | None = None) -> Diff:
        """Return how two tasks differ: first the requests, then the results. Without `other`: the nearest task of the
        same array, if possible one that succeeded."""
        params = {"id": self.find_id(task_id), **({} if other is None else {"other": self.find_id(other)})}
        found: Diff = self.call("task.diff", params)
        return found

    def cancel(
        self,
        ids: Iterable[int | str] = (),
        *,
        everything: bool = False,
        mine: bool = False,
        states: Iterable[str] | None = None,
        name: str | None = None,
    ) -> Cancelled:
        """Cancel tasks: those in `ids`, all (`everything`), all of the caller (`mine`), or the caller's tasks with this
        `name`. `states` limits the last three to tasks in one of these states."""
        which: dict[str, Any] = {"all": True} if everything else {"mine": True}
        if name is not None:
            which = {"mine": True, "name": name}
        elif not (everything or mine):
            which = {"ids": self._find_ids(ids)}
        if states:
            which["states"] = list(states)
        done: Cancelled = self.call("task.cancel", which)
        return done

    def edit(self, task_id: int | str, *, if_seq: int | None = None, **changes: Any) -> Task:
        """Change fields of a task, with the names of `submit`; admins also `owner`. `if_seq`: raise ConflictError if
        the task's `seq` is another one, that is, if somebody changed the task meanwhile."""
        only = {} if if_seq is None else {"if_seq": if_seq}
        return self._task("task.edit", {"id": self.find_id(task_id), "changes": self._with_ids(changes), **only})

    def hold(self, task_id: int | str) -> Task:
        """Keep a waiting task from starting until it is released."""
        return self._task("task.hold", {"id": self.find_id(task_id)})

    def release(self, task_id: int | str) -> Task:
        """Let a held task wait again."""
        return self._task("task.release", {"id": self.find_id(task_id)})

    def pause(self, task_id: int | str) -> Task:
        """Pause a running task. It keeps its GPUs, and its time limit goes on. Its state is `paused` once the node
        confirms it."""
        return self._task("task.pause", {"id": self.find_id(task_id)})

    def resume(self, task_id: int | str) -> Task:
        """Resume a paused task."""
        return self._task("task.resume", {"id": self.find_id(task_id)})

    def move(self, task_id: int | str, position: int) -> Task:
        """Move a waiting task to a position in the queue; 1 is the next task."""
        return self._task("task.move", {"id": self.find_id(task_id), "position": position})

    def start(self, task_id: int | str) -> Task:
        """Start a task as soon as its GPUs are free, regardless of priority, predecessors, begin time and hold."""
        return self._task("task.start", {"id": self.find_id(task_id)}, repeatable=False)

    def retry(self, task_id: int | str) -> Task:
        """Queue a finished task again, as a new attempt."""
        return self._task("task.retry", {"id": self.find_id(task_id)}, repeatable=False)

    def remove(self, task_id: int | str, *, successors: bool = False) -> list[int]:
        """Delete a task without a running attempt; with `successors` also the tasks that wait for it. Return the
        deleted ids."""
        return self.removed(task_id, successors=successors)["removed"]

    def removed(self, task_id: int | str, *, successors: bool = False) -> Removed:
        """Delete like `remove`; return ids and names."""
        params = {"id": self.find_id(task_id), "successors": successors}
        answer: Removed = self.call("task.remove", params, repeatable=False)
        return answer

    def audit(
        self, *, since: float | None = None, user: str | None = None, verb: str | None = None, limit: int = 100
    ) -> AuditPage:
        """Return who changed what, and which requests were denied, newest first: at most `limit` lines, not older than
        `since`, of one user, about one verb or all verbs of a noun. For admins."""
        wanted = {"since": since, "user": user, "verb": verb, "limit": limit}
        said = {name: value for name, value in wanted.items() if value is not None}
        page: AuditPage = self.call("audit.read", said)
        return page

    def seen(self) -> None:
        """Confirm that somebody has read `info()["damage"]`; the master then clears it."""
        self.call("server.seen", {})

    def accept_clock(self) -> ClockAccepted:
        """Confirm that the master's clock is right although it was different before: rights expire by it from now on.
        For the account that runs the master and for root, on its machine. Raises ForbiddenError."""
        accepted: ClockAccepted = self.call("clock.accept", {}, repeatable=False)
        return accepted

    def stop_master(self) -> None:
        """Stop the master. Running tasks continue."""
        self.call("server.stop", {}, repeatable=False)

    @property
    def people(self) -> People:
        """The caller, users, groups and tokens."""
        from client.people import People

        return People(self)

    @property
    def allocations(self) -> Allocations:
        """Named allocations: GPUs that are reserved for tasks."""
        from client.allocations import Allocations

        return Allocations(self)

    @property
    def settings(self) -> Settings:
        """The settings that admins can change while the master runs."""
        from client.settings import Settings

        return Settings(self)

    @property
    def conf(self) -> ConfFiles:
        """conf.json and the registry, for admins on other machines."""
        from client.conf_files import ConfFiles

        return ConfFiles(self)

    @property
    def files(self) -> Files:
        """The files in the visible folders."""
        from client.files import Files

        return Files(self)

    def read_log(
        self, task_id: int | str | None, offset: int, limit: int | None = None, **how: Any
    ) -> tuple[bytes, dict[str, Any]]:
        """Return at most `limit` bytes (at most 1 MiB) of a log from `offset` (negative: from the end), and {offset,
        size, ended, path, warning}. Task None is the log of the master.

        `how`: `wait_s` waits until the log has more than `seen` bytes; `collapse` keeps only the last state of each
        line. Then `rest` is the state of the unfinished last line, and `next` the offset to continue at.
        """
        from client import logs

        return logs.read(self, self._of_log(task_id), offset, limit, **how)

    def last_lines(self, task_id: int | str, most: int = 8) -> list[str]:
        """Return the last lines of a task's log, each in its last state and without control characters. The list is
        empty if the caller may not read the log."""
        from client.log_tail import last_lines

        return last_lines(self, self.find_id(task_id), most)

    def logs(
        self,
        task_id: int | str | None,
        *,
        follow: bool = False,
        offset: int = 0,
        on_warning: OnWarning | None = None,
        rank: int = 0,
    ) -> Iterator[bytes]:
        """Yield the log in pieces from `offset` (bytes), with `follow` until the task is finished. `rank`: the part of
        a task on several nodes.

        `on_warning` is called with each answer before the end: a warning about the task, or None."""
        from client import logs

        return logs.pieces(self, self._of_log(task_id), follow=follow, offset=offset, on_warning=on_warning, rank=rank)

    def collapsed_logs(
        self,
        task_id: int | str | None,
        *,
        follow: bool = False,
        offset: int = 0,
        on_warning: OnWarning | None = None,
        rank: int = 0,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the log with each line in its last state, as a terminal shows it after a progress bar: complete lines,
        and the state of the unfinished last line. `offset` must be the beginning of a line."""
        from client import logs

        return logs.collapsed(
            self, self._of_log(task_id), follow=follow, offset=offset, on_warning=on_warning, rank=rank
        )

    def search_log(
        self,
        task_id: int | str | None,
        pattern: str,
        *,
        regex: bool = False,
        ignore_case: bool = False,
        backwards: bool = False,
        offset: int | None = None,
        most: int | None = None,
        rank: int = 0,
    ) -> Iterator[dict[str, Any]]:
        """Yield the lines of a log that contain `pattern`, at most `most`, from `offset` (bytes; default: the
        beginning) to the end; with `backwards` from `offset` (default: the end) to the beginning. A line is {offset,
        text, begin, end, cut}; the match is from character `begin` to `end` of `text`. Task None is the log of the
        master.

        The master searches at most 64 MB a second. Raises BadRequestError for an invalid pattern (`regex`: Python's
        syntax) and LimitError for one that takes too long.
        """
        from client import logs

        how: dict[str, Any] = {"regex": regex, "ignore_case": ignore_case, "backwards": backwards, "offset": offset}
        return logs.search(self, self._of_log(task_id), pattern, most=most, **how, **logs.of_rank(rank))

    def wait(
        self,
        ids: Iterable[int | str],
        timeout: float | None = None,
        on_change: Callable[[dict[int, Task]], None] | None = None,
        *,
        until: str = "ended",
    ) -> dict[int, Task]:
        """Wait until all of the tasks are finished (or have `started`), and return them. `timeout` in seconds.

        `on_change` is called with the tasks at first and after each change. Raises NotFoundError for an id that does
        not exist or was deleted meanwhile, and TimeoutError.
        """
        from client.waiting import wait

        return wait(self, self._find_ids(ids), timeout, on_change, until=until)

    def watch(self, what: What) -> Iterator[dict[str, Any]]:
        """Yield the present state, then every change as a notification; see `client.watch`."""
        from client.watch import watch

        return watch(self, what)

    def _find_ids(self, tasks: Iterable[int | str]) -> list[int]:
        """Return the ids of tasks. A str is one task, not a list of letters."""
        return [*map(self.find_id, [tasks] if isinstance(tasks, str) else tasks)]

    def _of_log(self, task: int | str | None) -> int | None:
        return None if task is None else self.find_id(task)

    def _with_ids(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Return `spec` with ids in place of the names of predecessors."""
        after = spec.get("after")
        named = [one for one in after or () if isinstance(one, dict) and isinstance(one.get("id"), str)]
        if not after or not named:
            return spec
        return {**spec, "after": [{**one, "id": self.find_id(one["id"])} if one in named else one for one in after]}

    def _dict(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = self.call(method, params)
        return result

    def _task(self, method: str, params: dict[str, Any], *, repeatable: bool = True) -> Task:
        task: Task = self.call(method, params, repeatable=repeatable)
        return task
