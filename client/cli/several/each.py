"""One verb for several tasks: goes on after a refusal, tells alike together with ids as ranges, gives the exit code."""

from __future__ import annotations

import re

from client.cli.arguments import ids
from client.cli.screen.interrupt import LastWords
from wire.harmless import harmless
from wire.ranges import ids_in_short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from client.cli.context import Context

_SHOWN = 10


def task(
    context: Context,
    verb: Callable[[int], Any],
    said: str,
    *,
    wanted: Iterable[int] | None = None,
    states: Iterable[str] | None = None,
    as_json: bool = True,
    names: Mapping[str, str] | None = None,
) -> int:
    """Call `verb` for each of the ids (`wanted`; else those of the command line, of arrays those in one of `states`);
    `said` is told of those for which it went well. Gives 1 when one was refused. `as_json`: print the list of results
    with --json; without, the caller does. `names`: those of the tasks, to be told with their ids."""
    from wire.errors import MusterError, UnreachableError

    results: list[Any] = []
    done: list[int] = []
    refused = Refused(context)

    def tell() -> None:
        if done:
            told = f"task{'s' if len(done) > 1 else ''} {ids_and_names(done, names or {})}: {said}"
            context.done.append(told)
            context.say(told)
        refused.tell()

    try:
        with LastWords(tell):
            for task_id in ids.flat(context, states) if wanted is None else wanted:
                try:
                    results.append(verb(task_id))
                except UnreachableError:
                    raise
                except MusterError as error:
                    refused.add(task_id, error.code, str(error))
                else:
                    done.append(task_id)
    finally:  # whatever broke it off, what was done was done
        tell()
    if context.json and as_json:
        context.print_json(results)
    return 1 if refused else 0


def ids_and_names(task_ids: list[int], names: Mapping[str, str]) -> str:
    """`3-12 (sweep), 15 (bert), 17`: those that have the same name together. `names`: by id, as a string."""
    by_name: dict[str, list[int]] = {}
    for task_id in task_ids:
        by_name.setdefault(names.get(str(task_id), ""), []).append(task_id)
    plain = by_name.pop("", [])
    told = [f"{ids_in_short(found)} ({harmless(name)})" for name, found in by_name.items()]
    return ", ".join([*told, *([ids_in_short(plain)] if plain else [])])


class Refused:
    """Refusals by task: those that differ by the task's id only share a line."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._alike: dict[tuple[str, str], tuple[str, list[int]]] = {}

    def __bool__(self) -> bool:
        return bool(self._alike)

    def add(self, task_id: int, code: str, message: str) -> None:
        """Note a refusal."""
        pattern = re.sub(rf"\b{task_id}\b", "\0", message)
        self._alike.setdefault((code, pattern), (message, []))[1].append(task_id)

    def tell(self) -> None:
        """Say them on stderr."""
        found = list(self._alike.items())
        for (code, _), (message, task_ids) in found[:_SHOWN]:
            rest = f" (the same for {ids_in_short(task_ids[1:])})" if len(task_ids) > 1 else ""
            self._context.note(f"error: {code}: {harmless(message)}{rest}")
        more = [task_id for _, (_, task_ids) in found[_SHOWN:] for task_id in task_ids]
        if more:
            self._context.note(f"… and {ids_in_short(more)}, refused for other reasons")
