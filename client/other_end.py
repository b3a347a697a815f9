"""Whether the master has the other end of a connection within this machine: what is said to it is not encrypted there.

Owns who may have it (root, we ourselves, the account that a log-in or conf.json names), and what is done where the
kernel cannot tell who does: TLS with an authority that is known, or nothing is sent. `wire.other_end` asks the kernel.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from client.trust import Trust
    from wire.lab import Lab
    from wire.master_account import Found
    from wire.message import Message


class OtherEnd:
    """For one master. `account`: the uid as which it runs, where a log-in or MUSTER_MASTER_UID says it. `conf` and
    `task_info`: of a master whose conf.json we have. `name`: by what its authority is remembered. `sealed`: tokens that
    came over TLS, and go into no other connection.

    `ask`: is given the uid of whoever has the other end where nothing says which is right, and says whether it is.
    `seen`: who had the other end of the last connection in plain text, if that is neither root nor we ourselves.
    `lab`: the one that is meant, of a master whose conf.json we have; `is_named`: whether the master said which lab it
    is of. `fingerprint` and `ask_authority` are as `wanted` and `ask` of `client.trust.Trust`."""

    def __init__(self, name: str = "", conf: str | None = None, task_info: str = "") -> None:
        self.name = name
        self.account: int | None = None
        self.sealed: frozenset[str] = frozenset()
        self.ask: Callable[[int], bool] | None = None
        self.fingerprint = ""
        self.ask_authority: Callable[[str], bool] | None = None
        self.seen: int | None = None
        self.lab: Lab | None = None
        self.is_named = True
        self._conf = conf
        self._task_info = task_info
        self._authority: tuple[str | None, str | None, bool] | None = None

    def encrypt_if_unknown(self, own: str | None = None, brought: str | None = None, *, is_brought: bool) -> None:
        """Use TLS if the kernel cannot tell whose process the other end is. The arguments are as for
        `client.trust.Trust`."""
        self._authority = own, brought, is_brought

    def is_allowed(self, uid: int) -> bool:
        """May this account have the other end?"""
        return uid in (0, os.geteuid(), self.account) or uid == self._recorded()[0]

    def prove(self, sock: socket.socket, give_up: float) -> Trust | None:
        """Wait until it is known who has the other end; nothing was sent by then. None: it is the master. Else it takes
        another connection, with TLS, to find out. `give_up`: of the monotonic clock.

        Raises ForbiddenError where it is not the master; OSError where nobody accepts the connection, or it broke."""
        uid = self._uid(sock, give_up)
        self.seen = uid if uid not in (0, os.geteuid()) else None
        if uid is not None and self.is_allowed(uid):
            return None
        trust = self.trust()
        if uid is None:
            if trust is not None:
                return trust
            raise self.refusal(*sock.getpeername()[:2])
        if self._known() is None:
            if trust is not None and trust.is_pinned:
                return trust
            if self.ask is not None and self.ask(uid):
                self.account = uid
                return None
        raise self.refusal(*sock.getpeername()[:2])

    def vouches(self, sock: socket.socket) -> bool:
        """Does the kernel say that the master has the other end of this connection, on this machine? It must have been
        accepted."""
        from wire.other_end import account_of, is_local

        uid = account_of(sock) if is_local(sock) else None
        return uid is not None and self.is_allowed(uid)

    def refusal(self, host: str, port: int) -> Exception:
        """Why nothing is said to whoever answers there: a ForbiddenError."""
        from wire.errors import ForbiddenError

        return ForbiddenError(self._why(host, port))

    def is_strangers(self, sock: socket.socket) -> bool:
        """Does the kernel say that somebody else has the other end? It may not know yet."""
        from wire.other_end import account_of

        uid = account_of(sock)
        return uid is not None and not self.is_allowed(uid)

    def _uid(self, sock: socket.socket, give_up: float) -> int | None:
        from wire.other_end import Finding

        finding = Finding(sock, self.is_allowed, give_up)
        for pause in finding:
            time.sleep(pause)
        return finding.uid

    def _known(self) -> int | None:
        return self.account if self.account is not None else self._recorded()[0]

    def _recorded(self) -> Found:
        if self._conf is None:
            return None, None
        from wire.master_account import recorded

        return recorded(self._conf, self._task_info)

    def trust(self) -> Trust | None:
        """How to know the master by TLS, where it speaks that."""
        if self._authority is None:
            return None
        from client.trust import Trust

        own, brought, is_brought = self._authority
        trust = Trust(self.name, own, brought, is_brought=is_brought)
        trust.wanted = self.fingerprint or trust.wanted
        trust.ask = self.ask_authority
        return trust

    def _why(self, host: str, port: int) -> Message:
        from wire.message import Message

        uid = self.seen
        if uid is None:
            return Message("other_end_unknown", at=f"{host}:{port}")
        from wire.listener import name_of

        holder, known, doubt = name_of(uid), self._known(), self._recorded()[1]
        if known is not None:
            is_kept = self.account is not None
            again = Message("log_in_anew") if is_kept else Message("account_at_next_start")
            return Message("port_of_another", port=port, holder=holder, account=name_of(known), again=again)
        why = Message("no_account_said") if doubt is None else Message("account_in_doubt", why=doubt)
        return Message("port_of_somebody", port=port, holder=holder, why=why, uid=uid)
