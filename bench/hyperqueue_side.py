"""HyperQueue's part of `bench.peers`: run by the interpreter that has it, with its cores and a folder for logs.

Each line on stdin asks for something, `no_ops COUNT` or `starts COUNT`; the answer is a line of JSON: the seconds that
the no-ops took, or the milliseconds from each submit to its process. It imports nothing of ours.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

POLL_S = 0.002


class Side:
    """A cluster of one worker in this process; `folder` gets the logs."""

    def __init__(self, cores: int, folder: Path) -> None:
        self._package: Any = importlib.import_module("hyperqueue")
        self._folder = folder
        self._cluster = self._package.LocalCluster()
        self._cluster.start_worker(importlib.import_module("hyperqueue.cluster").WorkerConfig(cores=cores))
        self._client = self._cluster.client()

    def no_ops(self, count: int) -> float:
        """Seconds from the submit to the end of the last."""
        job = self._package.Job()
        for number in range(count):
            self._add(job, ["true"], f"{count}.{number}")
        begun = time.perf_counter()
        self._client.wait_for_jobs([self._client.submit(job)])
        return time.perf_counter() - begun

    def starts(self, count: int) -> list[float]:
        """Milliseconds from each submit to its process, one after the other."""
        return [self._start(number) for number in range(count)]

    def _start(self, number: int) -> float:
        told = self._folder / f"start.{number}"
        job = self._package.Job()
        self._add(job, ["bash", "-c", f"echo $EPOCHREALTIME > {told}.new; mv {told}.new {told}"], f"log.{number}")
        begun = time.time()
        submitted = self._client.submit(job)
        while not told.exists():
            time.sleep(POLL_S)
        self._client.wait_for_jobs([submitted])
        return (float(told.read_text(encoding="ascii")) - begun) * 1000

    def _add(self, job: Any, words: list[str], name: str) -> None:
        log = str(self._folder / f"{name}.log")
        job.program(words, stdout=log, stderr=log)


def main() -> None:
    """Answer until stdin ends. HyperQueue's messages to people are dropped."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    side = Side(int(sys.argv[1]), Path(sys.argv[2]))
    asked: dict[str, Callable[[int], object]] = {"no_ops": side.no_ops, "starts": side.starts}
    with suppress(KeyboardInterrupt):
        for line in sys.stdin:
            what, count = line.split()
            answers.write(json.dumps(asked[what](int(count))) + "\n")
    os._exit(0)  # its threads would go on serving


if __name__ == "__main__":
    main()
