"""What a task names is read off its command where nothing else can be meant, and each lack of it has its words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from master.core.attempts.preflight import (
    MOST,
    Finding,
    Lack,
    Want,
    closed_to_owner,
    interpreter_of,
    known_faults,
    once_each,
    one_word,
    told,
    unknown_memory,
    wants_of,
)
from master.core.nodes.inventory import NodeSpec
from master.core.nodes.node import Restriction
from master.core.tasks.attempt import AskedEnd, Part
from master.core.tasks.task import After, Task, TaskState
from master.nodes.place_question import question, read_answer
from tests.master.core.small_core import EIGHT, core_with
from wire.message import Message, names

CWD = "/lab/work"


def files(*commands: Any, on_node: bool = False, **terms: Any) -> list[tuple[str, str]]:
    """What of files these commands need, in the folder CWD."""
    task = Task(id=0, command="", cwd=CWD, **terms)
    wants = wants_of(task, commands, root="/lab", conda="/lab/conda", on_node=on_node)
    found = [want for want in wants if want.kind not in ("folder", "beside")]
    return [(want.kind, want.paths[0] if want.paths else want.name) for want in found]


def beside(command: Any, **terms: Any) -> list[tuple[str, ...]]:
    """Where a file of the program's name could lie, beside which no program is looked for."""
    task = Task(id=0, command="", cwd=CWD, **terms)
    wants = wants_of(task, [command], root="/lab", conda="/lab/conda", on_node=False)
    return [want.paths for want in wants if want.kind == "beside"]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["python3", "train.py", "--lr", "0.1"], [("file", f"{CWD}/train.py")]),
        (["python", "-u", "-B", "./a/train.py"], [("file", f"{CWD}/a/train.py")]),
        (["/opt/bin/python3.12", "/x/t.py"], [("program", "/opt/bin/python3.12"), ("file", "/x/t.py")]),
        (["python3", "-m", "train"], []),
        (["python3", "-c", "pass"], []),
        (["python3", "-W", "ignore", "t.py"], []),
        (["python3"], []),
        (["bash", "-eu", "go.sh"], [("file", f"{CWD}/go.sh")]),
        (["bash", "-c", "go.sh"], []),
        (["./go.sh", "train.py"], [("program", f"{CWD}/go.sh")]),
        (["../go.sh"], []),
        (["torchrun", "train.py"], []),
        (["python3", "{script}"], []),
        (["./{index}.sh"], []),
        ("python3 train.py --lr 0.1", [("file", f"{CWD}/train.py")]),
        ("./go.sh\n", [("program", f"{CWD}/go.sh")]),
        ("python3 train.py | tee log", []),
        ("cd x && python3 train.py", []),
        ("PYTHONPATH=. python3 train.py", []),
        (". venv/bin/activate", []),
        ("cd x\npython3 train.py", []),
        ("python3 $SCRIPT", []),
    ],
)
def test_only_what_can_be_nothing_but_a_file_is_taken_for_one(command: Any, expected: Any) -> None:
    assert files(command) == expected


@pytest.mark.parametrize(
    ("command", "terms", "expected"),
    [
        (["go.sh", "--fast"], {}, [(f"{CWD}/go.sh",)]),
        (["train"], {"env": "torch"}, [(f"{CWD}/train", "/lab/conda/envs/torch/bin/train")]),
        (["train"], {"env": "base"}, [(f"{CWD}/train", "/lab/conda/bin/train")]),
        (["train"], {"env": "/x/venv"}, [(f"{CWD}/train", "/x/venv/bin/train")]),
        ("go.sh --fast", {}, [(f"{CWD}/go.sh",)]),
        ("test", {}, []),
        (". go.sh", {}, []),
        (["./go.sh"], {}, []),
        (["{script}"], {}, []),
        (["echo a.b"], {}, []),
        (["go.sh"], {"setup": "module load x"}, []),
        ([], {}, []),
    ],
)
def test_a_program_without_a_path_may_be_a_file_in_the_folder(command: Any, terms: Any, expected: Any) -> None:
    assert beside(command, **terms) == expected


