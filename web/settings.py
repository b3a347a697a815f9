"""The console's settings in conf.json: its own key `web`, and the master's addresses.

The master checks the whole file when it starts; here only what the console needs is read.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from wire.console import Web, faults
from wire.file_fault import fault
from wire.master_account import recorded
from wire.message import Message
from wire.pinning import pinned

PORTS = {"calls": "data_port", "tasks": "train_state_port", "nodes": "monitor_port"}
"""The purpose of each of the master's ports."""
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104  (what it means to who dials)


class Settings(NamedTuple):
    """Of one lab. `bind`: where to listen; `master`: the address of its master, `ports` what each is for; `folder`:
    that of conf.json; `task_info` as the master has it; `tls`: whether the master speaks TLS at this address."""

    conf: Path
    web: Web
    bind: str
    task_info: Path
    master: str
    ports: dict[str, int]
    tls: Any

    @property
    def folder(self) -> Path:
        """Where the console keeps its certificate."""
        return self.task_info / "web"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names and addresses by which browsers call it, beside those of this machine for itself."""
        if self.web.hosts:
            return self.web.hosts
        names = {socket.gethostname(), socket.getfqdn()}
        if self.bind not in _EVERYWHERE:
            names.add(self.bind)
        return tuple(sorted(names))

    def service_token(self) -> str:
        """With what the console comes in, made anew at each start of the master. Raises ConfigError."""
        path = self.task_info / "services" / "web"
        try:
            return path.read_text(encoding="ascii").strip()
        except OSError as error:
            raise fault(path, Message("service_token_unreadable", detail=error.strerror)) from None

    def is_account(self, uid: int) -> bool:
        """May this account have the other end of a connection to the master within this machine?"""
        return uid in (0, os.geteuid()) or uid == recorded(str(self.conf), str(self.task_info))[0]

    @property
    def speaks_tls(self) -> bool:
        """Whether the master does, if it is asked to."""
        return bool(self.tls != "off")

    def trust(self) -> ssl.SSLContext | None:
        """How to know the master; None where what is said to it is heard on this machine only. Raises ConfigError."""
        if not self.speaks_tls or self.master in ("127.0.0.1", "::1", "localhost") or self.master.startswith("127."):
            return None
        return self.pinned()

    def pinned(self) -> ssl.SSLContext:
        """How to know the master by its certificate. Raises ConfigError."""
        is_brought = isinstance(self.tls, dict)
        path = self.task_info / "tls" / ("brought.pem" if is_brought else "ca.pem")
        try:
            return pinned(path.read_text(encoding="ascii"), is_shown=is_brought)
        except (OSError, ValueError) as error:
            raise fault(
                path, Message("file_unreadable", detail=getattr(error, "strerror", None) or str(error))
            ) from None


def load(conf: Path, port: int | None = None) -> Settings:
    """Read conf.json; `port`: another one than it says. Raises ConfigError with the file, the key and what is
    allowed."""
    whole = _read(conf)
    said = whole.get("web")
    if said is None and port is None:
        raise fault(conf, Message("web_missing", example='{"port": 8443}'))
    try:
        web = msgspec.convert({**(said or {}), **({} if port is None else {"port": port})}, Web)
        ports = {what: int(whole["socket_info"][key]) for what, key in PORTS.items()}
    except (msgspec.ValidationError, KeyError, TypeError, ValueError) as error:
        raise fault(conf, Message("web_wrong", detail=str(error))) from None
    for key, found, allowed in faults(web):
        raise fault(conf, Message("wrong_value", where=key, found=repr(found), expected=allowed))
    bind = str(whole.get("bind", "127.0.0.1"))
    task_info = conf.absolute().parent / Path(str(whole.get("task_info") or "task_info")).expanduser()
    return Settings(
        conf, web, web.bind or bind, task_info, _EVERYWHERE.get(bind, bind), ports, whole.get("tls", "auto")
    )


def _read(conf: Path) -> dict[str, Any]:
    try:
        value = json.loads(conf.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise fault(conf, Message("file_unreadable", detail=error.strerror)) from None
    except ValueError as error:
        raise fault(conf, Message("not_json", detail=str(error))) from None
    if not isinstance(value, dict):
        raise fault(conf, Message("object_expected"))
    return value
