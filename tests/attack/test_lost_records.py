"""A lost block of the journal takes users away, and gives nobody more rights: no root, no revoked token."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from master.core.core import Core
from master.core.nodes.facts import Facts
from master.core.nodes.inventory import NodeSpec
from master.core.outcome import Pending
from master.core.people.marks import after_damage, of
from master.core.people.people import People, Token
from master.core.people.run_as import WouldBeRootError, account_on, as_their_owners
from master.core.tasks.records import merge_pieces
from master.durable.disk import OsDisk
from master.durable.store import Permit, Store, StoreCorruptError
from master.durable.witness import Told, Witness
from master.engine.engine import Engine
from master.people.task_tokens import TaskTokens
from master.start.loading import end_what_was_put_back
from master.verbs.access import by_token
from master.watchers.own_account import OwnAccount
from tests import landed
from tests.master.core.small_core import submit
from tests.master.executor import played
from tests.people_here import PEOPLE
from tests.rights import need_users

USERS, TOKENS = 6, 26
BLOCK = 4096
KILLED = 9
OURS = "muster"
ROOT = Facts(boot_id="b", state_id="s", cpus=1, memory_mib=1, uid=0, can_run_as=True)
OLD_ROOT = Facts(boot_id="b", state_id="s", cpus=1, memory_mib=1, uid=0)


class Start:
    """A start on `folder/queue`, which passes over damage if it may."""

    def __init__(self, folder: Path, *, ends_access: bool = True, damage: bool = True) -> None:
        self.store = Store(folder / "queue", OsDisk(), permit=Permit(damage=damage), witness=folder / "log.queue")
        image = self.store.open()
        self.core = Core((), lambda task, attempt: f"{task}.{attempt}")
        self.core.load(image.tasks, image.answered, image.next_id, image.state)
        self.engine = Engine(self.core, self.store)
        self.engine.executor_of = played(lambda _effects: None)
        self.store.anchor({}, anew=False)
        OwnAccount(self.engine, "desktop")
        self._tokens = TaskTokens.begin(folder)
        self._ends_access = ends_access

    async def end(self) -> None:
        """What a start does, then an end in order."""
        if self._ends_access:
            await end_what_was_put_back(self.engine, self.store, self._tokens)
        await self.engine.settled()
        await self.engine.close()

    @property
    def is_apart(self) -> bool:
        """Do users' tasks run as users where the agent is root, and nowhere as root?"""
        account = as_their_owners(self.core.people, OURS)("u1")
        return account_on("a", ROOT, account) == "u1" and account is not None


def lived(folder: Path, story: Callable[[Start], None], *, ends_access: bool = True, damage: bool = True) -> Start:
    """A start, the story, an end."""

    async def whole() -> Start:
        start = Start(folder, ends_access=ends_access, damage=damage)
        story(start)
        await start.end()
        return start

    return asyncio.run(whole())


def nothing(_start: Start) -> None:
    """Only the start and the end."""


def fill(start: Start) -> None:
    """Six users with 26 tokens, of which one is revoked, a link, and a user who is removed."""
    people, change = start.core.people, start.engine.client_change
    for number in range(USERS):
        change(lambda number=number: people.add(f"u{number}", role="user" if number else "admin"))  # type: ignore[misc]
    for number in range(TOKENS):
        user = people.find(f"u{number % USERS}")
        change(lambda number=number, user=user: people.add_token(Token(f"t{number}", user.id, "x" * 64)))  # type: ignore[misc]
    change(lambda: people.edit("u1", link="x", link_until=4e9))


def in_records(start: Start, story: Callable[[Start], None]) -> None:
    """Each change in a record of its own, as the changes of different days are."""
    engine = start.engine
    real = engine.client_change

    def change(made: Callable[[], object], **keys: bool) -> object:
        try:
            return real(made, **keys)
        finally:
            engine._take()

    engine.client_change = change  # type: ignore[method-assign,assignment]
    story(start)


def zero(folder: Path, size: int = BLOCK) -> None:
    """The disk lost the first block of the journal."""
    journal = folder / "queue" / "journal.jsonl"
    with journal.open("r+b") as file:
        file.write(b"\0" * min(size, journal.stat().st_size))


