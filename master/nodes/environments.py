"""Python environments: what they are called, what is asked of them on a node, and what the answers mean. Pure.

An environment is the name of one in the shared conda prefix, or the absolute path of one. It is asked as a task would
meet it: activated by the same lines, with the same variables. A name reaches bash as a quoted word only, and only after
it was checked; what is asked is Python of ours, given as one argument.
"""

from __future__ import annotations

import json
import os
from typing import Any, TypeVar

import msgspec

from master.core.attempts.activation import CANNOT_START, activation, is_env_name
from master.nodes.environment_scripts import LIST, MARK, PACKAGES, PYTHON, TENSORFLOW, TORCH
from wire.agent import Probed
from wire.errors import BadRequestError, ConflictError, NodeUnreachableError, NotFoundError
from wire.message import Message

BASE = "base"
LIST_S, PYTHON_S, CUDA_S, PACKAGES_S = 15.0, 20.0, 90.0, 60.0
"""Time-outs. The first import of a framework from a cold NFS takes half a minute."""
OUTPUT_LIMIT = 512 << 10
"""Bytes of an answer; more no agent keeps."""
_SHOWN = 300
"""Characters of an environment's own complaint that are shown."""

SCRIPTS = {"python": PYTHON, "torch": TORCH, "tensorflow": TENSORFLOW, "packages": PACKAGES}


class Python(msgspec.Struct, frozen=True):
    """The `version` of an environment's Python as a node sees it, its `executable` and the `prefix` in which it lies.
    `own`: it lies in the environment, and is not one that was found elsewhere."""

    env: str
    node: str
    version: str
    executable: str
    prefix: str
    own: bool


class Framework(msgspec.Struct, frozen=True):
    """A framework of an environment, and the names of the GPUs that it sees on a node: its `version`, that of its
    `cuda`. `own`: the Python is the environment's own. `error`: why it cannot be imported, if it is not `installed`."""

    env: str
    node: str
    installed: bool
    own: bool
    version: str | None = None
    cuda: str | None = None
    available: bool = False
    gpus: tuple[str, ...] = ()
    error: str | None = None


class Packages(msgspec.Struct, frozen=True):
    """The packages of an environment as a node sees it: of each its name, its version, and `conda` or `pip`. `own`: the
    Python is the environment's own."""

    env: str
    node: str
    packages: tuple[tuple[str, str, str], ...]
    own: bool


Told = TypeVar("Told", Python, Framework, Packages)
"""Anybody who may write into an environment decides its Python's answers: only these shapes are accepted."""


class Env(msgspec.Struct, frozen=True):
    """An environment: its name, as a task asks for it, and its path."""

    name: str
    path: str


def check_env(env: str, root: str) -> str:
    """Return the environment for activation, if a task could have it: a name, or a path that leads straight to a folder
    in a folder, and not to `root`. Raises BadRequestError."""
    if env.startswith("/"):
        names = env.rstrip("/").split("/")[1:]
        if len(names) > 1 and not {"", ".", ".."} & set(names) and env.isprintable() and env.rstrip("/") != root:
            return env.rstrip("/")
    return check_name(env, root)


def check_name(env: str, root: str) -> str:
    """The same of what a list may show. Raises BadRequestError for what is neither a name nor beneath root."""
    if env.startswith("/"):
        path = os.path.normpath(env)
        if path == root or not path.startswith(root.rstrip("/") + "/") or not path.isprintable():
            raise BadRequestError(Message("env_elsewhere", env=env[:200], root=root))
        return path
    if not is_env_name(env):
        raise BadRequestError(Message("env_no_name_but", env=env[:200]))
    return env


def question(env: str, what: str, conda: str) -> list[str]:
    """The argument list that asks an environment; `what` is a key of SCRIPTS."""
    # A sourced script that is given no words sees those of who sources it, and conda's would take ours for its own.
    lines = f'_muster_words=("$@"); set --\n{activation(env, conda)}set -- "${{_muster_words[@]}}"\nexec "$@"'
    place = env if env.startswith("/") else conda if env == BASE else f"{conda}/envs/{env}"
    return ["/bin/bash", "-c", lines, "bash", "python", "-c", SCRIPTS[what], place]


def list_question(conda: str, root: str) -> list[str]:
    """The argument list that asks a node which environments it sees."""
    return ["/bin/sh", "-c", LIST, "sh", conda, root]


def read_answer(env: str, node: str, probed: Probed, kind: type[Told]) -> Told:
    """Return the script's answer in the given shape. Raises NotFoundError, ConflictError, NodeUnreachableError with
    what went wrong."""
    _check_ended(node, probed)
    found = _marked(probed["output"])
    if found is not None:
        try:
            return msgspec.convert({**found, "env": env, "node": node}, kind)
        except msgspec.ValidationError as error:
            raise ConflictError(Message("env_answers_otherwise", env=env, node=node, said=str(error))) from None
    lines = _complaint(probed["output"])
    if probed["code"] == CANNOT_START:
        # Conda says first what is wrong and then what to do about it.
        said = " ".join(lines)[-_SHOWN:].rstrip(".")
        raise NotFoundError(Message("env_not_activated", env=env, node=node, said=said))
    said = lines[-1][:_SHOWN] if lines else f"it ended with code {probed['code']}"
    raise ConflictError(Message("env_said", env=env, node=node, said=said))


def read_list(conda: str, root: str, node: str, probed: Probed) -> list[Env]:
    """The environments that a node sees, in order."""
    _check_ended(node, probed)
    found: dict[str, str] = {}
    for line in probed["output"].split("\0"):
        path = line.strip("\n")
        name = _name_of(path, conda, root)
        if name is not None:
            found.setdefault(name, path)
    return [Env(name, found[name]) for name in sorted(found, key=_order)]


def _name_of(path: str, conda: str, root: str) -> str | None:
    """Return a task's name for the environment at this path; None if tasks cannot use it."""
    if path == conda:
        return BASE
    folder, _, name = path.rpartition("/")
    try:
        return check_name(name if folder == f"{conda}/envs" else path, root) if path.startswith("/") else None
    except BadRequestError:
        return None


def _order(name: str) -> tuple[bool, bool, str]:
    return (name != BASE, name.startswith("/"), name)


def _check_ended(node: str, probed: Probed) -> None:
    if probed["error"]:
        raise NodeUnreachableError(Message("node_hangs", node=node, said=probed["error"]))
    if probed["truncated"] and _marked(probed["output"]) is None:
        raise ConflictError(Message("answer_too_long", node=node, most=OUTPUT_LIMIT))


def _marked(output: str) -> dict[str, Any] | None:
    """The line that our script printed, among whatever else the environment printed."""
    for line in reversed(output.split("\n")):
        if line.startswith(MARK):
            try:
                value = json.loads(line[len(MARK) :])
            except (ValueError, RecursionError):
                return None
            return value if isinstance(value, dict) else None
    return None


def _complaint(output: str) -> list[str]:
    """The lines that somebody else than us wrote; ours if there are no others."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return [line for line in lines if not line.startswith("muster:")] or lines
