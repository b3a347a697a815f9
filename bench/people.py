"""Users of a lab that is measured, their tokens and their tasks, and many clients of theirs (`far_clients`)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.far_clients import MARK
from bench.lab import ROOT, BenchError, Lab, RawConnection, request

SHAPES = 8
_AT_ONCE = 200


def users(lab: Lab, count: int) -> list[str]:
    """So many new users; a token of each. They may do what users may."""
    names = [f"user{number:04}" for number in range(count)]
    with RawConnection(lab.data_port) as connection:
        _asked(connection, [("user.add", {"name": name}) for name in names])
        made = _asked(connection, [("token.new", {"name": name}) for name in names])
    return [one["token"] for one in made]


def tasks(lab: Lab, tokens: list[str], count: int, **spec: Any) -> None:
    """So many tasks of theirs, as many of each, of eight shapes by turns: one batch a user."""
    share = -(-count // len(tokens))
    for number, token in enumerate(tokens):
        size = min(share, count - number * share)
        if size <= 0:
            return
        shape = {"name": f"sweep-{number % SHAPES}", "priority": -(number % 3), **spec}
        if "gpus" in spec:
            shape["gpus"] = 1 + number % SHAPES
        commands = [f"python train.py --fold {number} --seed {seed}" for seed in range(size)]
        with RawConnection(lab.data_port) as connection:
            shown = ("auth.token", {"token": token})
            _asked(connection, [shown, ("task.submit_batch", {"commands": commands, **shape})])


@contextmanager
def clients(lab: Lab, **job: Any) -> Iterator[Clients]:
    """Clients in a process of their own, connected. `job`: see `far_clients`."""
    ports = json.loads(lab.conf.read_text(encoding="utf-8"))["socket_info"]
    told = {"everything": [], "own": [], "askers": [], "every_s": 20.0, **job}
    with subprocess.Popen(
        [sys.executable, "-m", "bench.far_clients"],
        cwd=ROOT,
        env=lab.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            crowd = Clients(process)
            crowd.begin({"data": ports["data_port"], "changes": ports["train_state_port"], **told})
            yield crowd
            if process.poll() is not None:
                raise BenchError(f"the clients ended with {process.returncode}")
        finally:
            process.kill()


class Clients:
    """The process of all of them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Its pid."""
        return self._process.pid

    def begin(self, job: dict[str, Any]) -> None:
        """Have them connect. Raises BenchError."""
        if self._ask(json.dumps(job)) != "ready\n":
            raise BenchError(f"the clients ended with {self._process.wait()}")

    def heard(self) -> tuple[list[float], dict[int, tuple[float, float, int]]]:
        """Since the time before: how long answers took (ms); of each marked task when the first and the last of those
        who are told of everything heard of it (monotonic), and how many."""
        told = json.loads(self._ask("tell"))
        return told["asked_ms"], {int(number): tuple(said) for number, said in told["pushes"].items()}

    def _ask(self, line: str) -> str:
        if self._process.stdin is None or self._process.stdout is None:
            raise BenchError("the clients cannot be talked to")
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()


def marked(number: int) -> dict[str, Any]:
    """A held task that the clients tell from others."""
    return {"command": "true", "name": f"{MARK}{number}", "hold": True}


def _asked(connection: RawConnection, calls: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    """The results, in order. Raises BenchError."""
    results = []
    for at in range(0, len(calls), _AT_ONCE):
        some = calls[at : at + _AT_ONCE]
        frames = b"".join(request(number, *call) for number, call in enumerate(some))
        for line in b"".join(connection.exchange(frames, len(some))).splitlines():
            answer = json.loads(line)
            if "error" in answer:
                raise BenchError(f"the master refused the bench: {answer['error']}")
            results.append(answer["result"])
    return results