def test_one_word_with_blanks_is_hardly_a_program() -> None:
    task = Task(id=0, command="", cwd=CWD)
    for command, expected in (
        (["python train.py"], ["command_is_one_word"]),
        (["python", "train.py --lr 1"], []),
        ("python train.py", []),
        ([" true "], []),
        (["./go.sh --fast"], []),  # there may be such a file: it is looked for
    ):
        assert [one.key for one in known_faults(task, [command], lambda _: [])] == expected, command
    assert files(["./go.sh --fast"]) == [("line", f"{CWD}/go.sh --fast")]
    assert files(["./go.sh --fast", "x"]) == [("program", f"{CWD}/go.sh --fast")]
    want = Want("line", "./go.sh --fast", ("/w/go.sh --fast",))
    assert told(Finding(want, Lack.ABSENT)) == Message("command_is_one_word", word="./go.sh --fast")


def test_what_runs_before_the_command_may_make_what_is_missing() -> None:
    assert files(["./go.sh"], setup="git clone x") == []
    assert [kind for kind, _ in files(["./go.sh"], setup="x", env="torch")] == ["env"]


def test_a_programs_name_is_looked_for_on_a_node_that_is_named_and_only_without_an_environment() -> None:
    assert files(["nvcc", "x"], on_node=True) == [("word", "nvcc")]
    assert files(["nvcc", "x"], on_node=True, env="torch") == [("env", "/lab/conda/envs/torch")]
    assert files("nvcc x", on_node=True) == []
    assert files(["nvcc", "x"]) == []


def test_many_commands_are_looked_at_once_each_and_no_more_than_so_many_of_them() -> None:
    assert files(*[["python3", "t.py", str(n)] for n in range(10_000)]) == [("file", f"{CWD}/t.py")]
    assert len(files(*[["python3", f"{n}.py"] for n in range(10_000)])) == MOST


def test_a_lab_s_own_root_is_there_and_another_folder_is_looked_for() -> None:
    task = Task(id=0, command="", cwd="/lab")
    assert wants_of(task, [], root="/lab", conda="", on_node=False) == []
    assert wants_of(task, [], root="/", conda="", on_node=False) == [Want("folder", "/lab", ("/lab",))]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"#!/bin/sh\n", "/bin/sh"),
        (b"#! /usr/bin/env python3\nimport x", "/usr/bin/env"),
        (b"#!/bin/bash\r\necho\r\n", "/bin/bash\r"),
        (b"#!/usr/bin/env python3\r\n", "/usr/bin/env"),
        (b"#!python\n", None),
        (b"#!", None),
        (b"\x7fELF", None),
        (b"", None),
        (b"#!/" + b"x" * 300, None),
    ],
)
def test_the_interpreter_of_a_program_is_what_the_kernel_would_take(head: bytes, expected: str | None) -> None:
    assert interpreter_of(head) == expected


def test_who_waits_for_one_that_is_being_cancelled_never_gets_its_turn_however_far_off_that_one_is() -> None:
    ends = AskedEnd("cancel", "ann")
    tasks = {
        1: Task(id=1, command="x", state=TaskState.RUNNING, allocation=[Part("n", [], "l")], asked_end=ends),
        2: Task(id=2, command="x", after=[After(1)], waits_for=[After(1)]),
        3: Task(id=3, command="x", after=[After(1, "any")], waits_for=[After(1, "any")]),
        4: Task(id=4, command="x", after=[After(2)], waits_for=[After(2)]),
    }

    def faults(*after: After) -> list[tuple[str, Any]]:
        draft = Task(id=0, command="x", after=list(after))
        return [(one.key, one.plain_args()) for one in known_faults(draft, ["x"], awaited)]

    def awaited(after: After) -> Iterator[Task]:
        return iter([tasks[after.id]] if after.id in tasks else [])

    assert faults(After(4)) == [("predecessor_is_doomed", {"id": 4, "other": 1})]
    assert faults(After(1)) == [("predecessor_is_doomed", {"id": 1, "other": 1})]
    assert faults(After(1, "any"), After(1, "fail"), After(3), After(99)) == []


def test_a_text_with_the_line_ends_of_windows_is_told_once() -> None:
    found = known_faults(Task(id=0, command="x"), ["a\r\nb\r\n", "c\r\n", ["d\r\n"]], lambda _after: ())
    assert [one.key for one in found] == ["text_with_line_ends"]


