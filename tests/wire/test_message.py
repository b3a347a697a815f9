"""What is said by key and values: each key has its sentence, each sentence its values; nobody words one elsewhere."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any, TypeGuard

import pytest

from master.core.tasks.transitions import RULES
from tests.cases import each_case
from tests.trees import ROOT, nodes, sources
from wire.english import SENTENCES
from wire.english.errors import ERRORS
from wire.english.files import FILES
from wire.english.tasks import ENDS, WAITS, WARNINGS
from wire.errors import every
from wire.message import NONE, Message, Several, fields_of, ids, names, number, revived, sentence, whole_size

REFUSALS = {rule.refusal for rule in RULES.values() if rule.refusal}
"""The keys of the transition table, to each of which it gives a task's id and state."""
STORED = {"killed_from_outside"}
"""What only earlier versions said: it is stored with tasks, and shown."""
GIVEN_LATER = {"nodes"}
"""What `Message.of` adds, once it is known of which nodes the same is to be said."""
MAKERS = ("client", "master", "monitor", "web", "wire")
CALLED = ("Message", "coded_error", "config_error", "file_error")
"""The functions whose last positional argument is the key of a message."""
ELSEWHERE = (
    "client/refusals.py",
    "client/text/short_reasons.py",
    "master/core/tasks/transitions.py",
    "wire/message.py",
)
"""Files whose keys stand elsewhere."""


def calls(path: Path) -> Iterator[ast.Call]:
    for node in nodes(path):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLED:
            yield node


@cache
def said() -> list[tuple[str, ast.Call]]:
    """Every message that the sources make, with where."""
    return [
        (f"{path.relative_to(ROOT)}:{call.lineno}", call)
        for package in MAKERS
        for path in sources(package)
        if str(path.relative_to(ROOT)) not in ELSEWHERE
        for call in calls(path)
    ]


def key_of(call: ast.Call) -> str:
    """The key that is written down there; "" where there is none to be seen."""
    last = call.args[-1] if call.args else None
    return last.value if isinstance(last, ast.Constant) and isinstance(last.value, str) else ""


def test_every_message_has_a_sentence_and_its_values_are_those_that_the_sentence_names() -> None:
    wrong = []
    for where, call in said():
        key, given = key_of(call), {keyword.arg for keyword in call.keywords}
        if key not in SENTENCES:
            wrong.append(f"{where}: {key or 'what is not a text'} is no key of a sentence")
        elif not given <= (wanted := fields_of(SENTENCES[key])) or not wanted <= given | GIVEN_LATER:
            wrong.append(f"{where}: {key} is given {sorted(map(str, given))}, and its sentence names {sorted(wanted)}")
    assert wrong == []


def test_each_key_stands_in_one_table_and_once() -> None:
    keys: list[str] = []
    for path in sources("wire"):
        if path.parent.name == "english":
            tables = [node for node in nodes(path) if isinstance(node, ast.Dict)]
            keys += [ast.unparse(key) for table in tables for key in table.keys if key]
    assert {key: count for key, count in Counter(keys).items() if count > 1} == {}


def test_what_the_table_refuses_has_a_sentence_of_a_task_and_its_state() -> None:
    assert {key: fields_of(SENTENCES[key]) for key in REFUSALS} == {key: {"id", "state"} for key in REFUSALS}


def test_every_sentence_is_said_by_somebody() -> None:
    assert set(SENTENCES) - {key_of(call) for _, call in said()} - REFUSALS - STORED == set()


def test_the_code_of_an_error_is_one_that_there_is() -> None:
    codes = {kind.code for kind in every()}
    coded = [(where, ast.unparse(call.args[0])) for where, call in said() if ast.unparse(call.func) == "coded_error"]
    assert coded
    assert [f"{where}: {code}" for where, code in coded if code.strip("'") not in codes] == []


def is_worded(value: ast.expr) -> bool:
    """Is it a text that is written down there?"""
    return isinstance(value, ast.JoinedStr) or (isinstance(value, ast.Constant) and isinstance(value.value, str))


