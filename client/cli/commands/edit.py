"""Change what a task asks for. The keys are the options of `submit`; an empty value removes a request."""

from __future__ import annotations

from client.cli.arguments import environment, fields, ids, pairs
from client.cli.arguments.wrong import wrong
from client.cli.several import each
from client.refusals import coded_error
from wire.ranges import ids_in_short

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from client.cli.context import Context
    from client.shapes import Task

EXAMPLES = f"""keys: {", ".join(fields.VALUES)},
      command (a bash line), urgent (yes or no), share (yes or no),
      var.NAME (all variables are set anew; var= takes them back),
      token (submit: it gets a token of yours to submit others with, or empty),
      owner (whose it is: for admins); of an array also cap (so many run at once), max-fails

examples:
  muster edit 7 gpus=2 priority=5
  muster edit 3-4,9 priority=5      (several tasks)
  muster edit 7 node= after=        (on any node, after nothing)
  muster edit 12/ cap=4             (of the array of which 12 is the first at most 4 run at once)
  muster edit 7 command='python3 train.py --lr 0.01' urgent=yes"""
_EMPTY: dict[str, object] = {
    "after": [], "name": "", "project": "", "env": "", "setup": "", "cwd": "", "log": "", "gpus": 0, "priority": 0,
    "nodes": 1, "gpus-on": {}, "gpu-model": [], "exclude": [], "licence": {}, "min-free-util": 0.0,
    "on-timeout": "fail", "max-retries": 0, "retry-on": [] }  # fmt: skip


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument(
        "id", type=ids.several, metavar="ID", help="the task's id, or name; 3-4,9: several; 12/: an array"
    )
    pairs.add(parser, "changes", change, _is_key, text="see the keys below")


def _is_key(word: str) -> bool:
    return word.replace("_", "-") in _KEYS or word.startswith("var.")


def change(text: str) -> tuple[str, Any]:
    """KEY=VALUE as a field of the wire and its value. Raises ArgumentTypeError."""
    key, equals, value = text.partition("=")
    key = key.strip().replace("_", "-")
    if not equals:
        raise wrong(f"{text!r} is not KEY=VALUE")
    if key.startswith("var."):
        return "variables", dict([fields.variable(f"{text.partition('.')[2]}")])
    if key == "var" and not value:
        return "variables", {}
    if key in ("owner", "token"):
        return key, value
    if key in ("urgent", "share", "elastic"):
        return key, fields.yes(value)
    if key == "command":
        if not value.strip():
            raise wrong("command: it is empty; a task has one: command='python3 train.py'")
        return "command", value
    if key in ("cap", "max-fails"):
        return key.replace("-", "_"), fields.whole(value) if value else None
    if key not in fields.VALUES:
        from client.cli.arguments import nearest

        others = "command, urgent, share, elastic, token, owner"
        raise wrong(f"there is no key {key!r}{nearest.key(key, _KEYS)}; there are {', '.join(fields.VALUES)}, {others}")
    field, read, *_ = fields.VALUES[key]
    found = read(value) if value else _EMPTY.get(key)
    return "gpus_on" if key == "gpu-ids" and isinstance(found, dict) else field, found


_KEYS = frozenset({*fields.VALUES, "command", "urgent", "share", "elastic", "token", "owner", "cap", "max-fails"})
_NAMES_SOMETHING = frozenset({"command", "cwd", "env", "setup", "node", "after", "log"})
"""Keys that name a thing which must exist when the task starts."""
_OF_ARRAYS = frozenset({"cap", "max_fails"})


def _edit_array(context: Context, array: int, changes: dict[str, Any]) -> int:
    of_array = {field: changes.pop(field) for field in _OF_ARRAYS & changes.keys()}
    if of_array:
        page = context.client.edit_array(int(array), **of_array)
        context.say(f"array {array}: changed {', '.join(sorted(of_array))}")
        if not changes:
            if context.json:
                context.print_json(page)
            return 0
    said = f"changed {', '.join(changes)}"
    wanted = ids.of_array(context, array, ids.QUEUED)
    return each.task(context, lambda task_id: context.client.edit(task_id, **changes), said, wanted=wanted)


def run(context: Context) -> int:
    """Do it."""
    changes: dict[str, Any] = {}
    for field, value in context.options.changes:
        if field == "gpus":
            changes |= fields.counts(value)
        elif field == "after":
            changes[field] = ids.of_after(context, value)
        elif field == "node" and value:
            changes |= fields.place(value)
        elif field == "env" and value:
            changes["env"] = environment.resolved(context, value)
        else:
            changes[field] = {**changes.get(field, {}), **value} if field == "variables" else value
    first, *others = said = _known(context)
    if isinstance(first, ids.Whole) and not others:
        return _edit_array(context, first, changes)
    if not _OF_ARRAYS.isdisjoint(changes):
        raise coded_error("bad_request", "keys_of_arrays", id=str(first))
    if others:
        return _edit_several(context, said, changes)
    task = context.client.edit(first, **changes)
    if context.json:
        context.print_json(task)
    context.say(f"task {first}: changed {', '.join(changes)}")
    _tell_again(context, [task])
    if not _NAMES_SOMETHING.isdisjoint(changes):
        _tell_faults(context, task, changes)
    return 0


def _known(context: Context) -> list[int]:
    """The ids of the tasks and arrays."""
    return [one if isinstance(one, ids.Whole) else context.client.find_id(one) for one in context.options.id]


def _edit_several(context: Context, said: list[int], changes: dict[str, Any]) -> int:
    wanted: list[int] = []
    for one in said:
        wanted += ids.of_array(context, one, ids.QUEUED) if isinstance(one, ids.Whole) else [one]
    tasks: list[Task] = []

    def edit(task_id: int) -> Task:
        tasks.append(context.client.edit(task_id, **changes))
        return tasks[-1]

    code = each.task(context, edit, f"changed {', '.join(changes)}", wanted=dict.fromkeys(wanted))
    _tell_again(context, tasks)
    if tasks and not _NAMES_SOMETHING.isdisjoint(changes):
        _tell_faults(context, tasks[0], changes)
    return code


def _tell_again(context: Context, tasks: list[Task]) -> None:
    """Warn that ended tasks will run once more: an edit queues them."""
    again = [task["id"] for task in tasks if task["state"] in ids.QUEUED and task["attempt"]]
    if again:
        ran = "task {} has run before, and is" if len(again) == 1 else "tasks {} have run before, and are"
        context.note(f"note: {ran.format(ids_in_short(again))} queued again")


def _tell_faults(context: Context, task: Task, changes: dict[str, Any]) -> None:
    """Warn of faults that would keep the task from starting well now, as at a submit."""
    from client.cli.arguments.submitting import tell_faults

    spec: dict[str, Any] = {"cwd": task["cwd"], "env": task["env"], "setup": task.get("setup") or ""}
    spec |= {"node": task["node"], "after": task.get("waits_for") or []}
    spec |= {"log": changes["log"]} if changes.get("log") else {}
    tell_faults(context, spec, [task["command"]])
