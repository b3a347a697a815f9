"""What tests of several packages share: a lab's folder with free ports, and how hypothesis searches."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("here", deadline=None, print_blob=True)
settings.register_profile("ci", settings.get_profile("here"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

LabMaker = Callable[..., Path]


@pytest.fixture(autouse=True)
def _nothing_from_the_callers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own master, token, failpoint or width of the terminal never reaches a test."""
    for name in [name for name in os.environ if name.startswith("MUSTER_") or name in ("COLUMNS", "LINES")]:
        monkeypatch.delenv(name)


@pytest.fixture
def free_ports() -> list[int]:
    """Three TCP ports that nobody listens on; they are all held at once while they are chosen, so they differ."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(3)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@pytest.fixture
def make_lab(tmp_path: Path, free_ports: list[int]) -> LabMaker:
    """`make_lab(nodes=[{…}], **keys of conf.json)` writes a folder a master can start in; gives conf.json's path.

    Without `nodes` there is one `local` node with 8 declared GPUs.
    """

    def make(nodes: list[dict[str, Any]] | None = None, **keys: Any) -> Path:
        names = ("monitor_port", "data_port", "train_state_port")
        conf = {"socket_info": dict(zip(names, free_ports, strict=True)), **keys}
        registry = [declared_node("local", gpus=8)] if nodes is None else nodes
        (tmp_path / "gpu_slaver_info.json").write_text(json.dumps(registry), encoding="utf-8")
        path = tmp_path / "conf.json"
        path.write_text(json.dumps(conf), encoding="utf-8")
        return path

    return make


def declared_node(name: str, *, gpus: int, **keys: Any) -> dict[str, Any]:
    """A registry entry for this machine whose GPUs are believed, not probed."""
    entry = {"name": name, "ip": "127.0.0.1", "driver": "local", "gpu_probe": "declared", "gpu_count": gpus}
    return {**entry, **keys}
