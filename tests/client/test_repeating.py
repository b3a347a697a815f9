"""What the client sends again after a connection broke is only what the table of verbs says may be asked twice."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from master.verbs.table import VERBS
from tests.cases import each_case
from tests.trees import ROOT, nodes, sources

NEVER_AGAIN = {"_long"}
"""Methods of the client that send nothing twice, whatever it is."""
BY_REQUEST_ID = {"task.submit", "task.submit_batch", "task.submit_array", "alloc.new"}
"""Sent again with the same `request_id`, which makes one request of both."""
ONCE_THERE_NOTHING_IS_DONE_AGAIN = {"file.write": "overwrite", "file.make": "parents"}
"""Verbs that may be asked twice if this parameter is true; the client repeats them just then."""


def calls(path: Path) -> Iterator[tuple[str, str, ast.expr | None]]:
    """Where in the file which verb is called by its name, and what is said of repeating it."""
    for node in nodes(path):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            verb = node.args[0].value
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if isinstance(verb, str) and verb in VERBS and name not in NEVER_AGAIN:
                said = next((word.value for word in node.keywords if word.arg == "repeatable"), None)
                yield verb, f"{path.relative_to(ROOT)}:{node.lineno}", said


@cache
def all_calls() -> list[tuple[str, str, ast.expr | None]]:
    """Every call of a verb in the client."""
    return [call for path in sources("client") for call in calls(path)]


def test_only_what_may_be_asked_twice_is_sent_again() -> None:
    with each_case() as cases:
        for verb, place, said in all_calls():
            with cases.case(f"{verb} {place}"):
                check_call(verb, place, said)


def check_call(verb: str, place: str, said: ast.expr | None) -> None:
    if isinstance(said, ast.Constant) and said.value is False:
        return
    if verb in ONCE_THERE_NOTHING_IS_DONE_AGAIN:
        assert isinstance(said, ast.Name), place
        assert said.id == ONCE_THERE_NOTHING_IS_DONE_AGAIN[verb], place
    else:
        assert VERBS[verb].repeatable or verb in BY_REQUEST_ID, f"{place}: {verb} may not be sent twice"


def test_the_calls_of_the_client_are_found() -> None:
    found = {verb for verb, _, _ in all_calls()}
    assert {"task.submit", "task.start", "task.retry", "node.list", "node.token", "agent.restart", "log.read"} <= found
    assert len(found) > len(VERBS) / 2
