"""Users, groups and tokens: what is kept of them, what becomes of their tasks, and who somebody is because of them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from master.core.core import Core
from master.core.people.clock import RightsTime
from master.core.people.people import SESSIONS_KEPT, TOKENS_KEPT, Group, Token
from master.core.tasks.records import merge_pieces
from master.core.tasks.task import TaskState
from master.verbs.access import ALL_SCOPES, by_desktop_client, by_token
from tests.faults import says
from tests.master.core.small_core import core_with, launch_of, submit
from wire.errors import BadRequestError, ConflictError, NotFoundError


def lab() -> Core:
    """One with a task of `lab`'s, the users ann (admin) and bob, and the group `vision` of bob, whose mentor is cy."""
    core = core_with()
    submit(core, owner="lab")
    for name, role in (("ann", "admin"), ("bob", "user"), ("cy", "user")):
        core.people.add(name, core.owners(), role=role)
    core.people.add_group("vision")
    core.people.edit_group("vision", [core.people.find("bob")], [core.people.find("cy")])
    return core


def written(core: Core, before: Mapping[str, msgspec.Raw] = {}) -> dict[str, msgspec.Raw]:
    """The pieces of state as the store would have them."""
    outcome = core.take_outcome()
    pieces = dict(before)
    merge_pieces(pieces, outcome.change.state if outcome else {})
    return pieces


def token(core: Core, name: str, number: int = 1, **keys: object) -> Token:
    made = Token(f"t{number}", core.people.find(name).id, "sha", at=float(number), **keys)  # type: ignore[arg-type]
    core.people.add_token(made)
    return made


def test_what_was_written_down_of_people_is_there_again() -> None:
    core = lab()
    token(core, "bob", scopes=frozenset({"read"}), expires_at=9.0)
    again = core_with()
    again.load({}, {}, 1, written(core))
    assert again.people.users == core.people.users
    assert again.people.groups == core.people.groups
    assert again.people.tokens == core.people.tokens
    assert again.people.is_shared
    assert again.people.add("dan").id > max(core.people.users)


def test_of_who_is_gone_nothing_is_kept_and_his_number_is_not_given_again() -> None:
    core = lab()
    token(core, "bob")
    pieces = written(core)
    number = core.people.find("bob").id
    core.remove_user("bob")
    pieces = written(core, pieces)
    assert not [name for name in pieces if name in (f"user/{number}", "token/t1")]
    assert core.people.group("vision") == Group(
        core.people.group("vision").id, "vision", frozenset(), frozenset({core.people.find("cy").id})
    )
    assert core.people.add("bob").id > number


def test_owners_of_tasks_become_users_with_the_first_one_who_is_added_and_can_be_claimed() -> None:
    core = core_with()
    first, second = submit(core, owner="lab"), submit(core, owner="desktop")
    assert not core.people.is_shared
    core.people.add("ann", core.owners())
    assert {user.name: user.is_owner_only for user in core.people.users.values()} == {
        "ann": False, "lab": True, "desktop": True,
    }  # fmt: skip
    assert core.claim("lab", "ann") == [first.id]
    assert (first.owner, second.owner) == ("ann", "desktop")
    with pytest.raises(ConflictError, match="was added"):
        core.claim("ann", "desktop")
    assert not core.people.add("desktop").is_owner_only
    with pytest.raises(ConflictError, match="already"):
        core.people.add("desktop")


@pytest.mark.parametrize("name", ["", "Ann", "1a", "王", "a" * 33, "a b", "../x", "a\n"])
def test_a_name_that_could_be_taken_for_something_else_is_refused(name: str) -> None:
    with pytest.raises(BadRequestError):
        core_with().people.add(name)