def forget_marks(folder: Path) -> None:
    """The witness is as the landed version writes it."""
    witness = Witness(OsDisk(), folder / "log.queue", folder / "queue")
    witness.load()
    pieces = {name: piece for name, piece in witness.pieces.items() if name not in ("people", "own_account")}
    witness.keep(pieces, stood=None)


@pytest.mark.parametrize("marks", ["kept", "none"])
@pytest.mark.parametrize("lost", ["a block", "all of it"])
def test_a_lab_that_lost_its_users_is_shared_and_its_tokens_and_links_have_ended(
    tmp_path: Path, lost: str, marks: str
) -> None:
    lived(tmp_path, lambda start: in_records(start, fill))
    zero(tmp_path, BLOCK if lost == "a block" else 1 << 30)
    if marks == "none":
        forget_marks(tmp_path)
    with pytest.raises(StoreCorruptError):
        Store(tmp_path / "queue", OsDisk(), witness=tmp_path / "log.queue").open()
    start = lived(tmp_path, nothing)
    assert len(start.core.people.users) < USERS
    assert start.core.people.is_shared
    assert start.is_apart
    assert start.core.own_account.fence.closed
    (told,) = start.store.damage
    assert told.tells("people_lost")
    for again in (start, lived(tmp_path, nothing)):
        assert not again.core.people.tokens
        assert not [user for user in again.core.people.users.values() if user.link]
        assert again.is_apart


def test_tokens_end_though_the_start_that_found_the_damage_was_killed(tmp_path: Path) -> None:
    lived(tmp_path, lambda start: in_records(start, fill))
    zero(tmp_path, 200)
    before = lived(tmp_path, nothing, ends_access=False)
    assert before.core.people.tokens
    assert not lived(tmp_path, nothing).core.people.tokens

    def make(start: Start) -> None:
        user = start.engine.client_change(lambda: start.core.people.add("new"))
        start.engine.client_change(lambda: start.core.people.add_token(Token("fresh", user.id, "x")))

    lived(tmp_path, make)
    assert set(lived(tmp_path, nothing).core.people.tokens) == {"fresh"}


def test_lines_that_were_taken_out_of_the_journal_are_lost_records_too(tmp_path: Path) -> None:
    lived(tmp_path, lambda start: in_records(start, fill))
    journal = tmp_path / "queue" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:2] + lines[12:]))
    start = lived(tmp_path, nothing)
    assert start.is_apart
    assert not start.core.people.tokens
    assert start.store.damage[0].tells("people_lost")
    lived(tmp_path, nothing)


@pytest.mark.parametrize("marks", ["kept", "none"])
def test_a_folder_that_is_gone_leaves_a_shared_lab(tmp_path: Path, marks: str) -> None:
    lived(tmp_path, fill)
    if marks == "none":
        forget_marks(tmp_path)
    for path in (tmp_path / "queue").iterdir():
        path.unlink()
    start = lived(tmp_path, nothing)
    assert start.is_apart
    assert start.core.own_account.fence.closed
    assert start.core.people.add("new").id > USERS, "no id is given twice"


def test_one_persons_queue_stays_theirs_where_the_witness_says_so(tmp_path: Path) -> None:
    def one(start: Start) -> None:
        start.engine.client_change(lambda: start.core.tuning.said)
        start.engine.client_change(lambda: start.core.remember_answer("r", msgspec.Raw(b"1")))

    lived(tmp_path, lambda start: in_records(start, one))
    zero(tmp_path)
    start = lived(tmp_path, nothing)
    assert not start.core.people.is_shared
    assert not start.core.own_account.fence.closed


def test_whoever_runs_the_master_still_submits_and_nobody_else_is_root(tmp_path: Path) -> None:
    lived(tmp_path, fill)
    zero(tmp_path, 1 << 30)
    forget_marks(tmp_path)
    run_as = as_their_owners(lived(tmp_path, nothing).core.people, OURS)
    assert run_as(OURS) is None
    with pytest.raises(WouldBeRootError):
        account_on("a", OLD_ROOT, run_as("u1"))


def pieces(**said: object) -> dict[str, msgspec.Raw]:
    return {name.replace("__", "/"): msgspec.Raw(msgspec.json.encode(value)) for name, value in said.items()}


