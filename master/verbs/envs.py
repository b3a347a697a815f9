"""The verbs about Python environments, on any node: which there are, and what they hold.

They answer within their time-outs whatever the node does. `master.nodes.environments` makes the questions and reads the
answers.
"""

from __future__ import annotations

import asyncio
import os
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from master.core.nodes.inventory import Node, NodeState
from master.files.public_paths import public_view
from master.loop import own_session
from master.nodes import environments
from master.nodes.environments import Env, Framework, Packages, Python, Told
from master.verbs.access import who
from master.verbs.base import Context
from wire.agent import Probed
from wire.errors import ConflictError, ForbiddenError, NodeUnreachableError, NotFoundError
from wire.message import Message, Several

EnvName = Annotated[str, Meta(min_length=1, max_length=4096, examples=["base"])]


class ListEnvs(msgspec.Struct, forbid_unknown_fields=True):
    """env.list: as `node` sees them; any online one unless said."""

    node: str | None = None


class OneEnv(msgspec.Struct, forbid_unknown_fields=True):
    """env.check, env.python, env.packages: a name, or the absolute path of an environment."""

    env: EnvName
    node: str | None = None


class Cuda(OneEnv, forbid_unknown_fields=True):
    """env.cuda: through which framework to look for GPUs. Without `node`: the first that has some."""

    framework: Literal["torch", "tensorflow"] = "torch"


class EnvList(msgspec.Struct, frozen=True):
    """The environments that `node` sees; null: the master's own machine was asked, for no node was there."""

    node: str | None
    envs: list[Env]


async def list_envs(context: Context, params: ListEnvs) -> EnvList:
    """The environments that a node sees."""
    master = context.master
    argv = environments.list_question(master.conda, master.root)
    node: str | None
    try:
        node = _node(context, params.node)
        probed = await _probe(context, node, argv, environments.LIST_S)
    except NodeUnreachableError:
        if params.node is not None:
            raise
        # People queue tasks while no node is there; the folders are shared, so the master sees what a node would.
        node, probed = None, await _run_here(argv, environments.LIST_S)
    told = node or "the master's own machine"
    found = environments.read_list(master.conda, master.root, told, probed)
    if node is None and context.caller.role != "admin":
        # The master may see more than they.
        found = await master.files.quick.call(master.root, lambda _tick: _in_public(found))
    return EnvList(node, [env for env in found if _is_his(context, env.path)])


def _in_public(envs: list[Env]) -> list[Env]:
    """Those of the shared prefix, and of the others those that any account of this machine can find."""
    return [env for env in envs if not env.name.startswith("/") or public_view(env.path) == "there"]


async def check(context: Context, params: OneEnv) -> Python:
    """Whether a task could use an environment: it can be activated there, and its own Python runs; refused if not."""
    found = await python(context, params)
    if not found.own:
        raise ConflictError(Message("env_of_another", env=found.env, node=found.node, executable=found.executable))
    return found


async def python(context: Context, params: OneEnv) -> Python:
    """The version of an environment's Python, where it lies, and whether it is the environment's own."""
    return await _ask(context, params, "python", Python, environments.PYTHON_S)


async def cuda(context: Context, params: Cuda) -> Framework:
    """Whether an environment's framework sees GPUs. A probe holds no GPU; it may look at those that tasks hold."""
    return await _ask(context, params, params.framework, Framework, environments.CUDA_S, gpus=True)


async def packages(context: Context, params: OneEnv) -> Packages:
    """List the packages that are installed in an environment."""
    return await _ask(context, params, "packages", Packages, environments.PACKAGES_S)


async def _ask(
    context: Context, params: OneEnv, what: str, kind: type[Told], limit_s: float, *, gpus: bool = False
) -> Told:
    master = context.master
    env = environments.check_env(params.env, master.root)
    if env.startswith("/") and not _is_his(context, env):
        raise ForbiddenError(Message("not_yours", path=env))
    node = _node(context, params.node, gpus=gpus)
    _check_open(context, node)
    probed = await _probe(context, node, environments.question(env, what, master.conda), limit_s)
    return environments.read_answer(env, node, probed, kind)


async def _probe(context: Context, node: str, argv: list[str], limit_s: float) -> Probed:
    # In a folder of the machine's own: Python looks for modules in the current one first.
    return await context.master.fleet.probe(
        node,
        argv,
        cwd="/",
        env=context.master.config.task_env,
        timeout_s=limit_s,
        output_limit=environments.OUTPUT_LIMIT,
        run_as=context.master.run_as(context.user),  # activating an environment runs its owner's code
        asker=context.caller.counted_as,
    )


async def _run_here(argv: list[str], limit_s: float) -> Probed:
    """Return what a probe would answer if this machine were a node."""
    process = await own_session.start(*argv, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT)
    output = None
    try:
        async with asyncio.timeout(limit_s):
            output, _ = await process.communicate()
    except TimeoutError:
        raise NodeUnreachableError(Message("master_did_not_answer", seconds=limit_s)) from None
    finally:
        if output is None:  # it took too long, or nobody waits for it any more
            own_session.kill(process)  # and answer now, whatever holds it back
    return Probed(
        op="probed",
        probe_id="",
        code=process.returncode,
        output=output.decode("utf-8", "replace"),
        truncated=False,
        error="",
    )


def _is_his(context: Context, path: str) -> bool:
    """May the caller see this path, as far as `files` of conf.json says so? A probe has the rights of an account that
    may see more than the caller."""
    sight = context.master.files.owners.sight(who(context.caller))
    if sight is None:
        return True
    root = str(context.master.files.root)
    return sight.from_slash(root).has([os.fsencode(name) for name in path.split("/") if name])


def _node(context: Context, asked: str | None, *, gpus: bool = False) -> str:
    """The node to ask: the one asked for, else the first that is online, with GPUs if there is one."""
    nodes = context.core.inventory.nodes
    if asked is not None:
        if asked not in nodes:
            raise NotFoundError(Message("no_such_node", node=asked, nodes=Several(tuple(nodes), len(nodes))))
        return asked
    online = [node for node in nodes.values() if node.state is NodeState.ONLINE]
    if not online:
        raise NodeUnreachableError(Message("no_node_online"))
    by_admin = context.caller.speaks_as_admin
    online = [node for node in online if node.is_open_to(context.user, by_admin=by_admin)] or online
    online = [node for node in online if not _is_as_admin(context, node)] or online
    with_gpus = [node for node in online if node.spec.gpu_models] if gpus else []
    return (with_gpus or online)[0].name


def _check_open(context: Context, node: str) -> None:
    """Raise ForbiddenError where the caller may run nothing: to activate an environment is to run what is in it. Nor is
    that done as root, or as the account that runs the master, once somebody else may have written it."""
    found = context.core.inventory.nodes[node]
    if (why := found.why_closed_to(context.user, by_admin=context.caller.speaks_as_admin)) is not None:
        raise ForbiddenError(why)
    if _is_as_admin(context, found):
        raise ForbiddenError(Message("env_as_admin", node=node))


def _is_as_admin(context: Context, node: Node) -> bool:
    account = context.master.run_as(context.user)
    return context.core.people.is_shared and node.runs_as_admin(context.user, account)
