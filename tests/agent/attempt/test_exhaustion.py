"""What ran out is found by what programs say of their own death, and by nothing else that they say; the messages are
those that people met with these libraries."""

from __future__ import annotations

import json
import os
import time
import timeit
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from monitor.agent.attempt import exhaustion, log_tail
from monitor.agent.attempt.exhaustion import KernelKills, look
from monitor.agent.attempt.log_tail import TAIL_BYTES, Tail, read, shown
from tests.calls import instructions_of
from tests.cases import each_case
from wire.agent import RAN_OUT

WORDS = Path(__file__).parents[2] / "data/last_words"


def lines_of(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (WORDS / name).read_text(encoding="utf-8").splitlines()]


TRUE, FALSE = lines_of("true.jsonl"), lines_of("false.jsonl")


def what(log: str) -> str:
    found = look(Tail(log.encode()))
    return "" if found is None else found.what


def test_a_known_message_is_found_whatever_was_printed_before() -> None:
    with each_case() as cases:
        for number, one in enumerate(TRUE):
            for title, before in (
                ("", ""),
                (" after others", "epoch 1 step 10 loss 0.5\nepoch 2 step 20 loss 0.4\n" * 40),
            ):
                with cases.case(f"{one['what']}-{number}{title}: {one['log'][:200]!r}"):
                    assert what(before + one["log"]) == one["what"]


def test_what_only_looks_like_one_is_none() -> None:
    with each_case() as cases:
        for number, one in enumerate(FALSE):
            with cases.case(f"{number}: {one['log'][:200]!r}"):
                assert what(one["log"]) == ""


def test_every_finding_that_may_be_told_is_among_the_messages() -> None:
    assert {one["what"] for one in TRUE} == set(RAN_OUT) == {sign.found for sign in exhaustion.SIGNS}
    assert len(TRUE) >= 20
    assert len(FALSE) >= 15


def test_what_is_certain_counts_before_what_may_be() -> None:
    sure = "RuntimeError: CUDA out of memory. Tried to allocate 2 MiB\n"
    perhaps = "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR\n"
    assert what(sure + perhaps) == what(perhaps + sure) == "oom_gpu"


AN_ERROR = 'Traceback (most recent call last):\n  File "a.py", line 1\n    x()\n    ^^^\n'
OF_A_RANK = "".join(f"[rank1]: {line}\n" for line in (AN_ERROR + "KeyError: 'k'").splitlines())
OF_ANOTHER = AN_ERROR + "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
ON_TOP = "\nDuring handling of the above exception, another exception occurred:\n\n"


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("a\nb\n", "b"),
        ("loss 3\n\n=====\n\n", "loss 3"),
        ("done\n 99%|9 | 99/100 [00:10<00:01, 4.99it/s]\n", "done"),
        (AN_ERROR + "ValueError: no\nsee the docs\n", "ValueError: no"),
        (OF_A_RANK + "bye\n", "KeyError: 'k'"),
        (AN_ERROR + "KeyError: 1\n" + OF_ANOTHER, "KeyError: 1"),
        (OF_ANOTHER, "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:"),
        (AN_ERROR + "KeyError: 1\n" + ON_TOP + AN_ERROR + "OSError: gone\n", "OSError: gone"),
        (AN_ERROR, "x()"),
        ("old\n\nProgram Exit With Code 1\n", ""),
        ("old\n\nProgram Exit With Code 1\nnew\n", "new"),
        ("\x1b[31merror: bad\x1b[0m\n", "error: bad"),
        ("a\x07b\x1b]0;title\x07\n", "a\\x07b\\x1b]0;title\\x07"),
        ("缺少文件\n", "缺少文件"),
        ("", ""),
        ("\n=-=-\n", ""),
    ],
)
def test_the_line_that_says_most(log: str, said: str) -> None:
    assert Tail(log.encode()).last_line() == said


def test_a_line_is_kept_short_and_is_one_line() -> None:
    assert len(shown(b"x" * 5000)) == 300
    assert shown(b"\xff\xfe bad").isprintable()
    assert len(shown("\U0001f600".encode() * 500)) <= 300


def test_the_end_of_a_large_log_is_read_and_of_what_is_no_file_nothing(tmp_path: Path) -> None:
    log = tmp_path / "t.log"
    log.write_bytes(b"MemoryError\n" + b"x\n" * TAIL_BYTES + b"the end\n")
    assert read(str(log)).last_line() == "the end"
    assert look(read(str(log))) is None
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, tmp_path / "none", Path("/dev/zero")):
        assert read(str(path)).text == b""
    fd = os.open(log, os.O_RDONLY)
    try:
        assert read(fd).last_line() == "the end"
        os.fstat(fd)
    finally:
        os.close(fd)


@pytest.mark.parametrize(
    "text",
    [
        b"No space left on device /dev/shm </torch_" * 2000,
        b"No space left on device /dev/shm </torch_\n" * 2000,
        b"Traceback (most recent call last):\n" * 2000,
        b"Traceback (most recent call last):\nChildFailedError\n" * 2000,
        b"epoch " * 12000,
        b"| " * 33000,
        b"a" * TAIL_BYTES,
        bytes(range(256)) * 256,
    ],
)
def test_no_log_makes_it_take_long(text: bytes) -> None:
    def looked(log: bytes = text) -> None:
        tail = Tail(log[-TAIL_BYTES:])
        look(tail)
        tail.last_line()

    assert instructions_of(looked) < 10 * TAIL_BYTES
    # What regular expressions do cannot be counted. One that tries each byte with each other takes thousands of times.
    assert cpu_s(looked) < 300 * cpu_s(partial(looked, b"step 1: loss 0.5 of a model\n" * 3000))


def cpu_s(work: Callable[[], object]) -> float:
    """The seconds of CPU time that the work takes: the least of three runs."""
    return min(timeit.repeat(work, time.process_time, repeat=3, number=1))


def test_the_kernels_own_count_is_believed_before_that_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    own, machine = iter([3, 3, 4, None]), iter([12, 13])
    monkeypatch.setattr(exhaustion, "_own_count", lambda: next(own))
    monkeypatch.setattr(exhaustion, "_count_in", lambda _path: next(machine))
    kills = KernelKills()
    assert not kills.any()
    assert kills.any()
    kills = KernelKills()
    assert kills.any()


def test_the_kernel_of_this_machine_can_be_asked() -> None:
    assert not KernelKills().any()


def test_a_log_that_does_not_answer_is_waited_for_no_longer_than_said(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, answer = os.pipe()
    monkeypatch.setattr(log_tail, "_read", lambda _log: os.read(answers, 1))
    assert read("a log on a server that hangs", 0.01).text == b""
    os.write(answer, b"x")
    os.close(answer)