@pytest.mark.parametrize("said", ["user__1", "token__t"])
def test_any_record_of_a_user_or_a_users_token_says_that_the_lab_is_shared(said: str) -> None:
    value = {"id": 1, "name": "ann"} if said == "user__1" else {"id": "t", "user": 7, "sha256": "x"}
    people = People(Pending())
    people.load(pieces(**{said: value}))
    assert people.is_shared
    assert people.add("new").id > 1, "an id that something names is nobody else's"


@pytest.mark.parametrize("said", ["group__2", "user__1"])
def test_a_readable_record_of_a_group_or_of_a_removed_user_says_so_where_records_are_lost(
    tmp_path: Path, said: str
) -> None:
    def one(start: Start) -> None:
        start.engine.client_change(lambda: start.core.remember_answer("r", msgspec.Raw(b"1" * BLOCK)))
        value = b"null" if said == "user__1" else b'{"id":2,"name":"vision"}'
        start.engine.client_change(lambda: start.core._parts.pending.piece(said.replace("__", "/"), msgspec.Raw(value)))

    lived(tmp_path, lambda start: in_records(start, one))
    zero(tmp_path)
    assert lived(tmp_path, nothing).is_apart


def test_a_note_of_a_nodes_token_says_nothing_of_people(tmp_path: Path) -> None:
    def one(start: Start) -> None:
        start.engine.client_change(lambda: start.core.remember_answer("r", msgspec.Raw(b"1" * BLOCK)))
        start.engine.client_change(
            lambda: start.core._parts.pending.piece(
                "nodes", msgspec.Raw(b'{"a":{"tokens":[{"id":"n","sha256":"x","by":"l","at":1}]}}')
            )
        )

    lived(tmp_path, lambda start: in_records(start, one))
    zero(tmp_path)
    assert not lived(tmp_path, nothing).core.people.is_shared


def test_a_token_or_a_membership_of_a_user_who_is_lost_is_none_and_no_defect() -> None:
    people = People(Pending())
    people.load(
        pieces(
            user__1={"id": 1, "name": "cy"},
            group__2={"id": 2, "name": "vision", "members": [5], "mentors": [1]},
            token__t={"id": "t", "user": 5, "sha256": "x"},
        )
    )
    assert by_token("t", "10.0.0.9")(people, 1.0).user is None
    assert people.mentored_by(people.find("cy")) == frozenset()
    assert people.group("vision").members == frozenset()


@pytest.mark.parametrize("first", [9, 10])
def test_a_user_whose_removal_is_lost_does_not_come_back_behind_the_one_who_got_the_name(first: int) -> None:
    pending, state = Pending(), dict[str, msgspec.Raw]()
    for number in (first, 19 - first):
        state |= {f"user/{number}": msgspec.Raw(msgspec.json.encode({"id": number, "name": "bob"}))}
    state |= pieces(token__t={"id": "t", "user": 9, "sha256": "x"}, group__2={"id": 2, "name": "g", "members": [9, 10]})
    people = People(pending)
    people.load(state)
    assert people.find("bob").id == 10
    assert people.group("g").members == {10}
    assert by_token("t", "10.0.0.9")(people, 1.0).user is None
    people.remove("bob")
    outcome = pending.take()
    assert outcome is not None
    merge_pieces(state, outcome.change.state)
    again = People(Pending())
    again.load(state)
    assert again.named("bob") is None


# -- the end of the journal ----------------------------------------------------------------------------------------


def killed(folder: Path, story: Callable[[Start], None]) -> None:
    """A start and the story; then the files are as a kill of the master leaves them."""

    def whole(start: Start) -> None:
        story(start)
        start.store.commit()
        for path in (folder / "queue", folder / "log.queue"):
            copy = path.with_name(f"{path.name}.then")
            shutil.copytree(path, copy) if path.is_dir() else shutil.copy(path, copy)

    lived(folder, whole)
    shutil.rmtree(folder / "queue")
    (folder / "queue.then").rename(folder / "queue")
    (folder / "log.queue.then").rename(folder / "log.queue")


def revoke(start: Start) -> None:
    """A token is revoked, and a user removed, each in a record of its own."""

    def changes(start: Start) -> None:
        start.engine.client_change(lambda: start.core.people.end_token("t3"))
        start.engine.client_change(lambda: start.core.remove_user("u2"))

    in_records(start, changes)


def lose_lines(folder: Path, count: int, *, torn: int) -> None:
    """The last lines are lost, but for some bytes of them."""
    journal = folder / "queue" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-count]) + b"".join(lines[-count:])[:torn])


