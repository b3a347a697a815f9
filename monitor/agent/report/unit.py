"""The systemd unit that starts an agent which dials in, as text. Owns how systemd reads a command line."""

from __future__ import annotations

import os
import pwd
import sys
from typing import Sequence

_UNIT = """[Unit]
Description=Muster: node {node}
{network}
[Service]
ExecStart={command}
Restart=always
RestartSec=10
RestartPreventExitStatus={final}
# Tasks run on when this ends; the next one takes them over.
KillMode=process
{account}
[Install]
WantedBy={target}
"""
_NETWORK = "After=network-online.target\nWants=network-online.target\n"
"""Of the system's units only: a user's know no such target."""


def unit(kind: str, node: str, words: Sequence[str], final: Sequence[int]) -> str:
    """A unit of kind `user` or `system` that runs these words. After the statuses `final` nothing is started again."""
    system = kind == "system"
    return _UNIT.format(
        node=node.replace("%", "%%"),
        network=_NETWORK if system else "",
        command=" ".join(_quoted(word) for word in words),
        final=" ".join(map(str, final)),
        account=f"User={_user()}\n" if system else "",
        target="multi-user.target" if system else "default.target",
    )


def agent_words(archive: str, node: str, base: str) -> Sequence[str]:
    """Return the command that a unit runs."""
    return [sys.executable, "-I", archive, "report", "--node", node, "--state", base]


def _user() -> str:
    """Return the account as which tasks shall run: the caller's, by uid and not by the environment, which `su` and
    others leave as it was."""
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _quoted(word: str) -> str:
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{word}"' if not word or any(char in word for char in " \t'\"") else word
