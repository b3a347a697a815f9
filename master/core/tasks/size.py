"""How many bytes a task holds by what was said of it: its command, variables, paths and lists. Pure.

Most tasks say little, and a master may hold a hundred thousand: of those up to `SMALL` it is enough to know how many
there are. A size is an estimate of the memory, never much below it, and the same for the same words.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from master.core.tasks.task import Task

SMALL = 4096
"""A task of up to so many bytes counts for nothing: the number of tasks bounds those."""
_WORD = 64
"""Of a word in a list, or of a value, beside its text."""
_ENTRY = 128
"""Of a name and a value, beside their texts."""
_NUMBER = 40
_PREDECESSOR = 256
"""With what is kept of it as long as the task waits."""
_WIDEST = 4
"""Bytes of a character where one of a text is outside ASCII."""


def large_size(task: Task) -> int:
    """Return the bytes of a large task; 0 for one of up to `SMALL`."""
    command = task.command
    size = len(task.setup) + len(task.cwd) + len(task.env) + len(task.log_path) + len(task.checkpoint)
    size += len(command) if isinstance(command, str) else sum(map(len, command)) + _WORD * len(command)
    if (
        task.variables or task.after or task.gpu_ids or task.node_list or task.exclude or task.gpus_on
        or task.sweep
    ):  # fmt: skip
        size += _lists(task)
    elif size * _WIDEST <= SMALL:
        return 0
    if not all(map(str.isascii, _texts(task))):
        size *= _WIDEST
    return size if size > SMALL else 0


def large_sizes(tasks: Sequence[Task]) -> list[int] | None:
    """Return the bytes of each of several tasks that differ in command, name, log and sweep alone; None where none of
    them is large."""
    first = tasks[0]
    if isinstance(first.command, str) and not (_lists(first) or first.sweep):
        longest = max(map(len, (str(task.command) for task in tasks)))
        rest = len(first.setup) + len(first.cwd) + len(first.env) + len(first.log_path) + len(first.checkpoint)
        if (longest + rest + _WORD) * _WIDEST <= SMALL:
            return None
    sizes = list(map(large_size, tasks))
    return sizes if any(sizes) else None


def _lists(task: Task) -> int:
    """Return the bytes of what most tasks have none of."""
    size = _mapped(task.variables) + _mapped(task.sweep) + len(task.after) * _PREDECESSOR
    size += _words(task.node_list) + _words(task.exclude)
    return size + _words(task.gpus_on) + (len(task.gpu_ids or ()) + sum(map(len, task.gpus_on.values()))) * _NUMBER


def _words(words: Collection[str]) -> int:
    return sum(map(len, words)) + len(words) * _WORD


def _mapped(values: dict[str, str]) -> int:
    return sum(map(len, values)) + sum(map(len, values.values())) + len(values) * _ENTRY


def _texts(task: Task) -> Iterable[str]:
    """The texts that may be long."""
    yield from (task.command,) if isinstance(task.command, str) else task.command
    yield from (task.setup, task.cwd, task.env, task.log_path, task.checkpoint)
    yield from task.variables.values()
    yield from task.sweep.values()
    yield from (*task.node_list, *task.exclude, *task.gpus_on)