def power_cut(folder: Path) -> None:
    """The machine went down since: it runs under another boot id, and what was not synced is as it was before."""
    ids = folder / "queue" / "ids"
    lines = ids.read_text().splitlines(keepends=True)
    ids.write_text("".join([lines[0], "another-boot\n"]))
    told = json.loads((folder / "log.queue").read_bytes())
    *_, last, _unfinished = (folder / "queue" / "journal.jsonl").read_bytes().split(b"\n")
    told["seq"] = min(told["seq"], int(last.split()[1]))
    (folder / "log.queue").write_text(json.dumps(told))


@pytest.mark.parametrize("torn", [1, 30, BLOCK])
def test_where_the_machine_went_on_a_cut_end_of_the_journal_ends_all_access(tmp_path: Path, torn: int) -> None:
    lived(tmp_path, lambda start: in_records(start, fill))
    killed(tmp_path, revoke)
    whole = (tmp_path / "queue" / "journal.jsonl").read_bytes()
    lose_lines(tmp_path, 2, torn=min(torn, len(whole.splitlines(keepends=True)[-1]) - 1))
    start = lived(tmp_path, nothing, damage=False)
    assert not start.core.people.tokens
    assert start.store.damage[0].tells("people_lost")


def test_a_cut_end_ends_access_also_where_the_start_that_cut_it_was_killed(tmp_path: Path) -> None:
    lived(tmp_path, lambda start: in_records(start, fill))
    killed(tmp_path, revoke)
    lose_lines(tmp_path, 2, torn=20)
    end = "import os, sys; from pathlib import Path; from master.durable.disk import OsDisk; "
    end += "from master.durable.store import Store; Store.commit = lambda self: os._exit(9); "
    end += "folder = Path(sys.argv[1]); Store(folder / 'queue', OsDisk(), witness=folder / 'log.queue').open()"
    assert subprocess.run([sys.executable, "-c", end, str(tmp_path)], check=False, timeout=60).returncode == KILLED
    assert not lived(tmp_path, nothing, damage=False).core.people.tokens


def test_the_end_of_a_commit_that_a_power_cut_tore_ends_nobodys_access(tmp_path: Path) -> None:
    lived(tmp_path, lambda start: in_records(start, fill))
    killed(tmp_path, revoke)
    lose_lines(tmp_path, 1, torn=20)
    power_cut(tmp_path)
    start = lived(tmp_path, nothing, damage=False)
    assert start.core.people.tokens
    assert "t3" not in start.core.people.tokens


def test_who_lets_a_start_pass_over_damage_has_all_access_end_where_the_end_is_cut(tmp_path: Path) -> None:
    lived(tmp_path, lambda start: in_records(start, fill))
    killed(tmp_path, revoke)
    lose_lines(tmp_path, 1, torn=20)
    power_cut(tmp_path)
    assert not lived(tmp_path, nothing).core.people.tokens


def test_ids_that_were_given_and_are_not_known_show_a_lost_end_and_end_all_access(tmp_path: Path) -> None:
    lived(tmp_path, lambda start: in_records(start, fill))

    def more(start: Start) -> None:
        revoke(start)
        start.core.set_nodes((NodeSpec(name="a", cpus=1),))
        start.engine.client_change(lambda: submit(start.core, node="a"))

    killed(tmp_path, lambda start: in_records(start, more))
    lose_lines(tmp_path, 3, torn=0)
    start = lived(tmp_path, nothing, damage=False)
    assert not start.core.people.tokens
    assert start.store.damage[0].tells("people_lost")


def test_a_last_record_cut_off_at_its_boundary_brings_no_revoked_token_back(tmp_path: Path) -> None:
    lived(tmp_path, lambda start: in_records(start, fill))
    killed(tmp_path, revoke)
    lose_lines(tmp_path, 1, torn=0)
    start = lived(tmp_path, nothing, damage=False)
    assert not start.core.people.tokens
    assert start.store.damage[0].tells("people_lost")


def test_a_master_that_is_killed_in_the_middle_of_a_write_ends_nobodys_access(tmp_path: Path) -> None:
    lived(tmp_path, lambda start: in_records(start, fill))
    killed(tmp_path, revoke)
    with (tmp_path / "queue" / "journal.jsonl").open("ab") as journal:
        journal.write(b"0badc0de 999 998 {")
    start = lived(tmp_path, nothing, damage=False)
    assert "t4" in start.core.people.tokens
    assert "t3" not in start.core.people.tokens
    assert start.store.damage[0].tells("torn_unanswered")


