"""The desktop client's requests about environments. Each opens a modal window that only its reply closes."""

from __future__ import annotations

from functools import partial
from typing import Any

from master.desktop.calls import Kind, Reply
from master.nodes import environments
from master.verbs.call import Calls
from wire.errors import BadRequestError

GOOD, BAD = "seccess", "falied"
"""Spelled as the client compares them."""
_MARGIN_S = 8.0
"""More than a probe takes to be given up, so that its own words reach the user."""


async def names(calls: Calls, _info: Any) -> Reply:
    """env_list: the names that a task may use."""
    found = await calls.ask("env.list", {})
    return "ret_env_list", [env.name for env in found.envs]


async def check(calls: Calls, info: Any) -> Reply:
    """test_env: "True", or what is wrong with it."""
    await calls.ask("env.check", {"env": _name(info)})
    return "ret_test_env", "True"


async def python(calls: Calls, info: Any) -> Reply:
    """py_v: the version of its Python."""
    found = await calls.ask("env.python", {"env": _name(info)})
    return "ret_py_v", _good(f"Python {found.version}")


async def cuda(calls: Calls, info: Any, *, mode: str, framework: str) -> Reply:
    """cuda_pt, cuda_tf: what the framework sees of GPUs."""
    found = await calls.ask("env.cuda", {"env": _name(info), "framework": framework})
    if not found.installed:
        return mode, _bad(f"{framework} 无法导入：{found.error}")
    seen = "、".join(found.gpus) or "无"
    lines = [
        f"{framework} {found.version}，CUDA {found.cuda or '未编译'}",
        f"GPU 可用：{'是' if found.available else '否'}",
        f"节点 {found.node} 上的 GPU：{seen}",
    ]
    return mode, _good("\n".join(lines))


async def packages(calls: Calls, info: Any) -> Reply:
    """pkgs: one line a package."""
    found = await calls.ask("env.packages", {"env": _name(info)})
    return "ret_pkgs", _good("\n".join(f"{name}  {version}" for name, version, _ in found.packages))


def _name(info: Any) -> str:
    if not isinstance(info, str):
        raise BadRequestError(f"an environment's name is a text, not {str(info)[:40]!r}")
    return info or environments.BASE


def _good(text: str) -> dict[str, str]:
    return {"res": GOOD, "msg": text}


def _bad(text: str) -> dict[str, str]:
    return {"res": BAD, "msg": text}


def _refuse(mode: str, _info: Any, text: str) -> Reply:
    return mode, _bad(text)


def _not_good(_info: Any, text: str) -> Reply:
    return "ret_test_env", text


def _no_names(_info: Any, _text: str) -> Reply:
    return "ret_env_list", []


def _kind(handle: Any, refuse: Any, limit_s: float) -> Kind:
    return Kind(handle, refuse, limit_s=limit_s + _MARGIN_S)


def _asked(mode: str, handle: Any, limit_s: float) -> Kind:
    return _kind(handle, partial(_refuse, mode), limit_s)


_torch = partial(cuda, mode="ret_cuda_pt", framework="torch")
_tensorflow = partial(cuda, mode="ret_cuda_tf", framework="tensorflow")

KINDS: dict[str, Kind] = {
    "env_list": _kind(names, _no_names, environments.LIST_S),
    "test_env": _kind(check, _not_good, environments.PYTHON_S),
    "py_v": _asked("ret_py_v", python, environments.PYTHON_S),
    "cuda_pt": _asked("ret_cuda_pt", _torch, environments.CUDA_S),
    "cuda_tf": _asked("ret_cuda_tf", _tensorflow, environments.CUDA_S),
    "pkgs": _asked("ret_pkgs", packages, environments.PACKAGES_S),
}
