"""The lint of the English: what it finds, what it leaves alone, and that its allowances only fall."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.cases import each_case
from tests.language import IDIOMS, Hit, allowed, beyond, files, hits_in, lower, too_many

BAD = {
    "a docstring": ("a.py", '"""Say what he may know."""\n', [("pronoun", 1)]),
    "a docstring of an attribute": ("a.py", 'X = 1\n"""Of his, so many."""\n', [("pronoun", 2)]),
    "a comment over two lines": ("a.py", "x = 1  # The caller, when\n# he calls\n", [("pronoun", 2)]),
    "a sentence of a message": ("wire/english/x.py", 'A = {"key": "not for {user}: not his"}\n', [("pronoun", 1)]),
    "a part of an f-string": ("a.py", 'x = f"{y} is given to him now"\n', [("pronoun", 1)]),
    "the second sentence": ("a.py", '"""A queue. Who waits in it is told."""\n', [("relative", 1)]),
    "a sentence that begins a line": ("a.py", '"""A queue.\nWho waits in it is told."""\n', [("relative", 2)]),
    "the second paragraph": ("a.py", '"""A queue\n\nWhat waits in it is told."""\n', [("relative", 3)]),
    "behind a colon": ("a.md", "A note: What is asked counts.\n", [("relative", 1)]),
    "an item of a list": ("a.md", "# Queue\n\n* Whoever waits is told.\n", [("relative", 3)]),
    "a bold beginning": ("a.md", "**Who has no account** waits.\n", [("relative", 1)]),
    "a phrase": ("a.md", "Say as whom it runs.\n", [("idiom", 1)]),
    "a word of a page": ("web/static/words/en/a.js", 'export const A = {\n  "a.b": "To him.",\n};\n', [("pronoun", 2)]),
    "a sentence of a page": ("web/static/words/en/a.js", '  "a.b": "What is held waits.",\n', [("relative", 1)]),
    "a comment of a page": ("web/static/a.js", "/** One.\n * He waits. */\nfoo();\n", [("pronoun", 2)]),
    "a line of a page": ("web/static/a.js", "foo(); // of his own\n", [("pronoun", 1)]),
}  # fmt: skip
GOOD = {
    "a name": ("a.py", 'x = "his"\n'),
    "code in backticks": ("a.py", '"""Call `he` of the alphabet."""\n'),
    "a block of code": ("a.md", "Type:\n\n```\nWho is he\n```\n"),
    "a question": ("a.md", "Who may do that? The owner.\n"),
    "a heading": ("a.md", "## What an admin may do\n"),
    "a label of a page": ("web/static/words/en/a.js", '  "a.b": "What it is for",\n'),
    "a word within another": ("a.py", '"""The history, this, the cache."""\n'),
    "a clause in the middle": ("a.py", '"""Tell whoever waits what happened."""\n'),
}


PHRASES = [
    "as whom",
    "such a one",
    "takes it its",
    "who is nobody",
    "opens the door",
    "queue stands still",
    "task that has ended",
    "what is there",
    "log that is not there",
]
HIT = Hit("pronoun", "a.py", 3, "what he says")


def test_each_breach_is_found_on_its_line() -> None:
    with each_case() as cases:
        for name, (path, source, expected) in BAD.items():
            with cases.case(name):
                assert [(hit.rule, hit.line) for hit in hits_in(path, source)] == expected


def test_plain_english_and_code_are_left_alone() -> None:
    with each_case() as cases:
        for name, (path, source) in GOOD.items():
            with cases.case(name):
                assert list(hits_in(path, source)) == []


def test_each_phrase_is_found() -> None:
    with each_case() as cases:
        for pattern, phrase in zip(IDIOMS, PHRASES, strict=True):
            with cases.case(pattern):
                assert [hit.rule for hit in hits_in("a.md", f"It says {phrase} here.\n")] == ["idiom"]
                assert re.fullmatch(pattern, phrase)


def test_a_hit_beyond_the_allowance_is_told_and_one_within_is_not() -> None:
    allowance = Counter({("pronoun", "a.py"): 1})
    assert beyond([HIT], allowance) == []
    told = beyond([HIT, HIT._replace(line=9)], allowance)
    assert [line.partition(": ")[0] for line in told] == ["a.py:3", "a.py:9"]
    assert len(beyond([HIT._replace(path="b.py")], allowance)) == 1
    assert len(beyond([HIT._replace(rule="idiom")], allowance)) == 1


def test_an_allowance_only_falls() -> None:
    allowance = Counter({("pronoun", "a.py"): 2, ("idiom", "gone.py"): 1})
    assert len(too_many([HIT], allowance)) == len(allowance)
    assert lower([HIT], allowance) == "pronoun a.py 1\n"
    assert lower([HIT] * 3, allowance) == "pronoun a.py 2\n"
    assert lower([HIT], Counter()) == "", "what is new is not allowed by writing it down"


@pytest.mark.real
def test_the_allowances_name_files_that_are_checked() -> None:
    checked = set(files())
    assert {"README.md", "wire/english/tasks.py", "client/cli/main.py", "web/static/words/en/queue.js"} <= checked
    assert "docs/wire.md" not in checked
    assert {path for _, path in allowed()} <= checked