def test_no_error_of_configuration_is_worded_where_it_arises() -> None:
    worded = []
    for path in (path for package in MAKERS for path in sources(package)):
        for node in nodes(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ConfigError":
                of_message = all(isinstance(one, ast.Call) and ast.unparse(one.func) == "Message" for one in node.args)
                worded += [] if of_message else [f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"]
    assert worded == []


def test_no_reason_of_a_task_is_worded_where_it_arises() -> None:
    worded = []
    for path in sources("master"):
        for node in nodes(path):
            named = isinstance(node, ast.Call) and any(
                keyword.arg == "reason" and is_worded(keyword.value) for keyword in node.keywords
            )
            is_set = (
                isinstance(node, ast.Assign)
                and any(isinstance(one, ast.Attribute) and one.attr == "reason" for one in node.targets)
                and is_worded(node.value)
            )
            if named or is_set:
                worded.append(f"{path.relative_to(ROOT)}: {ast.unparse(node)}")
    assert worded == []


DESKTOP = "master/desktop/"
"""The desktop client's dialect: its boxes are Chinese, made of our English sentences."""


def of_files() -> dict[str, list[ast.AST]]:
    """The nodes of every source but those of the desktop client's dialect, by its path."""
    paths = {str(path.relative_to(ROOT)): path for package in MAKERS for path in sources(package)}
    return {name: nodes(path) for name, path in paths.items() if not name.startswith(DESKTOP)}


def name_of(node: ast.expr) -> str:
    """The last name of what is called, or of a base."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def error_names(of: dict[str, list[ast.AST]]) -> set[str]:
    """The names of all our errors, of those too that a package has for itself."""
    names = {kind.__name__ for kind in every()}
    classes = [node for found in of.values() for node in found if isinstance(node, ast.ClassDef)]
    while more := {one.name for one in classes if names.intersection(map(name_of, one.bases))} - names:
        names |= more
    return names


def is_finished(value: ast.expr) -> bool:
    """Is it a sentence that is put together there?"""
    if isinstance(value, ast.IfExp):
        return is_finished(value.body) or is_finished(value.orelse)
    if isinstance(value, ast.BoolOp):
        return any(map(is_finished, value.values))
    if isinstance(value, ast.BinOp):
        return is_finished(value.left) or is_finished(value.right)
    if isinstance(value, ast.Call):  # `str(error)` of an error of ours leaves its key and its values behind
        return isinstance(value.func, ast.Name) and value.func.id == "str"
    return is_worded(value)


def calls_of(found: Iterable[ast.AST], names: set[str]) -> list[ast.Call]:
    return [node for node in found if isinstance(node, ast.Call) and name_of(node.func) in names]


def texts_of(found: Iterable[ast.AST]) -> set[str]:
    """The variables that hold a sentence which is written down there."""
    made = [node for node in found if isinstance(node, ast.Assign) and is_sentence(node.value)]
    return {target.id for node in made for target in node.targets if isinstance(target, ast.Name)}


def is_sentence(value: ast.expr) -> bool:
    """Is it more than a word?"""
    return isinstance(value, ast.JoinedStr) or (
        isinstance(value, ast.Constant) and isinstance(value.value, str) and " " in value.value
    )


TOLD = {"fault", "told", "what", "why"}
"""How a function names what is wrong, which it gives on to an error."""


def helpers_of(found: Iterable[ast.AST], errors: set[str]) -> set[str]:
    """The functions that put what they are given into an error."""
    functions = [node for node in found if isinstance(node, ast.FunctionDef)]
    return {
        function.name
        for function in functions
        if (given := TOLD.intersection(one.arg for one in function.args.args))
        for call in calls_of(ast.walk(function), errors)
        if given.intersection(name_of(one) for argument in call.args for one in ast.walk(argument) if is_name(one))
    }


def is_name(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name)


def test_no_error_is_worded_where_it_arises() -> None:
    of = of_files()
    errors = error_names(of)
    worded = [
        f"{where}:{call.lineno}: {ast.unparse(call)}"
        for where, found in of.items()
        for texts in [texts_of(found)]
        for call in calls_of(found, errors)
        if any(is_finished(one) or name_of(one) in texts for one in call.args)
    ]
    assert worded == []


def test_no_function_that_makes_an_error_is_given_a_finished_sentence() -> None:
    of = of_files()
    errors = error_names(of)
    helpers = {where: helpers_of(found, errors) for where, found in of.items()}
    imported = {name for names in helpers.values() for name in names if not name.startswith("_")}
    assert "refuse" in imported
    worded = [
        f"{where}:{call.lineno}: {ast.unparse(call)}"
        for where, found in of.items()
        for call in calls_of(found, helpers[where] | imported)
        if call.args and is_sentence(call.args[-1]) and (name_of(call.func) in helpers[where] or not is_own(call.func))
    ]
    assert worded == []


def is_own(called: ast.expr) -> bool:
    """Is it a method of the object itself, which may have the name of a function elsewhere?"""
    return isinstance(called, ast.Attribute) and is_name(called.value) and called.value.id == "self"


NOT_TOLD = ("ArgumentTypeError", "AssertionError", "ValueError")
"""What argparse puts into words of its own, and what only a defect of ours raises."""


def test_no_error_of_the_client_is_worded_where_it_arises() -> None:
    worded = []
    for path in sources("client"):
        for node in nodes(path):
            if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
                name = ast.unparse(node.func).rpartition(".")[2]
                if name.endswith("Error") and name not in NOT_TOLD and any(map(is_worded, node.args)):
                    worded.append(f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}")
    assert worded == []


NOTE_WORDS = 5
NOTES_WORDED = (
    "client/cli/arguments/conf_changes.py",
    "client/cli/arguments/ids.py",
    "client/cli/arguments/submitting.py",
    "client/cli/commands/alloc/new.py",
    "client/cli/commands/audit.py",
    "client/cli/commands/files/__init__.py",
    "client/cli/commands/files/transfer.py",
    "client/cli/commands/logout.py",
    "client/cli/commands/logs.py",
    "client/cli/commands/node/attempts.py",
    "client/cli/commands/node/doctor.py",
    "client/cli/commands/node/token.py",
    "client/cli/commands/node/trust.py",
    "client/cli/commands/queue.py",
    "client/cli/commands/run.py",
    "client/cli/commands/tokens/new.py",
    "client/cli/commands/tokens/revoke.py",
    "client/cli/commands/up.py",
    "client/cli/commands/users/add.py",
    "client/cli/commands/users/link.py",
    "client/cli/commands/users/passwd.py",
    "client/cli/commands/wait.py",
    "client/cli/context.py",
    "client/cli/main.py",
    "client/cli/several/each.py",
)
"""Files whose notes are still worded where they arise. The list only gets shorter."""


def words_in(value: ast.expr) -> int:
    """How many words of a text are written down there, apart from commands and what follows a mark."""
    parts = [part.value for part in ast.walk(value) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return len(re.findall(r"[A-Za-z][a-z']+", " ".join(parts)))


def test_no_note_of_a_command_is_worded_where_it_arises() -> None:
    worded = {
        where
        for where, found in of_files().items()
        if where.startswith("client/cli/")
        for call in calls_of(found, {"note"})
        for told in call.args
        if not isinstance(told, ast.Call) and words_in(told) >= NOTE_WORDS
    }
    assert worded == set(NOTES_WORDED)


def test_a_sentence_is_made_of_its_values() -> None:
    assert str(Message("held", id=7)) == "held: release it with `muster release 7`"
    assert sentence(Message("no_such_node", node="a'b", nodes=NONE)) == 'there is no node "a\'b" (nodes: none)'
    waits = Message("waits_for", tasks=(Message("to_succeed", id=1), Message("to_end", id=2)))
    assert str(waits) == "waits for task 1 to succeed, task 2 to end"
    with pytest.raises(KeyError):
        str(Message("held"))


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        (NONE, "the cluster has 1 GPU"),
        (names(["a"]), "node a has 1 GPU"),
        (names([f"a{n}" for n in range(1, 10)]), "nodes a[1-9] have 1 GPU"),
        (names(["p", "q", "r"], 2), "nodes p, q and 1 more have 1 GPU"),
    ],
    ids=str,
)
def test_what_is_said_of_many_is_said_in_the_plural(nodes: Several, told: str) -> None:
    assert str(Message("has", amount=Message("amount", count=1, unit="GPU")).of(nodes)) == told


def test_a_program_reads_lists_and_numbers_and_no_sentence() -> None:
    obstacle = Message("obstacle_because", nodes=names([f"a{n}" for n in range(201)]), what=Message("room"),
                       because=(Message("held_by", tasks=ids([9, 3, 4, 5, 20, 30], 2)),))  # fmt: skip
    assert str(obstacle) == "a[0-200]: has room for it (tasks 3-5, 9…)"
    assert obstacle.plain_args() == {
        "nodes": {"parts": ["a[0-200]"], "count": 201, "more": 0},
        "what": {"key": "room", "args": {}},
        "because": [{"key": "held_by", "args": {"tasks": {"parts": ["3-5", "9"], "count": 6, "more": 2}}}],
    }


def test_two_that_say_the_same_are_equal_and_can_be_told_together() -> None:
    one, other = (Message("closed", unit="GPU", numbers=ids([1, 2]), why="broken") for _ in range(2))
    assert one == other
    assert len({one, other, Message("room")}) == 2
    assert one != one.but(why="busy")
    assert repr(Message("room")) == "Message('room', {})"


def test_a_time_by_which_something_has_happened_is_told_in_the_first_whole_minute_after_it() -> None:
    minute = Message("kept_for_another_until", node="a", gpus=names([]), task=1, until=120.0)
    told = Message("expected_to_end", id=1, at=120.0)
    for at, same in ((60.1, True), (120.0, True), (120.1, False)):
        assert (str(told.but(at=at)) == str(told)) is same, at
    assert str(minute.but(until=179.9)) == str(minute), "and one that it may not outlast in the minute before it"


def sample(form: str) -> object:
    """A value that this form can put into words."""
    if form in {"subject", "has", "are", "few", "gpus", "or none"}:
        return names(["a", "b"])
    if form in {", ", "; ", " and ", " or ", "colon", "list or none", "list or nothing"}:
        return ("a", "b")
    return (
        7
        if form in {"signal", "size", "minute", "by", "moment", "and more", ",", ".0f", ".1f", "whole size", "number"}
        or "|" in form
        else "x"
    )


MOST = [str, int, tuple, Several]


def samples_for(text: str) -> dict[str, Any]:
    """A value for each that the sentence names. One value has to serve all forms: the one that can do most."""
    samples: dict[str, list[Any]] = {}
    for _, name, form, _ in Formatter().parse(text):
        if name is not None:
            samples.setdefault(name, []).append(sample(form or ""))
    return {name: max(ones, key=lambda one: MOST.index(type(one))) for name, ones in samples.items()}


def test_every_form_in_a_sentence_is_one_that_there_is() -> None:
    with each_case() as cases:
        for key, text in SENTENCES.items():
            with cases.case(key):
                told = str(Message(key, **samples_for(text)))
                assert told
                assert "{" not in told.replace("{…}", "")


def test_no_sentence_tells_a_number_in_scientific_form() -> None:
    """As `{:g}` does from a million on, and `{:.3g}` from a thousand."""
    forms = {(key, form) for key, text in SENTENCES.items() for _, _, form, _ in Formatter().parse(text)}
    assert [key for key, form in forms if re.fullmatch(r"[,.0-9]*[ge]", form or "")] == []


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0, "0"),
        (1 << 20, "1,048,576"),
        (1e15, "1,000,000,000,000,000"),
        (0.5, "0.5"),
        (1.25e-5, "0.000013"),
        (10, "10"),
    ],
)
def test_a_number_is_told_in_digits(value: float, told: str) -> None:
    assert number(value) == told


@pytest.mark.parametrize(
    ("size", "told"),
    [
        (0, "0"),
        (1000, "1,000 bytes"),
        (1024, "1 KiB"),
        (1 << 20, "1 MiB"),
        (3 << 39, "1,536 GiB"),
        (1 << 60, "1,048,576 TiB"),
    ],
)
def test_a_size_is_told_in_the_largest_unit_that_says_it_whole(size: int, told: str) -> None:
    assert whole_size(size) == told


def test_what_crossed_as_json_is_revived_as_it_was() -> None:
    inner = Message("holds_task", id=7, state="running")
    for message in (
        Message("needed", path="data", why=inner),
        Message("unknown_node", node="x", nodes=Several(("a", "b"), 5, 3)),
        Message("needs_scope", verb="v", scope="files", user="li", scopes=("read", "submit")),
        Message("log_ins_busy", seconds=1.5),
    ):
        again = revived(message.key, json.loads(json.dumps(message.plain_args())))
        assert (again, str(again)) == (message, str(message))


@pytest.mark.parametrize(
    ("key", "args"),
    [("no_such_key", {}), ("needed", {"path": "x"}), ("needed", {"path": "x", "why": {"key": "none", "args": {}}})],
)
def test_what_is_no_message_is_not_revived(key: str, args: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"is not said with"):
        revived(key, args)


ADMINS = re.compile(
    r"\braise (it|one)\b|`muster (set\b|agents|node (add|edit|resume))|say so in the registry|name some in `vis"
)
"""What only admins can do: change a setting, conf.json, the registry, or a node."""
FOR_ADMINS = {"bad_gpus_max", "no_setting", "host_key_in_registry", "not_drained_but_closed", "needs_no_token"}
FOR_ADMINS |= {"node_is_there"}
"""Answers to what only admins ask; the first is about a field of the task."""


@pytest.mark.parametrize("key", sorted({**ERRORS, **FILES, **WAITS, **ENDS, **WARNINGS}.keys() - FOR_ADMINS))
def test_a_remedy_that_only_admins_have_says_so_to_everybody_else(key: str) -> None:
    text = SENTENCES[key]
    assert not ADMINS.search(text) or "admin" in text
