"""Findings about the SSH accounts over which tasks run on a node: whether their keys and log-ins work, and whether
each user has an account of their own. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice

from master.config.ssh_accounts import SshAccount
from master.core.people.people import People
from master.doctor.finding import ACCOUNT, ENVIRONMENT, Finding, fault, heard, ok, warning
from wire.message import Message, names

TOLD = 6
"""So many users are named in a line."""
MOST_OWNERS = 500
"""So many users are asked about: a directory service answers each question."""


def accounts(
    node: str, named: Mapping[str, SshAccount], troubles: Mapping[str, Message], silent: Collection[str] = ()
) -> list[Finding]:
    """`named`: the account of each user; `troubles`: why nothing can be started over that of a user; `silent`: the
    accounts over which something may run of which nobody can tell."""
    shared: dict[str, list[str]] = {}
    for owner, account in named.items():
        shared.setdefault(account.user_name, []).append(owner)
    found = [_shared(login, owners) for login, owners in shared.items() if len(owners) > 1]
    found += [_trouble(node, named[owner], owner, why, silent) for owner, why in troubles.items()]
    found += [_not_named(node, login) for login in sorted(silent) if login not in shared]
    well = [owner for owner in named if owner not in troubles]
    if well:
        found.append(ok(ACCOUNT, Message("doctor_over_accounts", users=names(well, TOLD))))
    return found


def closed(node: str, cordons: Mapping[str, Message]) -> list[Finding]:
    """`cordons`: by account why nothing new is started over it, for what its agent says of its own attempts."""
    do = Message("do_as_it_says", name=node)
    return [warning(ACCOUNT, why, do) for _, why in sorted(cordons.items())]


def environments(node: str, shells: Mapping[str, str]) -> list[Finding]:
    """`shells`: by account why what runs over it does not begin with what a log-in gives; "" where it does."""
    return [
        warning(
            ENVIRONMENT,
            Message("doctor_environment_of", account=login, why=heard(why)),
            Message("do_mend_profile", name=node, user=login),
        )
        for login, why in sorted(shells.items())
        if why
    ]


def _shared(login: str, owners: list[str]) -> Finding:
    says = Message("doctor_shared_account", account=login, users=names(owners, TOLD))
    return warning(ACCOUNT, says, Message("do_name_an_account_for_each"))


def _trouble(node: str, account: SshAccount, owner: str, why: Message, silent: Collection[str]) -> Finding:
    do = Message("do_mend_ssh_account", name=node, key=account.key_file, account=account.user_name)
    if account.user_name in silent:
        do = Message("do_mend_or_give_up", mend=do, name=node, account=account.user_name)
    return fault(ACCOUNT, Message("doctor_waits_for_account", user=owner, why=why), do)


def _not_named(node: str, login: str) -> Finding:
    do = Message("do_name_again_or_give_up", name=node, account=login)
    return fault(ACCOUNT, Message("doctor_account_not_named", account=login), do)


def owners(people: People, now: float) -> list[str]:
    """The users who may submit, the first ones of many."""
    users = sorted(people.users.values(), key=lambda user: user.id)
    may_submit = (user for user in users if user.role != "viewer" and not user.is_owner_only)
    found = (user.name for user in may_submit if user.is_enabled(people.clock.rights(now)))
    return list(islice(found, MOST_OWNERS)) if people.is_shared else []