def test_a_mark_that_could_not_be_written_is_written_with_a_later_record(tmp_path: Path) -> None:
    witness = tmp_path / "logs"
    witness.mkdir()

    def story(start: Start) -> None:
        start.store._witness.path = witness / "gone" / "log.queue"
        start.engine.client_change(lambda: start.core.people.add("ann", role="admin"))
        start.engine._take()
        start.store.commit()
        start.store._witness.path = witness / "log.queue"
        start.engine.client_change(lambda: start.core.remember_answer("r", msgspec.Raw(b"1")))
        start.engine._take()
        start.store.commit()
        told = msgspec.json.decode((witness / "log.queue").read_bytes(), type=Told)
        assert msgspec.json.decode(told.pieces["people"])["is_shared"]

    lived(tmp_path, story)


@pytest.mark.parametrize(
    "marks",
    [{"clock": []}, {"clock": {"latest": "x"}}, {"people": 5, "own_account": None}],
    ids=["list", "text", "all"],
)
def test_marks_of_the_witness_that_cannot_be_read_are_none_and_no_start_fails_for_them(
    tmp_path: Path, marks: dict[str, object]
) -> None:
    lived(tmp_path, fill)
    told = json.loads((tmp_path / "log.queue").read_bytes())
    told["pieces"] |= marks
    (tmp_path / "log.queue").write_text(json.dumps(told))
    start = lived(tmp_path, nothing, damage=False)
    assert start.core.people.is_shared
    assert start.core.people.tokens


def test_a_witness_that_another_account_put_there_says_nothing(tmp_path: Path) -> None:
    need_users()
    lived(tmp_path, fill)
    told = json.loads((tmp_path / "log.queue").read_bytes())
    told["pieces"]["clock"] = {"latest": 9e15, "accepted": 99}
    told["seq"] = 10**9
    (tmp_path / "log.queue").write_text(json.dumps(told))
    os.chown(tmp_path / "log.queue", PEOPLE["bob"], PEOPLE["bob"])
    start = lived(tmp_path, nothing, damage=False)
    assert start.core.people.tokens
    assert not start.store.is_older_copy
    (tmp_path / "log.queue").rename(tmp_path / "theirs")
    (tmp_path / "log.queue").symlink_to("theirs")
    assert lived(tmp_path, nothing, damage=False).core.people.tokens
    (tmp_path / "log.queue").unlink()
    os.mkfifo(tmp_path / "log.queue")
    assert lived(tmp_path, nothing, damage=False).core.people.tokens


def test_a_witness_that_denies_people_of_whom_something_tells_denies_nothing() -> None:
    stale = of({})
    known = after_damage({}, stale, people=True)
    assert msgspec.json.decode(known["own_account"])["closed"]
    assert msgspec.json.decode(known["people"])["next_id"] > 1000
    assert after_damage({}, stale, people=False) == {}


MADE_BY_LANDED = """
import sys
from pathlib import Path
from master.core.outcome import Pending
from master.core.people import People, Token
from master.durable.disk import OsDisk
from master.durable.store import Store
store = Store(Path(sys.argv[1]), OsDisk(), witness=Path(sys.argv[2]))
image = store.open()
pending = Pending()
people = People(pending)
people.load(image.state)
def keep():
    store.append(pending.take().change)
    store.commit()
for number in range(6):
    people.add(f"u{number}", role="user" if number else "admin")
    keep()
for number in range(26):
    people.add_token(Token(f"t{number}", people.find(f"u{number % 6}").id, "x" * 64))
    keep()
store.anchor({}, anew=False)
store.close()
"""


def test_a_folder_of_the_landed_version_that_lost_a_block_is_shared(tmp_path: Path) -> None:
    code = landed.unpack("users", tmp_path / "code")
    landed.run(code, "-c", MADE_BY_LANDED, str(tmp_path / "queue"), str(tmp_path / "log.queue"))
    os.sync()
    zero(tmp_path)
    start = lived(tmp_path, nothing)
    assert start.is_apart
    assert start.core.own_account.fence.closed
    assert not start.core.people.tokens
