"""What is to be found on the way to a node: does it answer, is it the machine that we know, does it let us in. Pure.

What the link says already (unreachable or untrusted, and why) is believed rather than tried again: trying wrong
passwords locks accounts.
"""

from __future__ import annotations

import re

from master.core.inventory import NodeState
from master.doctor.finding import (
    AGENT,
    HOST_KEY,
    LOG_IN,
    PYTHON,
    REACHABLE,
    Finding,
    fault,
    ok,
    warning,
    word,
)
from master.nodes.driver import OfferedKey
from master.nodes.registry import NodeConfig

LOOK_AT_KEY = "compare it with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the machine itself"
_MEANINGS = (
    (PYTHON, r"no `[^`]*` on the node|the agent needs|`python` is"),
    (
        LOG_IN,
        (
            r"refuses the (key|password) |neither a key nor a password|key_file|takes no log-in|more than one proof"
            r"|during the log-in|the log-in failed|password|log-in shell|runs no command for us"
        ),
    ),
    (
        REACHABLE,
        (
            r"cannot be reached|refuses the connection|does not answer within|cannot be looked up|the proxy"
            r"|says nothing|ends the connection at once|the key exchange failed|the connection broke|said nothing for"
        ),
    ),
)
"""What the reasons of links are about, by words of `ssh_login`, `ssh_attach`, `ssh_socket` and `link`; else it is the
agent."""


def reached(config: NodeConfig, took_s: float | None, error: str, state: NodeState) -> Finding:
    """A connection was tried just now: it took so long, or `error` says why there was none."""
    if took_s is not None:
        through = " through its proxy" if config.proxy else ""
        return ok(REACHABLE, f"{_where(config)} answers{through} in {took_s * 1000:.0f} ms")
    cure = (
        f"look whether {config.ip} is on and runs sshd on port {config.port}"
        + (f", and whether the proxy {_without_password(config.proxy)} works" if config.proxy else "")
        + f"; if the address is wrong: `muster node edit {word(config.name)} ip=…`"
    )
    if state is NodeState.ONLINE:
        return warning(REACHABLE, f"{error}; the connection that exists goes on", cure)
    return fault(REACHABLE, error, cure)


def host_key(config: NodeConfig, offered: OfferedKey, known: str | None) -> Finding:
    """The key that the machine shows now, and the fingerprint that we know."""
    shown, cure = f"{offered.type} {offered.fingerprint}", f"{LOOK_AT_KEY}; if it is right, {_trust(config)}"
    if known is None:
        return fault(HOST_KEY, f"it shows {shown}, which is not known yet", cure)
    if known != offered.fingerprint:
        told = f"it shows {shown}, known is {known}: it has several keys, or was set up anew after we connected"
        return warning(HOST_KEY, told, cure)
    return ok(HOST_KEY, f"known: {shown}")


def no_host_key(error: str) -> Finding:
    """The machine is there, and does not come as far as showing its key."""
    return fault(HOST_KEY, error, "look at its console: it is frozen, overloaded, or what answers is no sshd")


def _trust(config: NodeConfig) -> str:
    if config.host_key is not None:
        return f"`muster node edit {word(config.name)} host_key=SHA256:…` (the registry says which it must be)"
    return f"`muster node trust {word(config.name)}`"


def logged_in(config: NodeConfig) -> Finding:
    """A connection stands, so the log-in works."""
    return ok(LOG_IN, f"as {config.user_name}, by {f'the key {config.key_file}' if config.key_file else 'password'}")


def by_link(config: NodeConfig, state: NodeState, reason: str) -> Finding:
    """What the link says of a node that is not online."""
    if state is NodeState.UNTRUSTED:
        cure = f"{LOOK_AT_KEY}; if it is right, {_trust(config)}"
        return fault(HOST_KEY, reason or "its host key is not trusted", cure)
    if state is NodeState.CONNECTING:
        return warning(AGENT, "it is being connected to", "wait some seconds, then look again")
    if "its agent was stopped by" in reason:
        return fault(AGENT, reason, f"`muster agents start {word(config.name)}`")
    if config.driver == "report":
        return fault(REACHABLE, reason or "its agent has not dialled in", "look at the agent's own log on the machine")
    check = next((check for check, words in _MEANINGS if re.search(words, reason)), AGENT)
    return fault(check, f"the last try: {reason or 'nothing was said'}", _cure(config, check, reason))


def _cure(config: NodeConfig, check: str, reason: str) -> str:
    name = word(config.name)
    again = f"`muster agents start {name}` tries again at once"
    if check == PYTHON:
        return f"install Python 3.8 or newer there, or `muster node edit {name} python=/path/to/python3`; {again}"
    if check == REACHABLE:
        return f"look at the machine and at the network between; {again}"
    if check == LOG_IN and ("shell" in reason or "runs no command" in reason):
        return (
            f"look at the .bashrc and .profile of {config.user_name} there: nothing in them may exit or wait; {again}"
        )
    if check == LOG_IN:
        return f"correct `psw_file`, `key_file` or the account {config.user_name}, as it says; {again}"
    if "No space left" in reason:
        return f"make room on that disk; {again}"
    if "refuses us" in reason:
        return f"{_ANOTHER_MASTER}{_without_its_folder(reason, again)}"
    return f"do what it says; {again}; `muster logs --server` has the history"


def _where(config: NodeConfig) -> str:
    return f"[{config.ip}]:{config.port}" if ":" in config.ip else f"{config.ip}:{config.port}"


def _without_password(proxy: str) -> str:
    return proxy.rpartition("@")[2].removeprefix("socks5://").removeprefix("socks5h://")


_ANOTHER_MASTER = "another master uses this node: stop the one that should not, or use another account for one of them"
_ITS_FOLDER = re.compile(r"; its folder is (/.+)$")


def _without_its_folder(reason: str, again: str) -> str:
    """What to do where there is no other master: tasks share the agent's account, and one may have written into what
    the agent keeps, or spoken to it as a master would."""
    found = _ITS_FOLDER.search(reason)
    if found is None:
        return ""
    folder = found[1]
    return (
        "; if there is no other, task_info is a copy that was put back, or a task of that account made the agent obey "
        "it: as that account, on the node, "
        f"`mv {word(folder)} {word(folder + '.aside')}`; the agent ends, what runs there runs on, and {again}"
    )
