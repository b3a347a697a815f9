"""Findings about the connection to a node: does it answer, is its host key known, does it accept the log-in. Pure.

The link's knowledge (unreachable or untrusted, and why) is believed rather than tried again: repeated wrong passwords
lock accounts.
"""

from __future__ import annotations

import re

from master.core.nodes.inventory import NodeState
from master.doctor.finding import (
    AGENT,
    HOST_KEY,
    LOG_IN,
    PYTHON,
    REACHABLE,
    Finding,
    fault,
    heard,
    ok,
    warning,
)
from master.nodes.driver import OfferedKey
from master.nodes.registry import NodeConfig
from wire.message import Message

_MEANINGS = (
    (PYTHON, r"no `[^`]*` on the node|the agent needs|`python` is"),
    (
        LOG_IN,
        (
            r"refuses the (key|password) |neither a key nor a password|key_file|takes no log-in|more than one proof"
            r"|during the log-in|the log-in failed|password|log-in shell|runs no command for us|opens no session"
        ),
    ),
    (
        REACHABLE,
        (
            r"`ip` is|cannot be reached|refuses the connection|does not answer within|cannot be looked up|the proxy"
            r"|says nothing|ends the connection at once|the key exchange failed|the connection broke|said nothing for"
        ),
    ),
)
"""The check that a link's reason is about, by words of `ssh_login`, `ssh_attach`, `ssh_socket` and `link`; any other
reason is about the agent."""


def reached(config: NodeConfig, took_s: float | None, why: Message | str, state: NodeState) -> Finding:
    """A connection was tried just now: it took so long, or `why` there was none."""
    if took_s is not None:
        answers = Message("doctor_reached", where=_where(config), ms=took_s * 1000)
        if config.proxy:
            answers = Message("doctor_reached_through", where=_where(config), ms=took_s * 1000)
        return ok(REACHABLE, answers)
    do = Message("do_look_at_sshd", name=config.name, ip=config.ip, port=config.port)
    if isinstance(why, Message) and why.key == "ip_misspelt":
        do = Message("do_as_it_says", name=config.name)
    elif config.proxy:
        proxy = _without_password(config.proxy)
        do = Message("do_look_at_sshd_and_proxy", name=config.name, ip=config.ip, port=config.port, proxy=proxy)
    if state is NodeState.ONLINE:
        return warning(REACHABLE, Message("doctor_still_connected", why=heard(why)), do)
    return fault(REACHABLE, heard(why), do)


def host_key(config: NodeConfig, offered: OfferedKey, known: str | None) -> Finding:
    """The key that the machine shows now, and the fingerprint that we know."""
    kind, shown = offered.type, offered.fingerprint
    if known is None:
        return fault(HOST_KEY, Message("doctor_key_new", type=kind, fingerprint=shown), _trust(config))
    if known != shown:
        other = Message("doctor_key_other", known=known, type=kind, fingerprint=shown)
        return warning(HOST_KEY, other, _trust(config))
    return ok(HOST_KEY, Message("doctor_key_known", type=kind, fingerprint=shown))


def no_host_key(why: Message | str) -> Finding:
    """The machine is there, and does not come as far as showing its key."""
    return fault(HOST_KEY, heard(why), Message("do_look_at_console"))


def _trust(config: NodeConfig) -> Message:
    if config.host_key is None:
        return Message("do_trust", name=config.name)
    return Message("do_trust_in_registry", name=config.name)


def logged_in(config: NodeConfig) -> Finding:
    """A connection stands, so the log-in works."""
    if config.key_file:
        return ok(LOG_IN, Message("doctor_log_in_key", user=config.user_name, key_file=config.key_file))
    return ok(LOG_IN, Message("doctor_log_in_password", user=config.user_name))


def by_link(config: NodeConfig, state: NodeState, reason: str) -> Finding:
    """Return the finding for a node's link, by its state and reason."""
    if state is NodeState.UNTRUSTED:
        return fault(HOST_KEY, _said(reason, Message("doctor_key_untrusted")), _trust(config))
    if state is NodeState.CONNECTING and config.driver == "report" and reason:
        return warning(AGENT, heard(reason), Message("do_read_its_log"))
    if state is NodeState.CONNECTING:
        return warning(AGENT, Message("doctor_connecting"), Message("do_wait_and_look"))
    if "its agent was stopped by" in reason:
        return fault(AGENT, heard(reason), Message("do_start_agent", name=config.name))
    if config.driver == "report":
        return fault(REACHABLE, _said(reason, Message("doctor_not_dialled")), Message("do_read_its_log"))
    check = next((check for check, words in _MEANINGS if re.search(words, reason)), AGENT)
    why = _said(reason, Message("doctor_nothing_said"))
    return fault(check, Message("doctor_last_try", why=why), _cure(config, check, reason))


def _said(reason: str, if_nothing: Message) -> Message:
    return heard(reason) if reason else if_nothing


def _cure(config: NodeConfig, check: str, reason: str) -> Message:
    name = config.name
    if reason.startswith("`ip` is") or "opens no session" in reason:
        return Message("do_as_it_says", name=name)
    if check == PYTHON:
        return Message("do_install_python", name=name)
    if check == REACHABLE:
        return Message("do_look_at_network", name=name)
    if check == LOG_IN:
        if "shell" in reason or "runs no command" in reason:
            return Message("do_mend_shell", name=name, user=config.user_name)
        return Message("do_correct_log_in", name=name, user=config.user_name)
    if "No space left" in reason:
        return Message("do_make_room_for_agent", name=name)
    if "refuses us" in reason:
        return _one_master(name, reason)
    return Message("do_as_it_says", name=name)


def _where(config: NodeConfig) -> str:
    return f"[{config.ip}]:{config.port}" if ":" in config.ip else f"{config.ip}:{config.port}"


def _without_password(proxy: str) -> str:
    return proxy.rpartition("@")[2].removeprefix("socks5://").removeprefix("socks5h://")


_ITS_FOLDER = re.compile(r"; its folder is (/.+)$")


def _one_master(name: str, reason: str) -> Message:
    """Also what to do where there is no other: tasks share the agent's account, and one may have written into what the
    agent keeps, or spoken to it as a master would."""
    found = _ITS_FOLDER.search(reason)
    if found is None:
        return Message("do_one_master")
    return Message("do_one_master_or_clear", name=name, folder=found[1], aside=found[1] + ".aside")
