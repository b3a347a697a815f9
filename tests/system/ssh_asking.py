"""What the tests of SSH nodes ask a lab again and again: tasks, nodes, and waiting for what they become."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from tests.system.ssh_lab import SshLab
from tests.waiting import until

if TYPE_CHECKING:
    from client.shapes import Node, Task

NOTICED_S = 90.0
"""15 s until a silent connection is given up, and what a busy machine adds."""

T = TypeVar("T")


class Door:
    """A task that goes on until it is let out."""

    def __init__(self, lab: SshLab, name: str, code: int) -> None:
        self._path = lab.root / name
        self.command = f"echo in; until [ -e {self._path} ]; do sleep 0.1; done; echo out; exit {code}"

    def open(self) -> None:
        """Let it out."""
        self._path.touch()


def submit(lab: SshLab, command: str, node: str = "", gpus: int = 8) -> int:
    """Queue a task, by default for all GPUs of a node."""
    with lab.client() as client:
        return client.submit(command, gpus=gpus, **({"node": node} if node else {}))


def task_of(lab: SshLab, number: int) -> Task:
    """A task as it is now."""
    with lab.client() as client:
        return client.show(number)


def node_of(lab: SshLab, name: str) -> Node:
    """A node as it is now."""
    with lab.client() as client:
        return client.node(name)


def ended(lab: SshLab, number: int) -> tuple[str, int | None]:
    """Wait for the end of a task; how it ended."""

    def task_if_ended() -> Task | None:
        task = task_of(lab, number)
        return task if task["ended_at"] is not None else None

    task = until(f"task {number} ends", task_if_ended, NOTICED_S)
    return task["state"], task["exit_code"]


def until_running(lab: SshLab, number: int) -> None:
    """Wait until a task runs."""
    until(f"task {number} runs", lambda: task_of(lab, number)["state"] == "running")


def until_node(lab: SshLab, name: str, what: str, condition: Callable[[Node], bool]) -> Node:
    """Wait until something is true of a node."""

    def node_if_so() -> Node | None:
        node = node_of(lab, name)
        return node if condition(node) else None

    return until(f"{name} {what}", node_if_so, NOTICED_S)


def until_state(lab: SshLab, name: str, state: str) -> Node:
    """Wait until a node is in a state."""
    return until_node(lab, name, f"is {state}", lambda node: node["state"] == state)
