"""The account with which the master touches files and logs for a user: the user's own account, if some node runs tasks
as their owners and the master can become other accounts, itself or through root's agent on its machine; otherwise the
master's account.

Owns that decision and the helpers that carry it out. `core.run_as` knows which account a user has. The code that makes
helpers, and their own code, is loaded when the first is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from master.core.people.run_as import RunAs, as_the_agent
from master.files.owners import Who
from master.files.service import Files, Seen

if TYPE_CHECKING:
    from master.helpers.means import Means
    from master.helpers.remote import As, LogsAs, SeenAs


class Acting:
    """`means`: makes what makes helpers, when it is first asked for; None where the master cannot have any. `holds`:
    whether tasks run as their owners, now and where the master's helpers are; `account_of`: which account somebody
    has."""

    def __init__(
        self,
        files: Files,
        log_folder: str,
        means: Callable[[], Means] | None = None,
        *,
        holds: Callable[[], bool] = lambda: False,
        account_of: RunAs = as_the_agent,
    ) -> None:
        self._files = files
        self._log_folder = log_folder
        self._make_means = means
        self._holds = holds
        self._account_of = account_of
        files.remove_as = self._remove_draft

    @property
    def is_on(self) -> bool:
        """Does the master touch files with the rights of whose call it is?"""
        return self._make_means is not None and self._holds()

    def account(self, user: str) -> str | None:
        """The account with whose rights this is done for somebody; None: the master's."""
        return self._account_of(user) if self.is_on else None

    def seen_by(self, who: Who, account: str) -> SeenAs:
        """Return the files as the user sees them, with the rights of their account. For a user who may see everything,
        the master does what the account may not."""
        from master.helpers.remote import SeenAs  # noqa: PLC0415  (see above)

        return SeenAs.of(self._as(account, who, self._files.seen_by(who) if who.sees_all else None))

    def logs(self, who: Who, account: str) -> LogsAs:
        """Logs with the rights of an account, as somebody may see them."""
        from master.helpers.remote import LogsAs  # noqa: PLC0415  (see above)

        return LogsAs(self._as(account, who))

    async def has_agent(self, node: str) -> bool:
        """Can the agent of this node make helpers, as it says? False also where it need not. Raises MusterError."""
        if self._make_means is None:
            return False
        return await self._files.quick.call("the agents of this machine", lambda _tick: self._means.prove(node))

    def close(self) -> None:
        """Let all helpers go."""
        if "_means" in vars(self):
            self._means.pool.close()

    @cached_property
    def _means(self) -> Means:
        if self._make_means is None:
            raise RuntimeError("there are no helpers")
        return self._make_means()

    def _as(self, account: str, who: Who, or_else: Seen | None = None) -> As:
        from master.helpers.operations import Bench, Logs  # noqa: PLC0415  (see above)
        from master.helpers.remote import As  # noqa: PLC0415

        bench = None
        if or_else is not None:
            bench = Bench(or_else, Logs(self._files.owners, who, str(self._files.root), self._log_folder))
        return As(self._means.pool, account, who, self._files.drafts.of(who.user), bench)

    def _remove_draft(self, account: str, path: str, name: str) -> bool:
        if not self.is_on:
            return self._files.uploads.remove_abandoned(path, name)
        gone: bool = self._as(account, Who(sees_all=True)).ask("remove_draft", path=path, name=name)
        return gone
