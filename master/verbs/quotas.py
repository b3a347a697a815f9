"""Quotas in verbs: which limits can be changed, how a quota is shown, and how much of it is in use."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from master.core.people.quota import KEYS, Most, Quota, Use
from master.core.people.quotas import Account
from master.core.people.shares import Share


class QuotaChanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds of what tasks may have at a time, null for none: `max_total_gpus` in use, `max_manual_gpus` in
    named allocations, `max_gpus_per_task`, `max_running` tasks."""

    max_total_gpus: Most | UnsetType | None = UNSET
    max_manual_gpus: Most | UnsetType | None = UNSET
    max_gpus_per_task: Most | UnsetType | None = UNSET
    max_running: Most | UnsetType | None = UNSET

    def of(self, quota: Quota) -> Quota:
        """The quota with these changes."""
        said = {key: value for key in KEYS if (value := getattr(self, key)) is not UNSET}
        return msgspec.structs.replace(quota, **said)


class QuotaView(msgspec.Struct, frozen=True):
    """The limits of what tasks may have at a time; null: no limit."""

    max_total_gpus: int | None
    max_manual_gpus: int | None
    max_gpus_per_task: int | None
    max_running: int | None


class UseView(msgspec.Struct, frozen=True):
    """The use of a quota: `gpus`, those of them that named allocations hold (`manual`), and tasks that run
    (`running`)."""

    gpus: int
    running: int
    manual: int


class AccountView(msgspec.Struct, frozen=True):
    """A quota that somebody's tasks count for: whose it is (`kind`: `user`, `group`, `project` or `cluster`; `name`),
    and how much is in use."""

    kind: str
    name: str
    quota: QuotaView
    use: UseView


class ShareView(msgspec.Struct, frozen=True):
    """The share of a user's tasks in the queue: how many wait, and how many may as long as others have as many as now
    (`most_waiting`); the bytes of the large ones, over 4 KiB, that have not ended, and how many they may come to."""

    waiting: int
    most_waiting: int
    bytes: int
    most_bytes: int


class UserShare(ShareView, frozen=True):
    """The share of the tasks of one `user` in the queue."""

    user: str


def quota_view(quota: Quota) -> QuotaView:
    """The quota as clients see it."""
    return QuotaView(quota.max_total_gpus, quota.max_manual_gpus, quota.max_gpus_per_task, quota.max_running)


def use_view(use: Use | None) -> UseView:
    """Return the view of a use; None means that nothing is in use."""
    return UseView(0, 0, 0) if use is None else UseView(use.gpus, use.running, use.manual)


def share_view(share: Share) -> ShareView:
    """A user's share of the queue as clients see it."""
    return ShareView(share.waiting, share.most_waiting, share.size, share.most_size)


def user_share(user: str, share: Share) -> UserShare:
    """Return a share with whose it is."""
    return UserShare(share.waiting, share.most_waiting, share.size, share.most_size, user)


def account_view(account: Account) -> AccountView:
    """Somebody's quota and its use as clients see them."""
    return AccountView(account.kind, account.name, quota_view(account.quota), use_view(account.use))