def test_an_answer_of_a_node_says_which_are_missing_and_a_torn_one_says_nothing() -> None:
    wants = [
        Want("env", "base", ("/c/envs/base", "/c/bin/activate")),
        Want("program", "go", ("/w/go",)),
        Want("word", "nvcc"),
    ]
    assert question(wants)[4:] == [
        "env", "/c/envs/base", "env", "/c/bin/activate", "program", "/w/go", "word", "nvcc"
    ]  # fmt: skip
    assert read_answer(wants, "0 absent\nend\n") == []
    assert read_answer(wants, "0 absent\n1 absent\n2 no_interpreter /x/py\n3 absent\nend\n") == [
        Finding(wants[0], Lack.ABSENT),
        Finding(wants[1], Lack.NO_INTERPRETER, "/x/py"),
        Finding(wants[2], Lack.ABSENT),
    ]
    assert read_answer(wants, "hello\n7 absent\n2 nonsense\nend\n") == []
    assert read_answer(wants, "0 absent\n1 abs") is None
    assert read_answer(wants, f"{'9' * 5000} absent\n٣ absent\nend\n") == [], "no number of a place"
    in_env = [Want("beside", "go.sh", ("/w/go.sh", "/e/bin/go.sh"))]
    assert question(in_env)[4:] == ["beside", "/w/go.sh", "file", "/e/bin/go.sh"]
    assert read_answer(in_env, "0 beside\nend\n") == []
    assert read_answer(in_env, "0 beside\n1 absent\nend\n") == [Finding(in_env[0], Lack.BESIDE)]
    assert read_answer(wants, "") is None


def test_a_file_in_the_folder_is_told_and_not_that_there_is_no_such_program_too() -> None:
    missing = Finding(Want("word", "go.sh"), Lack.ABSENT)
    there = Finding(Want("beside", "go.sh", ("/w/go.sh",)), Lack.BESIDE)
    assert once_each([missing, there]) == [there]
    assert once_each([missing]) == [missing]


def test_of_a_long_command_in_one_word_the_beginning_is_shown() -> None:
    assert len(str(one_word("python " + "x" * 100_000))) < 300


def test_each_lack_has_its_own_words() -> None:
    want = Want("program", "go", ("/w/go",))
    assert len({told(Finding(want, lack, "/x")).key for lack in Lack}) == len(Lack)
    assert str(told(Finding(Want("word", "nvcc"), Lack.ABSENT), "gpu1")).startswith("node gpu1 finds no program nvcc")


def test_a_task_that_no_node_takes_from_its_owner_is_told_why_and_by_which_nodes() -> None:
    core = core_with(EIGHT, NodeSpec(name="b", gpu_models=("GPU",)), NodeSpec(name="c"))
    for node in ("a", "b"):
        core.restrict(node, Restriction(frozenset({"ann"}), Message("own_account_node", account="lab")))

    def told_of(owner: str, *, by_admin: bool = False, **terms: Any) -> Message | None:
        task = Task(id=0, command="", cwd=CWD, owner=owner, by_admin=by_admin, **terms)
        return closed_to_owner(task, core.inventory)

    def closed(*nodes: str, why: Message) -> Message:
        return Message("closed_to_owner", reasons=(Message("closed_nodes", nodes=names(nodes), why=why),))

    ours = Message("own_account_node", account="lab")
    assert told_of("bob") is None, "node c takes it"
    assert told_of("bob", gpus=9) is None, "that no node has room for it is another matter"
    assert told_of("bob", gpus=1) == closed("a", "b", why=ours)
    assert told_of("bob", gpus=2) == closed("a", why=ours)
    assert told_of("bob", node="b") == closed("b", why=ours)
    assert told_of("bob", nodes=2, node_list=["a", "c"]) == closed("a", why=ours)
    assert told_of("ann", gpus=1, by_admin=True) is None
    assert told_of("ann", gpus=1) == closed("a", "b", why=Message("needs_word_of_admin"))


def test_an_environment_by_its_path_is_there_if_it_is_a_virtual_one_or_condas() -> None:
    task = Task(id=1, command="true", cwd="/w", env="/home/li/miniforge3/envs/x")
    (want,) = wants_of(task, [], root="/w", conda="/c", on_node=False)
    assert want.paths == (f"{task.env}/bin/activate", f"{task.env}/conda-meta")


def test_nobody_is_told_to_wait_for_a_gpu_that_says_how_much_memory_it_has_where_none_could_ever_have_so_much() -> None:
    wish = Task(id=0, command="true", gpus=1, gpu_memory_mib=30_000)
    silent, small = (
        NodeSpec(name="a", gpu_models=("GPU",)),
        NodeSpec(name="b", gpu_models=("GPU",), gpu_memory_mib=(24_000,)),
    )
    assert unknown_memory(wish, core_with(silent, small).inventory) == Message("gpu_memory_unknown", mib=30_000)
    assert unknown_memory(wish, core_with(small).inventory) is None, "it is refused"
