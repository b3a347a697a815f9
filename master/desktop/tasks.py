"""The desktop client's requests about tasks: its form to a submit or an edit, its words to ids and nodes."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from master.core.tasks.task import ACTIVE, ENDED, Task
from master.desktop.calls import Kind, Reply, read_form
from master.desktop.task_rows import CUT, NOTHING, folder_of, id_text, read_id, row
from master.verbs.call import Calls
from master.verbs.submit import Submit
from wire.errors import BadRequestError, ConflictError
from wire.numbers import whole_number

_OTHERWISE = {"after", "gpus", "gpu_ids"}
_COPIED = tuple(sorted(set(Submit.__struct_fields__) & set(Task.__struct_fields__) - _OTHERWISE))


class Form(msgspec.Struct):
    """The fields of the client's dialog. A missing key means the default; an unknown key is ignored."""

    exec: str
    task_id: str | int = ""
    envs: str = ""
    path: str = "/"
    need_gpus: str | int = "0"
    slaver: str | None = None
    prev: str | int | None = None
    is_urgent: int | bool = 0
    is_reuse_gpu: int | bool = 0


async def add(calls: Calls, info: Any) -> Reply:
    """add_task: file it."""
    form = _form(info)
    wanted = _wanted(calls, form)
    asked = {name: value for name, value in wanted.items() if value is not None}
    await calls.ask("task.submit", asked)
    return "ret_add_task", ""


async def change(calls: Calls, info: Any) -> Reply:
    """change_task: one that waits is changed in its place; one that has ended queues again, changed or not."""
    form = _form(info)
    task = _find(calls, form.task_id, "task.edit")
    if task.state in ACTIVE:
        raise ConflictError(f"task {task.id} is {task.state} and cannot be changed: stop it first, or add another one")
    changes = _changes(calls, task, form)
    if changes:
        await calls.ask("task.edit", {"id": task.id, "changes": changes})
    elif task.state in ENDED:
        await calls.ask("task.retry", {"id": task.id})
    return "ret_change_task", ""


async def delete(calls: Calls, info: Any) -> Reply:
    """del_task: one that waits or has ended."""
    task = _find(calls, info, "task.remove")
    await calls.ask("task.remove", {"id": task.id})
    return "ret_del_task", {"task_id": id_text(task.id), "info": ""}


def _has_successors(calls: Calls, info: Any) -> bool:
    """The client deletes a task with its successors by a request each: they would start, one after the other, as soon
    as nothing stands before them any more."""
    try:
        task_id = read_id(info)
    except BadRequestError:
        return False
    return task_id in calls.core.tasks and len(calls.core.dependencies.chain(task_id)) > 1


async def resubmit(calls: Calls, info: Any) -> Reply:
    """resub_task: the same again, as a new task."""
    task = _find(calls, info, "task.retry")
    spec = {name: getattr(task, name) for name in _COPIED}
    spec |= {"gpus": task.gpus} if task.gpu_ids is None else {"gpu_ids": task.gpu_ids}
    # Most predecessors are finished; the new task waits only for those that are not.
    live = [after for after in task.after if any(True for _ in calls.core.dependencies.awaited(after))]
    spec["after"] = msgspec.to_builtins(live)
    new_id = (await calls.ask("task.submit", spec)).id
    return "ret_resub_task", {"task_id": id_text(new_id), "info": ""}


async def stop(calls: Calls, info: Any) -> Reply:
    """stop_task: end its whole tree, or take it out of the queue."""
    task = _find(calls, info, "task.cancel")
    refused = (await calls.ask("task.cancel", {"ids": [task.id]})).refused
    return "ret_stop_task", {"task_id": id_text(task.id), "info": "failed" if refused else "success"}


def _find(calls: Calls, value: Any, verb: str) -> Task:
    """The task that is meant, if the client may use the verb on it."""
    task = calls.core.find(read_id(value))
    calls.check(verb, task)
    return task


def _form(info: Any) -> Form:
    return read_form(info, Form, "the form of the task could not be read: ")


def _wanted(calls: Calls, form: Form) -> dict[str, Any]:
    """The parameters of a submit that the form means; None where it says nothing."""
    wanted = {
        "command": form.exec,
        "cwd": folder_of(form.path, calls.master.root),
        "env": form.envs,
        "gpus": _count(form.need_gpus),
        "node": None if (form.slaver or "") in NOTHING else form.slaver,
        "after": [] if str(form.prev or "") in NOTHING else [{"id": read_id(form.prev), "on": "any"}],
        "urgent": bool(form.is_urgent),
        # The form does not say how much memory: that is what was learned of such tasks.
        "share": bool(form.is_reuse_gpu) and _count(form.need_gpus) > 0,
    }
    return {name: value for name, value in wanted.items() if name in Submit.__struct_fields__}


def _changes(calls: Calls, task: Task, form: Form) -> dict[str, Any]:
    """Return the fields of the form that differ from what the client was shown. The rest of the task, which the form
    does not contain (words of a command, conditions of predecessors, exact GPUs), stays as it is."""
    shown = _form(row(task, calls.master.root))
    if shown.exec.endswith(CUT) and form.exec != shown.exec:
        raise BadRequestError(f"its command is too long to be changed here: `muster edit {task.id} command=…`")
    before = _wanted(calls, msgspec.structs.replace(shown, path="/"))
    after = _wanted(calls, form)
    if form.path.strip("/") == shown.path.strip("/"):
        after["cwd"] = before["cwd"]
    return {name: value for name, value in after.items() if value != before[name]}


def _count(value: str | int) -> int:
    number = None if isinstance(value, bool) else whole_number(str(value).strip(), len("999999"))
    if number is None:
        raise BadRequestError(f"need_gpus: {str(value)[:40]!r} is not a number of GPUs; 0 means none")
    return number


def _text(mode: str, _info: Any, text: str) -> Reply:
    return mode, text


def _not_stopped(info: Any, _text: str) -> Reply:
    try:
        told = id_text(read_id(info))
    except BadRequestError:
        told = ""
    return "ret_stop_task", {"task_id": told, "info": "failed"}


_refuse_change = partial(_text, "ret_change_task")
"""Also for del_task and resub_task, whose own refusals the client cannot show: a box with the text, and no more."""

KINDS: dict[str, Kind] = {
    "add_task": Kind(add, partial(_text, "ret_add_task"), changes=True),
    "change_task": Kind(change, _refuse_change, changes=True),
    "del_task": Kind(delete, _refuse_change, changes=True, begins=_has_successors),
    "resub_task": Kind(resubmit, _refuse_change, changes=True),
    "stop_task": Kind(stop, _not_stopped, changes=True),
}
