"""Tokens and passwords in conf.json or the registry: used only where nobody else may read the file.

The rule is that of `psw_file`. Owns which keys hold a secret; no message ever shows one.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from master.config.config import Config
from master.nodes.registry import NodeConfig
from wire.file_fault import fault
from wire.message import Message

OTHERS = 0o077
TOKEN_FILE = "file:"  # noqa: S105  (what a token begins with that stands in a file)


def check_conf(config: Config) -> None:
    """Raises ConfigError if conf.json holds a secret and others may read it."""
    influx, notify = config.influx, config.notify
    if influx is not None and influx.token and not influx.token.startswith(TOKEN_FILE) and _is_open(config.path):
        raise fault(config.path, Message("token_open", key="influx.token", path=str(config.path)))
    if influx is not None and "@" in influx.url:
        _check(config.path, "influx.url")
    if notify is not None and notify.urls:
        _check(config.path, "notify.urls")


def check_registry(nodes: Iterable[NodeConfig], path: Path) -> None:
    """Raise ConfigError if the registry holds the password of a proxy and others may read it."""
    for node in nodes:
        if node.proxy is not None and urlsplit(node.proxy).password:
            _check(path, Message("key_of_node", key="proxy", node=node.name))


def _check(path: Path, key: str | Message) -> None:
    if _is_open(path):
        raise fault(path, Message("secret_open", key=key, path=str(path)))


def _is_open(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise fault(path, Message("file_not_seen", detail=error.strerror)) from None
    return bool(stat.S_IMODE(mode) & OTHERS)
