"""Faults that the kernel deals out: strace makes a chosen system call of a running process fail, or end it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import until


@contextmanager
def injected(pid: int, log: Path, *rules: str, path: Path | None = None) -> Iterator[None]:
    """While the body runs, the first thread of `pid` meets these faults, each as `strace -e inject=` takes it; with
    `path` only in calls that name that file or a descriptor of it. What was met stands in `log`."""
    calls = ",".join(rule.split(":")[0] for rule in rules)
    words = ["strace", "-p", str(pid), "-o", str(log), "-e", f"trace={calls}"]
    words += [word for rule in rules for word in ("-e", f"inject={rule}")]
    words += [] if path is None else ["-P", str(path)]
    said = log.with_suffix(".said")
    with said.open("wb") as out:
        tracer = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        until("strace is attached", lambda: b"attached" in said.read_bytes() or tracer.poll() is not None)
        assert tracer.poll() is None, said.read_text()
        yield
    finally:
        tracer.terminate()
        tracer.wait()
