"""A lost password is set anew while the master is down."""

from __future__ import annotations

from master.config.config import Config
from master.core.people.people import People
from master.people.passwords import TODAY, derive, prepared
from master.setup.people.offline import change_people
from master.verbs.auth import check_password


def set_password(config: Config, name: str, password: str | None) -> None:
    """Set the password of a user, None for none, and end the log-ins. Raises BadRequestError, NotFoundError, and
    what `change_people` does."""
    if password is not None:
        check_password(password, name)
    phc = "" if password is None else derive(prepared(password), TODAY)

    def change(people: People) -> None:
        user = people.find(name)
        people.edit(user.name, password=phc, link="", link_until=0.0)
        people.end_tokens(user, frozenset({"session"}))

    change_people(config, "user.password", name, change)