def test_who_is_disabled_comes_in_no_more_and_his_waiting_tasks_are_held_until_he_is_enabled() -> None:
    core = lab()
    token(core, "bob")
    running = submit(core, owner="bob")
    core.plan(0.0)
    core.started(running.allocation[0].node, launch_of(running), 2.0, 2.0)
    waiting, held = submit(core, owner="bob", gpus=8, cpus=3), submit(core, owner="bob", state=TaskState.HELD)
    assert core.disable_user("bob", "ann") == [running, waiting, held]
    assert (waiting.state, waiting.reason_key, running.state) == (TaskState.HELD, "owner_disabled", TaskState.RUNNING)
    assert says(core.why_it_waits(waiting), "owner_disabled"), "and is not to be released"
    assert not core.people.tokens
    core.enable_user("bob")
    assert (waiting.state, waiting.reason_key, held.state) == (TaskState.WAITING, None, TaskState.HELD)


def test_who_still_has_tasks_is_not_removed() -> None:
    core = lab()
    task = submit(core, owner="bob")
    with pytest.raises(ConflictError, match=f"{task.id}"):
        core.remove_user("bob")
    with pytest.raises(NotFoundError):
        core.remove_user("nobody")


def test_a_mentor_looks_after_the_tasks_of_the_group_and_of_nobody_else() -> None:
    core = lab()
    token(core, "cy")
    cy = by_token("t1", "127.0.0.1")(core.people, 1.0)
    mine, bobs, labs = submit(core, owner="cy"), submit(core, owner="bob"), core.tasks[1]
    assert [cy.looks_after(one) for one in (mine, bobs, labs)] == [True, True, False]
    assert [cy.owns(one) for one in (mine, bobs, labs)] == [True, False, False]
    assert cy.groups == {"vision"}


def test_a_token_opens_what_it_is_confined_to_until_it_ends() -> None:
    core = lab()
    token(core, "ann", scopes=frozenset({"read", "nodes"}), expires_at=10.0)
    ann = by_token("t1", "127.0.0.1")
    caller = ann(core.people, 9.0)
    assert (caller.user, caller.role, caller.scopes, caller.until) == ("ann", "admin", {"read", "nodes"}, 10.0)
    assert ann(core.people, 10.0).user is None
    core.people.end_expired(RightsTime(10.0))
    assert not core.people.tokens
    token(core, "bob", 2, scopes=ALL_SCOPES)
    bob = by_token("t2", "127.0.0.1")
    assert bob(core.people, 1.0).scopes == {"read", "submit", "files", "account"}
    core.people.edit("bob", expires_at=5.0)
    assert [bob(core.people, now).user for now in (4.0, 5.0)] == ["bob", None]
    core.people.end_token("t2")
    assert bob(core.people, 1.0).user is None


def test_the_oldest_log_ins_end_and_tokens_beyond_the_most_are_refused() -> None:
    core = lab()
    for number in range(SESSIONS_KEPT + 3):
        token(core, "bob", number, kind="session")
    assert core.people.tokens_of(core.people.find("bob"))[0].id == "t3"
    for number in range(100, 100 + TOKENS_KEPT):
        token(core, "bob", number)
    with pytest.raises(ConflictError, match="revoke"):
        token(core, "bob", 999)


def test_what_has_ended_takes_nobodys_place() -> None:
    core = lab()
    for number in range(TOKENS_KEPT):
        token(core, "bob", number, expires_at=500.0)
    token(core, "bob", 501)
    assert list(core.people.tokens) == ["t501"]
    assert [name for name in written(core) if name.startswith("token/")] == ["token/t501"]


def test_the_desktop_client_has_all_tasks_until_there_are_users_and_then_its_own() -> None:
    core = core_with()
    desktop = by_desktop_client("10.0.0.1", "desktop")
    assert desktop(core.people, 1.0).owns_all
    core.people.add("ann", role="admin")
    assert not desktop(core.people, 1.0).owns_all
    core.people.add("desktop", role="admin")
    assert desktop(core.people, 1.0).user is None
    core.people.edit("desktop", role="user")
    caller = desktop(core.people, 1.0)
    assert (caller.role, caller.user_id) == ("user", core.people.find("desktop").id)
    core.people.edit("desktop", disabled="ann")
    assert desktop(core.people, 1.0).user is None
