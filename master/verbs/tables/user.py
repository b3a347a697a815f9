"""The verbs `user.…`: see `master.verbs.table`."""

from __future__ import annotations

from master.verbs import users
from master.verbs.base import Done, Nothing, Verb

VERBS: dict[str, Verb] = {
    "user.list": Verb(
        Nothing, list[users.UserView], users.list_users, "admin", "admin", "none", repeatable=True, quiet=True
    ),
    "user.add": Verb(users.AddUser, users.UserView, users.add, "admin", "admin", "none"),
    "user.edit": Verb(users.EditUser, users.UserView, users.edit, "admin", "admin", "none", repeatable=True),
    "user.disable": Verb(users.DisableUser, users.Disabled, users.disable, "admin", "admin", "none", repeatable=True),
    "user.enable": Verb(users.OneUser, users.UserView, users.enable, "admin", "admin", "none", repeatable=True),
    "user.remove": Verb(users.OneUser, Done, users.remove, "admin", "admin", "none"),
    "user.password": Verb(users.SetPassword, Done, users.password, "viewer", "account", "none", "auth"),
    "user.link": Verb(users.OneUser, users.Link, users.link, "admin", "admin", "none"),
    "user.claim": Verb(users.Claim, users.Claimed, users.claim, "admin", "admin", "none", repeatable=True),
}
