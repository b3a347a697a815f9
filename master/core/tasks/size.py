"""How many bytes a task holds: with its command, variables, paths and lists, and the attempts kept of it. Pure.

Most tasks say little, and a master may hold a hundred thousand: of those up to `SMALL` it is enough to know how many
there are. A size is an estimate, the same for the same words. For ten thousand tasks of a kind it is 0.7 to 1.3 of what
they take (`tests/master/core/tasks/test_size.py` measures it), unless they say the same: equal variables, and equal
words of commands, are kept once (`shared_values`), and count for each task, since an edit may set them apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from master.core.tasks.task import QUEUED, Task

SMALL = 4096
"""A task of up to so many bytes counts for nothing: the number of tasks bounds those."""
_TASK = 850
"""Of a task that says next to nothing: itself, and its place in tables and in the queue."""
_WORD = 64
"""Of a word in a list, or of a value, beside its text."""
_ENTRY = 112
"""Of a name and a value, beside their texts."""
_NUMBER = 8
"""A node has so few GPUs that Python keeps their numbers once."""
_PREDECESSOR = 160
"""With what is kept of it as long as the task waits."""
_ATTEMPT = 600
_PART = 600
"""Of one that came and went since the start it is less, and of one that was read from the disk more."""
_WIDEST = 8
"""Bytes of a character at most: four in the text, four in what was written of it, which Python keeps beside."""


def large_size(task: Task) -> int:
    """Return the bytes of a large task; 0 for one of up to `SMALL`."""
    command = task.command
    size = len(task.setup) + len(task.cwd) + len(task.env) + len(task.log_path) + len(task.checkpoint)
    size += len(task.name) + len(task.project)
    beside = _TASK
    if isinstance(command, str):
        size += len(command)
    else:
        size += sum(map(len, command))
        beside += _WORD * len(command)
    if (
        task.variables or task.after or task.gpu_ids or task.node_list or task.exclude or task.gpus_on
        or task.sweep or task.snapshot or task.gpu_models or task.licences
        or task.earlier or (task.allocation and task.state in QUEUED)
    ):  # fmt: skip
        beside += _lists(task)
    elif beside + size * _WIDEST <= SMALL:
        return 0
    if not all(map(str.isascii, _texts(task))):
        size += sum(_wider(text) for text in _texts(task) if not text.isascii())
    return size + beside if size + beside > SMALL else 0


def large_sizes(tasks: Sequence[Task]) -> list[int] | None:
    """Return the bytes of each of several tasks that differ in command, name, log and sweep alone; None where none of
    them is large."""
    first = tasks[0]
    if isinstance(first.command, str) and not (_lists(first) or first.sweep):
        longest = max(map(len, (str(task.command) for task in tasks))) + max(map(len, (task.name for task in tasks)))
        rest = len(first.setup) + len(first.cwd) + len(first.env) + len(first.log_path) + len(first.checkpoint)
        rest += len(first.project)
        if _TASK + (longest + rest + _WORD) * _WIDEST <= SMALL:
            return None
    sizes = list(map(large_size, tasks))
    return sizes if any(sizes) else None


def _lists(task: Task) -> int:
    """Return the bytes of what most tasks have none of."""
    size = _mapped(task.variables) + _mapped(task.sweep) + len(task.after) * _PREDECESSOR
    size += _words(task.node_list) + _words(task.exclude) + _words(task.gpus_on)
    size += _words(task.gpu_models) + _words(task.licences)
    if (copied := task.snapshot) is not None:
        size += len(copied.of) + len(copied.digest) + len(copied.commit) + _ENTRY
    size += (len(task.gpu_ids or ()) + sum(map(len, task.gpus_on.values()))) * _NUMBER
    if task.earlier or task.allocation:
        # Of one that waits again, the attempt that it still has is among the earlier ones in a moment.
        for one in task.attempts if task.state in QUEUED else task.earlier:
            size += _ATTEMPT + _PART * len(one.parts) + len(one.last_line or "")
    return size


def _words(words: Collection[str]) -> int:
    return sum(map(len, words)) + len(words) * _WORD


def _mapped(values: dict[str, str]) -> int:
    return sum(map(len, values)) + sum(map(len, values.values())) + len(values) * _ENTRY


def _wider(text: str) -> int:
    """Return the bytes beyond one for each character that a text outside ASCII takes, with what was written of it."""
    try:
        text.encode("latin-1")
        width = 1
    except UnicodeEncodeError:
        width = 4 if len(text.encode("utf-16-le", "surrogatepass")) > 2 * len(text) else 2
    return (width - 1) * len(text) + len(text.encode("utf-8", "surrogatepass"))


def _texts(task: Task) -> Iterable[str]:
    """The texts that may be long."""
    yield from (task.command,) if isinstance(task.command, str) else task.command
    yield from (task.setup, task.cwd, task.env, task.log_path, task.checkpoint, task.name, task.project)
    if task.snapshot is not None:
        yield task.snapshot.of
    yield from task.variables.values()
    yield from task.sweep.values()
    yield from (*task.node_list, *task.exclude, *task.gpus_on, *task.gpu_models, *task.licences)
