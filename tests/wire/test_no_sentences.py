"""No test holds a copy of a sentence that a message makes: a sentence that is worded better breaks no test then.

A copy is a text with five words in a row of one of the sentences, outside of docstrings, and of what an assertion says
when it fails. Where a program shows a sentence, tests take it of its message (`tests/faults.py`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.trees import ROOT, sources
from wire.english import SENTENCES
from wire.message import Message

WORDS = 5
"""So many words in a row are a copy of a sentence; fewer are plain English, too."""
AN_AGENTS = "an agent's own words, which it says on its node, or those of the script that runs a task"
AN_EARLIER_VERSIONS = "the words of an earlier version, which runs in the test"
A_COMMANDS = "what a command says of what it did, or of a wrong option, which no message says"
NOT_OURS = "plain English of the test itself"
ALLOWED = {
    "tests/wire/": "sentences themselves are their subject",
    "tests/web/test_wording.py": "sentences themselves are their subject",
    "tests/desktop/": "the desktop client's dialect goes by our English sentences, and has some of its own",
    "tests/agent/": AN_AGENTS,
    "tests/master/drivers/test_ssh_channel.py": AN_AGENTS,
    "tests/attack/test_older_master.py": AN_EARLIER_VERSIONS,
    "tests/attack/test_own_account_fence.py": AN_EARLIER_VERSIONS,
    "tests/master/durable/test_upgrade.py": AN_EARLIER_VERSIONS,
    "tests/system/test_moving_over_files.py": AN_EARLIER_VERSIONS,
    "tests/attack/test_planted_for_the_client.py": A_COMMANDS,
    "tests/client/test_named.py": A_COMMANDS,
    "tests/client/test_node_commands.py": A_COMMANDS,
    "tests/client/test_node_troubles.py": A_COMMANDS,
    "tests/client/test_nodes_live.py": A_COMMANDS,
    "tests/master/setup/": A_COMMANDS,
    "tests/system/test_first_admin.py": A_COMMANDS,
    "tests/system/test_second_user.py": A_COMMANDS,
    "tests/master/people/test_directory.py": "what a directory answered, which only the log tells",
    "tests/system/test_other_users.py": "what the log says of a desktop client",
    "tests/system/test_fenced.py": NOT_OURS,
    "tests/system/test_log_search.py": NOT_OURS,
    "tests/system/test_task_tokens.py": NOT_OURS,
}
"""Files, and folders, that may hold copies, each with its reason."""


def pieces(text: str) -> Iterator[str]:
    """Every run of so many words that stands between two values or marks."""
    for piece in re.split(r"\{[^{}]*\}|[^\w\s'-]", text):
        words = piece.lower().split()
        yield from (" ".join(words[at : at + WORDS]) for at in range(len(words) - WORDS + 1))


@cache
def known() -> dict[str, str]:
    """The key of a sentence for each of its pieces."""
    return {piece: key for key, text in SENTENCES.items() for piece in pieces(text)}


def texts(tree: ast.Module) -> Iterator[ast.Constant]:
    """Every text that is compared, played or looked for."""
    told = {
        id(part)
        for node in ast.walk(tree)
        for said in ([node.value] if isinstance(node, ast.Expr) else [node.msg] if isinstance(node, ast.Assert) else [])
        if isinstance(node, ast.Assert) or isinstance(said, ast.Constant)
        if said is not None
        for part in ast.walk(said)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node


def copies(source: str) -> Iterator[str]:
    """The copies in a source. Few sources need to be parsed: those in which one stands on a line."""
    if not any(piece in known() for piece in pieces(source)):
        return
    for node in texts(ast.parse(source)):
        if found := [piece for piece in pieces(str(node.value)) if piece in known()]:
            yield f"{node.lineno}: {found[0]!r} of {known()[found[0]]}"


def test_a_copy_is_found_and_a_docstring_is_none() -> None:
    sentence = str(Message("wrong_password"))
    assert list(pieces(sentence))
    assert list(copies(f"told = {sentence!r}"))
    assert list(copies(f"assert {sentence!r} in told"))
    for apart in (f'"""{sentence}"""', f"assert told, {sentence!r}", f"# {sentence}"):
        assert not list(copies(apart)), apart


def test_no_test_holds_a_copy_of_a_sentence() -> None:
    names = {str(path.relative_to(ROOT)): path for path in sources("tests")}
    found = [
        f"{name}:{copy}"
        for name, path in names.items()
        if not name.startswith(tuple(ALLOWED))
        for copy in copies(path.read_text(encoding="utf-8"))
    ]
    assert found == []
