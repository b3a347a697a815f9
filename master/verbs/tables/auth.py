"""The verbs `auth.…`: see `master.verbs.table`."""

from __future__ import annotations

from master.verbs import auth
from master.verbs.base import Done, Nothing, Verb

VERBS: dict[str, Verb] = {
    "auth.login": Verb(auth.LogIn, auth.LoggedIn, auth.login, "anyone", "account", "none", "auth"),
    "auth.token": Verb(auth.Shown, auth.Who, auth.token, "anyone", "account", "none", repeatable=True, quiet=True),
    "auth.relay": Verb(auth.Relay, Done, auth.relay, "anyone", "account", "none", repeatable=True, quiet=True),
    "auth.session": Verb(auth.BeginSession, auth.LoggedIn, auth.session, "anyone", "account", "none", "auth"),
    "auth.redeem": Verb(auth.Redeem, auth.LoggedIn, auth.redeem, "anyone", "account", "none", "auth"),
    "auth.logout": Verb(Nothing, Done, auth.logout, "anyone", "account", "none"),
    "auth.whoami": Verb(Nothing, auth.Who, auth.whoami, "anyone", "account", "none", repeatable=True, quiet=True),
}
