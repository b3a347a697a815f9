"""The Python API: `connect()` gives a Client with one method per verb, synchronous and small.

Tasks and nodes are plain dicts, typed in `client.shapes`. Every method raises a `wire.errors.MusterError`. What takes
more than one call is in files of its own, which are loaded when it is asked for.
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
"""What says how to submit, and nothing of a task."""


_MOST_AT_ONCE = 10_000_000
"""Tasks of one submit, more than any master takes."""


def _ids(filed: dict[str, Any], most: int) -> list[int]:
    """Those of the tasks of one submit. Raises ValueError for more than `most`."""
    if filed["count"] > most:
        raise ValueError(f"{filed['count']} tasks of {most}")
    return list(range(filed["first"], filed["first"] + filed["count"]))


def connect(
    conf: str | None = None, master: str | None = None, token: str | None = None, proxy: str | None = None
) -> Client:
    """A client of the master that conf.json `conf` describes or that listens at `master` (HOST[:PORT]).

    Without either: MUSTER_MASTER, MUSTER_CONF, the conf.json of this folder or of one above, the master of the last
    `muster login`. `token` shows who one is; without one MUSTER_TOKEN does, MUSTER_TOKEN_FILE (in a task that was
    submitted with `token="submit"`), or what `muster login` keeps. `proxy`: socks5://HOST:PORT on the way to another
    machine, else MUSTER_PROXY. Raises ConfigError, UnreachableError, UnauthenticatedError; ForbiddenError where another
    account of this machine has the master's port.
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
        """Lines of the master's history that the last list had to leave out, by file."""

    def submit(self, command: list[str] | str, **spec: Any) -> int:
        """Queue a command (an argument list, or a string for bash) and give its id; it is on disk by then.

        `spec`: name, project, cwd, env, setup, variables, gpus, gpus_max, gpu_ids, gpu_memory_mib, gpu_models, share,
        min_free_util, cpus, memory_mib, licences, nodes, node, node_list, gpus_on (`{"gpu1": [0, 1]}`), exclude, after,
        priority, urgent, time_limit_s, on_timeout (`fail` or `requeue`), signal, begin_at (seconds since the epoch),
        max_retries, retry_on (of `fail oom lost`), elastic, checkpoint, log, hold, token (`submit`: the task gets one
        of its owner's, to submit others with); `**muster.snapshot(folder)`: to run in a copy of that folder's code;
        `as`, in whose name (for root on the master's machine); and `request_id`: two submits with the same one are one
        submit; `strict`: what `preflight` would tell is refused (ConflictError)."""
        spec.setdefault("request_id", new_request_id())
        return int(self.call("task.submit", {"command": command, **self._with_ids(spec)})["id"])

    def missing_places(self, cwd: str = "", env: str = "") -> list[str]:
        """Which of these a task would not find, as far as the master can see it; a line each."""
        return [str(note["text"]) for note in self.preflight(cwd=cwd, env=env)]

    def preflight(self, command: list[str] | str | None = None, **spec: Any) -> list[Note]:
        """What would keep such a task from starting well, were it to start now, as far as the master can see it within
        a moment: `spec` as for `submit`, or `commands` as for `submit_batch`. Nothing is queued."""
        said = self._with_ids(spec if command is None else {"command": command, **spec})
        asked = {name: value for name, value in said.items() if name not in _OF_A_SUBMIT}
        found: dict[str, Any] = self.call("task.places", asked, repeatable=False)
        said_and_keys = zip(found["missing"], found["missing_messages"], strict=True)
        return [{"key": note["key"], "args": note["args"], "text": text} for text, note in said_and_keys]

    def submit_batch(self, commands: list[str], **spec: Any) -> list[int]:
        """Queue many bash lines with the same `spec`, all of them or none; the ids are consecutive."""
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
        them or none; gives the ids, which are consecutive. `{index}`, or `{NAME}` of a sweep, in the command (and in
        `name`) becomes the task's own. `cap`: so many run at once; `max_fails`: after so many failures the rest is
        held. `spec`: as for `submit`."""
        spec.setdefault("request_id", new_request_id())
        said = {"array": array, "sweep": sweep, "cap": cap, "max_fails": max_fails}
        params = {name: value for name, value in said.items() if value is not None}
        result = self.call("task.submit_array", {"command": command, **params, **self._with_ids(spec)})
        return _ids(result, _MOST_AT_ONCE)

    def edit_array(self, array: int, **changes: int | None) -> Array:
        """Give an array (by its first task's id) another `cap`, or other `max_fails`; None: no such bound."""
        page: Array = self.call("task.edit_array", {"id": array, **changes})
        return page

    def check(self, command: list[str] | str, **spec: Any) -> dict[str, Any]:
        """Where the command would run now (`placement`), or why it would wait (`reason`); nothing is queued."""
        return self._dict("task.submit", {"command": command, **self._with_ids(spec), "dry_run": True})

    def list_tasks(self, **filters: Any) -> tuple[list[Task], int]:
        """Tasks in the queue's order, and how many there are without `limit` and `offset`.

        `filters`: states, active (True unless said), ended, mine, user, search, since (seconds since the epoch: of
        the ended only what ended then or later), ids, array (those of the array whose first task has this id), sort
        (see `muster queue --help`), reverse, limit, offset; `history=False` leaves out ended tasks that the master
        reads from its monthly files. Sorted, those come last.
        """
        return list_all(self, filters)

    def tasks(self, **filters: Any) -> list[Task]:
        """Like `list_tasks`, without the total."""
        return self.list_tasks(**filters)[0]

    def find_id(self, task: int | str) -> int:
        """The id of a task that is named by it, or by the name of an active task of the caller's that no other of these
        has. All methods that take a task take both. Raises NotFoundError, ConflictError where several have the name."""
        if not isinstance(task, str):
            return task
        from client.named import find_id

        return find_id(self, task)

    def named(self, name: str) -> list[Task]:
        """The caller's active tasks of this name, by id."""
        from client.named import active

        return active(self, name)

    def show(self, task_id: int | str) -> TaskPage:
        """One task, whole."""
        task: TaskPage = self.call("task.show", {"id": self.find_id(task_id)})
        return task

    def why(self, task_id: int | str) -> Why:
        """Why a task is in the state in which it is."""
        why: Why = self.call("task.why", {"id": self.find_id(task_id)})
        return why

    def diff(self, task_id: int | str, other: int | str | None = None) -> Diff:
        """In what two tasks differ, what was asked for first; without `other` the nearest of the same array, one that
        succeeded if there is one."""
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
        """End tasks: those of these ids, all (`everything`), all of ours (`mine`), or those of ours with this `name`;
        of the latter three only those in one of `states`, if given."""
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
        """Change fields of a task; the names are those of `submit`, and `owner` for admins. `if_seq`: only while the
        task's `seq` is this one. Raises ConflictError where it was changed meanwhile."""
        only = {} if if_seq is None else {"if_seq": if_seq}
        return self._task("task.edit", {"id": self.find_id(task_id), "changes": self._with_ids(changes), **only})

    def hold(self, task_id: int | str) -> Task:
        """Keep a waiting task from starting until it is released."""
        return self._task("task.hold", {"id": self.find_id(task_id)})

    def release(self, task_id: int | str) -> Task:
        """Let a held task wait again."""
        return self._task("task.release", {"id": self.find_id(task_id)})

    def pause(self, task_id: int | str) -> Task:
        """Have a task that runs stand still, with all that it holds; its time limit goes on. It is `paused` once its
        node says so."""
        return self._task("task.pause", {"id": self.find_id(task_id)})

    def resume(self, task_id: int | str) -> Task:
        """Let a paused task go on."""
        return self._task("task.resume", {"id": self.find_id(task_id)})

    def move(self, task_id: int | str, position: int) -> Task:
        """Put a waiting task at a place in the queue; 1 is the next one."""
        return self._task("task.move", {"id": self.find_id(task_id), "position": position})

    def start(self, task_id: int | str) -> Task:
        """Start a task as soon as its GPUs are free, whatever its priority, predecessors, time and hold say."""
        return self._task("task.start", {"id": self.find_id(task_id)}, repeatable=False)

    def retry(self, task_id: int | str) -> Task:
        """Queue an ended task again, as a new attempt."""
        return self._task("task.retry", {"id": self.find_id(task_id)}, repeatable=False)

    def remove(self, task_id: int | str, *, successors: bool = False) -> list[int]:
        """Delete a task that is not alive, with those that wait for it if so asked; gives the ids that are gone."""
        return self.removed(task_id, successors=successors)["removed"]

    def removed(self, task_id: int | str, *, successors: bool = False) -> Removed:
        """The same; gives their names, too."""
        params = {"id": self.find_id(task_id), "successors": successors}
        answer: Removed = self.call("task.remove", params, repeatable=False)
        return answer

    def audit(
        self, *, since: float | None = None, user: str | None = None, verb: str | None = None, limit: int = 100
    ) -> AuditPage:
        """Who changed what, and who was refused, the newest first: at most `limit` lines, not older than `since`, of
        this user, about this verb or all of a noun. For admins."""
        wanted = {"since": since, "user": user, "verb": verb, "limit": limit}
        said = {name: value for name, value in wanted.items() if value is not None}
        page: AuditPage = self.call("audit.read", said)
        return page

    def seen(self) -> None:
        """What `info()["damage"]` tells was seen: it is told no more."""
        self.call("server.seen", {})

    def accept_clock(self) -> ClockAccepted:
        """Say that the master's clock is right, whatever it showed before: rights end by it from now on. For the
        account that runs the master and for root, on its machine. Raises ForbiddenError."""
        accepted: ClockAccepted = self.call("clock.accept", {}, repeatable=False)
        return accepted

    def stop_master(self) -> None:
        """End the master; tasks run on."""
        self.call("server.stop", {}, repeatable=False)

    @property
    def people(self) -> People:
        """Who one is; users, groups and tokens."""
        from client.people import People

        return People(self)

    @property
    def allocations(self) -> Allocations:
        """GPUs that are held under a name, for tasks to run on."""
        from client.allocations import Allocations

        return Allocations(self)

    @property
    def settings(self) -> Settings:
        """What is set, and what admins can set, while the master runs."""
        from client.settings import Settings

        return Settings(self)

    @property
    def conf(self) -> ConfFiles:
        """conf.json and the registry, as admins change them from afar."""
        from client.conf_files import ConfFiles

        return ConfFiles(self)

    @property
    def files(self) -> Files:
        """The files beneath the visible folders."""
        from client.files import Files

        return Files(self)

    def read_log(
        self, task_id: int | str | None, offset: int, limit: int | None = None, **how: Any
    ) -> tuple[bytes, dict[str, Any]]:
        """At most `limit` bytes (of 1 MiB) of a log from `offset` (negative: from the end), and {offset, size, ended,
        path, warning}. None is the master's own log.

        `how`: `wait_s` waits for more than `seen` bytes if there is nothing; `collapse` keeps of each line only its
        last state, the state of the line without an end being `rest`, and `next` is where to read on.
        """
        from client import logs

        return logs.read(self, self._of_log(task_id), offset, limit, **how)

    def last_lines(self, task_id: int | str, most: int = 8) -> list[str]:
        """The last lines of a task's log, each in its last state and without what acts on a terminal; none where the
        caller may not read it."""
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
        """The log in pieces from `offset` (bytes), of several parts that of `rank`; with `follow` until the task has
        ended and all was read.

        `on_warning` gets, with each answer before the end, what looks wrong with the task, or None."""
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
        """The log with each line in its last state, as a terminal shows it after a progress bar: whole lines, and the
        state of the line that has no end yet. `offset` must be where a line begins."""
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
        """The lines of a log with `pattern`, at most `most`, from `offset` (bytes; default: the beginning) on or, if
        `backwards`, from there (default: the end) to the beginning: {offset, text, begin, end, cut}, the match standing
        from character `begin` to `end` of `text`. None is the master's own log.

        Searched at 64 MB a second at most. Raises BadRequestError for a pattern that is none (`regex`: of Python's) and
        LimitError for one that takes too long.
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
        """Wait until all of the tasks have ended (or have `started`), and give them. `timeout` in seconds.

        `on_change` gets what is known at first and after each change. Raises NotFoundError for an id that does not
        exist (or was deleted meanwhile) and TimeoutError.
        """
        from client.waiting import wait

        return wait(self, self._find_ids(ids), timeout, on_change, until=until)

    def watch(self, what: What) -> Iterator[dict[str, Any]]:
        """What is there now, then every change as a notification; see `client.watch`."""
        from client.watch import watch

        return watch(self, what)

    def _find_ids(self, tasks: Iterable[int | str]) -> list[int]:
        """A str is one task, and not one for each of its letters."""
        return [*map(self.find_id, [tasks] if isinstance(tasks, str) else tasks)]

    def _of_log(self, task: int | str | None) -> int | None:
        return None if task is None else self.find_id(task)

    def _with_ids(self, spec: dict[str, Any]) -> dict[str, Any]:
        """What is asked for, with the ids of predecessors that are named."""
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
