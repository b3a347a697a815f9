"""Effects become messages to agents."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from master.core.attempts.launching import LaunchSettings
from master.core.effects import Ack, Kill
from master.core.people.run_as import as_the_agent
from master.executors.agents import Agents


def sent(*effects: Any) -> list[tuple[str, dict[str, Any], str]]:
    """What is sent for these: node, message, account."""
    told: list[tuple[str, dict[str, Any], str]] = []
    settings = LaunchSettings(conda="", task_env={}, grace_s=10.0)
    engine: Any = SimpleNamespace(core=None)  # neither is asked of it
    Agents(
        engine,
        lambda: settings,
        lambda *words: told.append(words),
        lambda _node, _id: None,  # type: ignore[arg-type,return-value]
        as_the_agent,
        ask=engine,
    ).perform(list(effects))
    return told


def test_what_ended_in_one_turn_is_acknowledged_in_one_message_for_each_agent_behind_the_rest() -> None:
    effects = [Ack("a", "1.1"), Ack("b", "2.1"), Kill("a", "3.1"), Ack("a", "4.1"), Ack("a", "5.1", "alice")]
    messages = [(node, message["op"], message.get("launch_ids"), login) for node, message, login in sent(*effects)]
    assert messages == [
        ("a", "kill", None, ""),
        ("a", "ack", ["1.1", "4.1"], ""),
        ("b", "ack", ["2.1"], ""),
        ("a", "ack", ["5.1"], "alice"),
    ]
