"""Findings about the connection to a node: does it answer, is its host key known, does it accept the log-in. Pure.

The link's knowledge (unreachable or untrusted, and why) is believed rather than tried again: repeated wrong passwords
lock accounts.
"""

from __future__ import annotations

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

_SHELL = frozenset(
    {"no_command_run", "shell_becomes_another", "shell_ended", "shell_endless", "shell_waits", "shell_waits_saying"}
)
_KEYS: dict[str, frozenset[str]] = {
    PYTHON: frozenset({"python_not_there", "python_too_old", "python_unquotable"}),
    LOG_IN: _SHELL | {
        "key_file_encrypted", "key_file_of_another", "key_file_open", "key_file_relative", "key_file_unreadable",
        "key_file_unusable", "key_file_without_key", "key_refused", "log_in_ended", "log_in_failed",
        "log_in_more_proofs", "log_in_more_questions", "log_in_stopped", "log_in_without_key",
        "log_in_without_password", "no_credential", "no_session", "password_refused", "proxy_log_in",
    },
    REACHABLE: frozenset({
        "agent_silent", "connection_refused", "ip_misspelt", "key_exchange_ended", "key_exchange_failed", "link_broke",
        "machine_off", "name_for_the_proxy", "name_impossible", "name_not_found", "no_answer_in_time", "no_route",
        "not_reached", "proxy_not_through", "proxy_refuses", "sshd_ends", "sshd_mute",
    }),
}  # fmt: skip
CHECK_OF = {key: check for check, keys in _KEYS.items() for key in keys}
"""The check that a link's message is about, by its key; any other message is about the agent."""


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


def by_link(config: NodeConfig, state: NodeState, why: Message | None) -> Finding:
    """Return the finding for a node's link, by its state and what it says."""
    if state is NodeState.UNTRUSTED:
        return fault(HOST_KEY, why or Message("doctor_key_untrusted"), _trust(config))
    if state is NodeState.CONNECTING and config.traits.dials_in and why is not None:
        return warning(AGENT, why, Message("do_read_its_log"))
    if state is NodeState.CONNECTING:
        return warning(AGENT, Message("doctor_connecting"), Message("do_wait_and_look"))
    if why is not None and why.key == "agent_stopped_start":
        return fault(AGENT, why, Message("do_start_agent", name=config.name))
    if config.traits.dials_in:
        return fault(REACHABLE, why or Message("doctor_not_dialled"), Message("do_read_its_log"))
    if why is None:
        why = Message("doctor_nothing_said")
    check = CHECK_OF.get(why.key, AGENT)
    return fault(check, Message("doctor_last_try", why=why), _cure(config, check, why))


def _cure(config: NodeConfig, check: str, why: Message) -> Message:
    name = config.name
    if why.key in {"ip_misspelt", "no_session"}:
        return Message("do_as_it_says", name=name)
    if check == PYTHON:
        return Message("do_install_python", name=name)
    if check == REACHABLE:
        return Message("do_look_at_network", name=name)
    if check == LOG_IN:
        if why.key in _SHELL:
            return Message("do_mend_shell", name=name, user=config.user_name)
        return Message("do_correct_log_in", name=name, user=config.user_name)
    if "No space left" in str(why.args.get("said")):  # as the node's system says it
        return Message("do_make_room_for_agent", name=name)
    if why.key in {"agent_refuses_us", "agent_refuses_us_in"}:
        return _one_master(name, str(why.args.get("folder", "")))
    return Message("do_as_it_says", name=name)


def _where(config: NodeConfig) -> str:
    return f"[{config.ip}]:{config.port}" if ":" in config.ip else f"{config.ip}:{config.port}"


def _without_password(proxy: str) -> str:
    return proxy.rpartition("@")[2].removeprefix("socks5://").removeprefix("socks5h://")


def _one_master(name: str, folder: str) -> Message:
    """Return also what to do where there is no other: tasks share the agent's account, and one may have written into
    the agent's folder, or spoken to it as a master would."""
    if not folder.startswith("/"):
        return Message("do_one_master")
    return Message("do_one_master_or_clear", name=name, folder=folder, aside=folder + ".aside")
