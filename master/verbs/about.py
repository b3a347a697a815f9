"""Facts about the master as a whole. `server.info` adds those of the core and the store."""

from __future__ import annotations

import msgspec

from master.tls.policy import Told
from master.views.messages import MessageView
from master.views.sight import HIDDEN
from wire.message import Message, sentence


class TlsProblem(MessageView, frozen=True, gc=False):
    """A problem of the certificate: `text` is the sentence of `key` and `args` (docs/wire.md, Messages)."""

    text: str


class TlsInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`mode`: `off`, `own` (a certificate of the master's own making) or `brought`. `authority`: the fingerprint that
    clients pin; `ends`: when the certificate does, in seconds since the epoch. Both are null as long as nobody has come
    who speaks TLS. `problems`: what people should see to."""

    mode: str
    authority: str | None
    ends: float | None
    problems: list[TlsProblem]

    @classmethod
    def of(cls, told: Told, in_reach: Message | None = None) -> TlsInfo:
        """Return the state of the ports' certificate, as clients see it; `in_reach`: the problem that tasks can read
        its key."""
        problems = told.problems if in_reach is None else (*told.problems, in_reach)
        return cls(
            mode=told.mode,
            authority=told.authority,
            ends=None if told.ends is None else told.ends.timestamp(),
            problems=[TlsProblem(one.key, one.plain_args(), sentence(one)) for one in problems],
        )


class ClosedName(MessageView, frozen=True, gc=False):
    """A name of conf.json that is closed to desktop clients: `text` is the sentence of `key` and `args` (docs/wire.md,
    Messages), which says which key to change."""

    text: str

    @classmethod
    def of(cls, why: Message) -> ClosedName:
        """The same for clients."""
        return cls(why.key, why.plain_args(), sentence(why))


class ClosedNodes(MessageView, frozen=True, gc=False):
    """Nodes that take only admins' tasks although there are other users: `text` is the sentence of `key` and `args`
    (docs/wire.md, Messages), which says whose tasks do not run there, and what to do."""

    text: str

    @classmethod
    def of(cls, why: Message) -> ClosedNodes:
        """The same for clients."""
        return cls(why.key, why.plain_args(), sentence(why))


class FailingHook(MessageView, frozen=True, gc=False):
    """A command of `hooks` in conf.json that has failed since a while, so that its events wait, or that refuses them
    for good: `text` is the sentence of `key` and `args` (docs/wire.md, Messages)."""

    text: str

    @classmethod
    def of(cls, why: Message) -> FailingHook:
        """The same for clients."""
        return cls(why.key, why.plain_args(), sentence(why))


class About(msgspec.Struct, kw_only=True):
    """Which master this is, and what it was started with. Paths are absolute; `started_at` is in seconds since the
    epoch; `registry_fault` tells why the registry, as it is now, is not followed, or is null; `console` is where
    browsers find the console, null where conf.json wants none; `desktop_closed`: the names of conf.json as which no
    desktop client comes in, for they are admins'; told to admins. `conf_fault`: why conf.json, as it is now, is not
    followed, so that its last good values hold; `conf_at_start`: its keys that were changed and take effect at the next
    start."""

    version: str
    pid: int
    started_at: float
    conf: str
    task_info: str
    root: str
    visible_folders: list[str]
    bind: str
    ports: dict[str, int]
    desktop_ports: dict[str, int] | None
    registry_fault: str | None
    tls: TlsInfo
    console: str | None = None
    desktop_closed: list[ClosedName] = []
    conf_fault: str | None = None
    conf_at_start: list[str] = []


def on_wall(about: About) -> About:
    """Return the part that everybody may see on a screen on a wall: no path, no address, nothing that helps to log
    in."""
    return msgspec.structs.replace(
        about,
        conf="",
        task_info="",
        root="",
        visible_folders=[],
        bind="",
        ports={},
        desktop_ports=None,
        console=None,
        desktop_closed=[],
        conf_fault=None if about.conf_fault is None else HIDDEN,
        conf_at_start=[],
        registry_fault=None if about.registry_fault is None else HIDDEN,
        tls=msgspec.structs.replace(about.tls, authority=None, problems=[]),
    )
