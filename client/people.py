"""The verbs about people, as `people` of `client.api.Client`: the caller's identity, users, groups, tokens."""

from __future__ import annotations

from client.answers import clear_errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from client.caller import Caller
    from client.shapes import (
        Claimed,
        Disabled,
        Group,
        Link,
        LoggedIn,
        Project,
        Revoked,
        Token,
        TokenMade,
        User,
        Who,
    )  # fmt: skip


@clear_errors
class People:
    """The calls of a Client about users, groups, tokens, and its own identity."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self.call = caller.call

    def whoami(self) -> Who:
        """Return the caller's identity at the master; `user` is None for somebody without access."""
        who: Who = self.call("auth.whoami", {})
        return who

    def log_in(self, name: str, password: str, label: str = "") -> LoggedIn:
        """Show a password: the client is the user's from now on, and so is each that is given the `token`."""
        self._caller.session.check_unheard()
        params = {"name": name, "password": password, "label": label}
        return self._came_in(self.call("auth.login", params, repeatable=False))

    def redeem(self, link: str, password: str, label: str = "") -> LoggedIn:
        """Choose a password with a link that works once, and log in with it."""
        self._caller.session.check_unheard()
        params = {"link": link, "password": password, "label": label}
        return self._came_in(self.call("auth.redeem", params, repeatable=False))

    def _came_in(self, came: LoggedIn) -> LoggedIn:
        self._caller.use_token(came["token"])
        return came

    def log_out(self) -> None:
        """End the log-in, or the token, that this client shows."""
        self.call("auth.logout", {}, repeatable=False)

    # -- users ------------------------------------------------------------------------------------------------

    def users(self) -> list[User]:
        """All users, by name. For admins, as all that follows but for one's own password."""
        users: list[User] = self.call("user.list", {})
        return users

    def add(self, name: str, **fields: Any) -> User:
        """Add a user. `fields`: role, display, mail, language, expires_at (seconds since the epoch), password;
        again: this is the removed user of the same name."""
        user: User = self.call("user.add", {"name": name, **fields}, repeatable=False)
        return user

    def edit(self, name: str, **changes: Any) -> User:
        """Change role, display, mail, language or expires_at of a user, or the quotas:
        max_total_gpus, max_manual_gpus, max_gpus_per_task, max_running; None: no bound."""
        user: User = self.call("user.edit", {"name": name, "changes": changes})
        return user

    def disable(self, name: str, *, cancel: bool = False) -> Disabled:
        """Remove the access of a user and start none of the user's tasks; `cancel` also cancels running ones."""
        done: Disabled = self.call("user.disable", {"name": name, "cancel": cancel})
        return done

    def enable(self, name: str) -> User:
        """Undo `disable`."""
        user: User = self.call("user.enable", {"name": name})
        return user

    def remove(self, name: str) -> None:
        """Remove a user none of whose tasks waits or runs."""
        self.call("user.remove", {"name": name}, repeatable=False)

    def set_password(self, password: str | None, name: str | None = None, old: str | None = None) -> None:
        """Set a user's password, or one's own, which wants the `old` one. None takes it away."""
        params = {"password": password, "name": name, "old": old}
        said = {key: value for key, value in params.items() if value is not None or key == "password"}
        self.call("user.password", said, repeatable=False)

    def link(self, name: str) -> Link:
        """Return a link with which a user chooses a password, once."""
        link: Link = self.call("user.link", {"name": name}, repeatable=False)
        return link

    def claim(self, name: str, to: str) -> Claimed:
        """Give the tasks of somebody who owned them before there were users to the user `to`."""
        claimed: Claimed = self.call("user.claim", {"name": name, "to": to})
        return claimed

    # -- groups -----------------------------------------------------------------------------------------------

    def groups(self) -> list[Group]:
        """All groups for admins, for others their own."""
        groups: list[Group] = self.call("group.list", {})
        return groups

    def add_group(self, name: str) -> Group:
        """Add a group of nobody."""
        group: Group = self.call("group.add", {"name": name}, repeatable=False)
        return group

    def edit_group(
        self,
        name: str,
        *,
        add: Iterable[str] = (),
        remove: Iterable[str] = (),
        add_mentors: Iterable[str] = (),
        remove_mentors: Iterable[str] = (),
        **quota: int | None,
    ) -> Group:
        """Set the members and mentors of a group, and what their tasks may have at a time. `quota`:
        max_total_gpus, max_manual_gpus, max_gpus_per_task, max_running; None: no bound."""
        named = {"add": add, "remove": remove, "add_mentors": add_mentors, "remove_mentors": remove_mentors}
        changes = {key: list(names) for key, names in named.items()}
        group: Group = self.call("group.edit", {"name": name, **changes, "changes": quota})
        return group

    def remove_group(self, name: str) -> None:
        """Remove a group; its users stay."""
        self.call("group.remove", {"name": name}, repeatable=False)

    # -- projects ---------------------------------------------------------------------------------------------

    def projects(self) -> list[Project]:
        """Projects, with their groups and quotas, and what is in use."""
        projects: list[Project] = self.call("project.list", {})
        return projects

    def edit_project(self, name: str, **changes: Any) -> Project:
        """Say to which `group` a project belongs (None: to none), and what its tasks may have at a time:
        max_total_gpus, max_manual_gpus, max_gpus_per_task, max_running; None: no bound."""
        project: Project = self.call("project.edit", {"name": name, "changes": changes})
        return project

    # -- tokens -----------------------------------------------------------------------------------------------

    def tokens(self, name: str | None = None, *, everybody: bool = False) -> list[Token]:
        """Tokens and log-ins, one's own, a user's, or everybody's; without their secrets."""
        params: dict[str, Any] = {"all": True} if everybody else {} if name is None else {"name": name}
        tokens: list[Token] = self.call("token.list", params)
        return tokens

    def new_token(
        self,
        name: str | None = None,
        *,
        scopes: Iterable[str] | None = None,
        expires_at: float | None = None,
        label: str = "",
    ) -> TokenMade:
        """A token for a program, one's own or a user's; told this once. `expires_at` in seconds since the epoch."""
        params: dict[str, Any] = {"label": label, "expires_at": expires_at, "name": name}
        params["scopes"] = None if scopes is None else list(scopes)
        said = {key: value for key, value in params.items() if value is not None}
        made: TokenMade = self.call("token.new", said, repeatable=False)
        return made

    def revoke_tokens(self, ids: Iterable[str] = (), *, name: str | None = None, everything: bool = False) -> Revoked:
        """Revoke tokens, or log-ins: these, or `everything` of one's own, or of a user."""
        params: dict[str, Any] = {"all": True, "name": name} if everything else {"tokens": list(ids)}
        said = {key: value for key, value in params.items() if value is not None}
        revoked: Revoked = self.call("token.revoke", said, repeatable=False)
        return revoked
