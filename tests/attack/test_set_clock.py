"""A clock that is set back revives no right that has ended; one that was far ahead leaves a lab that can be used."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from cryptography import x509

from client.api import Client
from client.caller import Caller
from master.core.core import Core
from master.core.people import clock
from master.core.people.clock import RightsTime
from master.core.people.people import LINK_S, SESSION_S, Token
from master.core.tasks.records import merge_pieces
from master.core.tasks.task import Task, TaskState
from master.durable.disk import OsDisk
from master.durable.journal import Journal
from master.durable.store import Permit, Store
from master.engine.engine import Engine
from master.nodes import node_tokens
from master.people.audit import AuditLog, Wanted
from master.tls.certificates import OwnCertificates
from master.verbs.access import by_token
from master.verbs.auth import sha256
from tests.master.core.small_core import EIGHT, core_with, submit
from tests.master.executor import played
from tests.system.test_clock import DAY, JumpingLab, jumping_lab
from tests.waiting import until
from web.certificates import Certificates
from wire.errors import ForbiddenError, UnauthenticatedError

__all__ = ["jumping_lab"]
HOUR = 3600.0
PASSWORD = "gull kettle 七 orchard"  # noqa: S105


# -- a real master, and a real clock ----------------------------------------------------------------------------------


def refused(lab: JumpingLab, token: str) -> bool:
    """Does nobody come in with it?"""
    with Caller(address_of(lab), token) as caller:
        try:
            caller.call("auth.whoami", {})
        except UnauthenticatedError:
            return True
    return False


class Known(dict[str, str]):
    """Tokens, and a link, by what they are."""


def fill(lab: JumpingLab) -> Known:
    """Users, of whom some end in an hour, and what gives access in their names. ann's task waits."""
    end, known = time.time() + HOUR, Known()
    with lab.client() as client:
        people = client.people
        people.add("ann", expires_at=end, password=PASSWORD)
        people.add("bob")
        people.add("cy")
        known["a user who ends"] = people.new_token("ann")["token"]
        known["a token that ends"] = people.new_token("bob", expires_at=end)["token"]
        known["a token that stays"] = people.new_token("bob")["token"]
        known["link"] = client.call("user.link", {"name": "cy"})["link"]
    with Client(address_of(lab), known["a user who ends"]) as ann:
        known["task"] = str(ann.submit("true", hold=False, gpus=8, begin_at=time.time() + 400 * DAY))
    return known


def address_of(lab: JumpingLab) -> Any:
    with lab.client() as client:
        return client.address


def task(lab: JumpingLab, known: Known) -> str:
    """The state of the task of the user who ends."""
    with lab.client() as client:
        return client.show(int(known["task"]))["state"]


def redeemed(lab: JumpingLab, known: Known) -> bool:
    """Does the link let somebody choose a password?"""
    with lab.client() as client:
        try:
            client.call("auth.redeem", {"link": known["link"], "password": PASSWORD})
        except UnauthenticatedError:
            return False
    return True


def logged_in(lab: JumpingLab, name: str) -> str:
    """The user who comes in with this name and a password."""
    with lab.client() as client:
        user: str = client.call("auth.login", {"name": name, "password": PASSWORD})["user"]
    return user


def start_again(lab: JumpingLab, offset: float) -> None:
    """As after a power cut, by a clock that is so far off."""
    lab.kill_master()
    lab.jump(offset)
    lab.start()


def test_a_clock_that_is_set_back_revives_nothing_and_is_accepted_by_the_masters_account_alone(
    jumping_lab: JumpingLab,
) -> None:
    lab = jumping_lab
    lab.start()
    known = fill(lab)
    assert not refused(lab, known["a token that ends"])
    assert task(lab, known) == "waiting"

    lab.jump(4 * DAY)
    until("ann's task is held", lambda: task(lab, known) == "held")
    for way in ("while it runs", "after a power cut"):
        if way == "while it runs":
            lab.jump(0)
        else:
            start_again(lab, 0)
        assert refused(lab, known["a user who ends"]), way
        assert refused(lab, known["a token that ends"]), way
        assert not redeemed(lab, known), way
        assert not refused(lab, known["a token that stays"]), way
        assert task(lab, known) == "held", way
        assert "muster clock accept" in lab.muster("status").stdout, way
    told = json.loads(lab.muster("node", "doctor", "--json").stdout)
    assert any(one["told_message"]["key"] == "clock_behind" for node in told for one in node["findings"])

    with Client(address_of(lab), known["a token that stays"]) as bob, pytest.raises(ForbiddenError):
        bob.call("clock.accept", {})
    accepted = json.loads(lab.muster("clock", "accept", "--json").stdout)
    assert accepted["users"] == ["ann"]
    assert accepted["tasks"] == [int(known["task"])]
    assert accepted["was"] > accepted["now"] + DAY
    for way in ("while it runs", "after a power cut"):
        if way != "while it runs":
            start_again(lab, 0)
        assert task(lab, known) == "waiting", way
        assert refused(lab, known["a user who ends"]), way
        assert refused(lab, known["a token that ends"]), way
        assert not redeemed(lab, known), way
        assert not refused(lab, known["a token that stays"]), way
        assert "clock  " not in lab.muster("status").stdout, way
    assert logged_in(lab, "ann") == "ann"
    lines = (lab.task_info / "audit" / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [one for one in map(json.loads, lines) if one["verb"] == "clock.accept"]
    assert [one["result"] for one in entries] == ["forbidden", "ok"]
    assert " -> " in entries[1]["target"]
    assert "Traceback" not in lab.server_log()


def test_a_clock_that_is_years_ahead_is_told_of_and_leaves_a_lab_that_can_be_used(jumping_lab: JumpingLab) -> None:
    lab = jumping_lab
    lab.start()
    known = fill(lab)
    lab.jump(1500 * DAY)
    until("ann's task is held", lambda: task(lab, known) == "held")
    until("it is told", lambda: "at once" in lab.muster("status").stdout)
    assert "at once" in lab.server_log()
    ahead = time.time() + 1500 * DAY
    with lab.client() as client:
        link = client.call("user.link", {"name": "bob"})
        assert link["until"] > ahead

    start_again(lab, 0)  # with the right time, and nobody has accepted it yet
    with lab.client() as client:
        client.people.add("di", password=PASSWORD)
        known["link"] = client.call("user.link", {"name": "cy"})["link"]
    assert logged_in(lab, "di") == "di"
    assert redeemed(lab, known)
    assert task(lab, known) == "held"
    with lab.client() as client:
        client.accept_clock()
        assert task(lab, known) == "waiting"
        log_ins = [one for one in client.people.tokens(everybody=True) if one["kind"] == "session"]
    assert {one["user"] for one in log_ins} == {"cy", "di"}
    assert all((one["expires_at"] or 0.0) < time.time() + SESSION_S + HOUR for one in log_ins), "they end as others do"
    assert "clock  " not in lab.muster("status").stdout


# -- what is written down, and where it is found again ----------------------------------------------------------------

NOW = 1_800_000_000.0
END = NOW + HOUR


class Start:
    """A start of the master on `folder/queue`: the store and the core. The clock is an argument."""

    def __init__(self, folder: Path, permit: Permit | None = None) -> None:
        self.store = Store(folder / "queue", OsDisk(), permit=permit, witness=folder / "log.queue")
        image = self.store.open()
        self.core = Core((EIGHT,), lambda task, attempt: f"{task}.{attempt}")
        self.core.load(image.tasks, image.answered, image.next_id, image.state)
        self.engine = Engine(self.core, self.store)
        self.engine.executor_of = played(lambda _effects: None)
        self.store.anchor({}, anew=False)

    def comes_in(self, now: float) -> set[str]:
        """Of the users with a token those who come in with it."""
        people = self.core.people
        callers = (by_token(one, "127.0.0.1")(people, now) for one in people.tokens)
        return {caller.user for caller in callers if caller.user is not None}

    def is_enabled(self, name: str, now: float) -> bool:
        """May the user come in, by a password say?"""
        people = self.core.people
        return people.find(name).is_enabled(people.clock.rights(now))


def lived(folder: Path, story: Callable[[Start], None], *, permit: Permit | None = None) -> None:
    """A start, the story, and a power cut as soon as all is written."""

    async def whole() -> None:
        start = Start(folder, permit)
        story(start)
        await start.engine.settled()
        await start.engine.close()

    asyncio.run(whole())


def add(start: Start) -> None:
    """A user who ends, another's token that does, and a link."""
    people = start.core.people
    start.engine.client_change(lambda: people.add("ann", expires_at=END))
    start.engine.client_change(lambda: people.add("bob"))
    start.engine.client_change(lambda: people.add("cy", link="x", link_until=END))
    start.engine.client_change(lambda: people.add_token(Token("t1", people.find("ann").id, "x")))
    start.engine.client_change(lambda: people.add_token(Token("t2", people.find("bob").id, "x", expires_at=END)))
    start.engine.end_rights(NOW)
    assert start.comes_in(NOW) == {"ann", "bob"}


def end(start: Start) -> None:
    """It is after the end of all."""
    start.engine.end_rights(END + 1.0)


def all_ended(start: Start) -> None:
    """The clock was set back, and nothing is there again."""
    assert start.comes_in(NOW) == set()
    assert not start.is_enabled("ann", NOW)
    assert not start.core.people.find("cy").link


def no_token_opens(start: Start) -> None:
    assert start.comes_in(NOW) == set()


def compact(start: Start) -> None:
    """Take the journal into the queue files."""
    for work in start.store.compact(start.core.tasks, start.core.answered, next_id=start.core.next_id):
        if work is not None:
            work()


def test_what_has_ended_stays_so_after_a_restart_and_a_compaction(tmp_path: Path) -> None:
    lived(tmp_path, add)
    lived(tmp_path, end)
    lived(tmp_path, all_ended)
    lived(tmp_path, compact)
    (tmp_path / "log.queue").unlink()
    lived(tmp_path, all_ended)


def test_a_user_who_has_ended_does_not_come_back_with_a_backup_or_a_lost_journal(tmp_path: Path) -> None:
    def is_out(start: Start) -> None:
        assert not start.is_enabled("ann", NOW)

    lived(tmp_path, add)
    lived(tmp_path, compact)
    shutil.copytree(tmp_path / "queue", tmp_path / "backup")
    lived(tmp_path, end)
    shutil.rmtree(tmp_path / "queue")
    shutil.copytree(tmp_path / "backup", tmp_path / "queue")
    lived(tmp_path, is_out)
    (tmp_path / "queue" / "journal.jsonl").write_bytes(bytes(4096))
    lived(tmp_path, is_out, permit=Permit(damage=True))


def test_a_clock_that_was_accepted_stays_so_whatever_older_copies_say(tmp_path: Path) -> None:
    def accept(start: Start) -> None:
        accepted = start.engine.client_change(lambda: start.core.accept_clock(NOW))
        assert accepted.users == ["ann"]

    def is_in(start: Start) -> None:
        assert start.is_enabled("ann", NOW)

    lived(tmp_path, add)
    lived(tmp_path, end)
    for name in ("queue", "log.queue"):
        copy = shutil.copytree if name == "queue" else shutil.copy
        copy(tmp_path / name, tmp_path / f"{name}.ahead")
    lived(tmp_path, accept)
    lived(tmp_path, no_token_opens)
    shutil.copy(tmp_path / "log.queue.ahead", tmp_path / "log.queue")
    lived(tmp_path, is_in)
    lived(tmp_path, is_in)
    shutil.rmtree(tmp_path / "queue")
    shutil.copytree(tmp_path / "queue.ahead", tmp_path / "queue")
    lived(tmp_path, is_in)


def test_a_power_cut_while_a_clock_is_accepted_revives_no_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The witness hears of it behind the journal, which has the end of the tokens."""
    found: list[int] = []
    real = Journal.commit

    def witnessed() -> int:
        pieces = json.loads((tmp_path / "log.queue").read_text("utf-8"))["pieces"]
        return int(pieces["clock"].get("accepted", 0))

    def commit(journal: Journal) -> None:
        found.append(witnessed())
        real(journal)

    def accept(start: Start) -> None:
        monkeypatch.setattr(Journal, "commit", commit)
        start.engine.client_change(lambda: start.core.accept_clock(NOW))

    lived(tmp_path, add)
    lived(tmp_path, end)
    lived(tmp_path, accept)
    assert found[0] == 0
    assert witnessed() == 1


def test_a_submit_writes_no_time_and_syncs_no_more_than_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[str] = []
    found: list[str] = []
    monkeypatch.setattr(OsDisk, "sync", counted(OsDisk.sync, syncs, "sync"))
    monkeypatch.setattr(OsDisk, "sync_folder", counted(OsDisk.sync_folder, syncs, "folder"))

    async def story() -> None:
        start = Start(tmp_path)
        add(start)
        await start.engine.settled()
        syncs.clear()
        for number in range(3):
            start.engine.client_change(partial(start.core.submit, [Task(id=0, command="true")], NOW + number * HOUR))
            await start.engine.settled()
        found.extend(syncs)
        await start.engine.close()

    asyncio.run(story())
    assert found == ["sync"] * 3


def counted(real: Callable[..., Any], calls: list[str], name: str) -> Callable[..., Any]:
    def call(*words: Any, **keys: Any) -> Any:
        calls.append(name)
        return real(*words, **keys)

    return call


# -- what the core makes of it ----------------------------------------------------------------------------------------


def pieces_of(core: Core) -> dict[str, msgspec.Raw]:
    """What was changed of the state, and nobody has taken yet."""
    outcome = core.take_outcome()
    return {} if outcome is None else outcome.change.state


def test_the_end_of_a_user_is_written_with_what_it_does_to_tasks() -> None:
    core = core_with()
    core.people.add("ann", expires_at=END)
    waiting = submit(core, owner="ann", begin_at=2 * NOW)
    core.end_rights(NOW)
    core.plan(NOW)
    pieces_of(core)
    core.plan(END)
    change = core.take_outcome()
    assert change is not None
    assert waiting.state is TaskState.HELD
    assert msgspec.json.decode(change.change.state[clock.PIECE])["latest"] == END
    core.plan(NOW)
    assert waiting.state is TaskState.HELD
    core.accept_clock(NOW)
    assert waiting.state is TaskState.WAITING
    core.plan(NOW)
    assert waiting.state is TaskState.WAITING


def test_log_ins_and_links_that_a_wrong_clock_made_last_no_longer_than_others() -> None:
    core = core_with()
    ahead = NOW + 1500 * DAY
    core.end_rights(NOW)
    core.end_rights(ahead)
    user = core.people.add("ann", link=sha256("x"), link_until=ahead + LINK_S)
    core.people.add_token(Token("t1", user.id, "x", "session", at=ahead, expires_at=ahead + SESSION_S))
    core.people.add_token(Token("t2", user.id, "x", "session", at=ahead, seen_at=ahead, idle_s=12 * HOUR))
    core.people.add_token(Token("t3", user.id, "x", at=ahead, expires_at=ahead + 1.0))
    core.accept_clock(NOW)
    ends = {token.id: token.ends_at for token in core.people.tokens.values()}
    assert ends == {"t1": NOW + SESSION_S, "t2": NOW + 12 * HOUR, "t3": ahead + 1.0}
    assert core.people.find("ann").link_until == NOW + LINK_S


def test_a_nodes_token_that_was_replaced_does_not_open_again() -> None:
    core = core_with()
    core.end_rights(NOW)
    first, one = node_tokens.make("ann", NOW)
    second, two = node_tokens.make("ann", NOW)
    core.set_tokens("a", node_tokens.rotated([one], two, RightsTime(NOW)))

    def opening() -> list[str]:
        found = [node_tokens.find(core.notes["a"].tokens, text, core.clock.rights(NOW)) for text in (first, second)]
        return [token.id for token in found if token is not None]

    assert opening() == [one.id, two.id]
    core.end_rights(NOW + node_tokens.GRACE_S)
    assert opening() == [two.id]
    core.set_tokens("a", node_tokens.rotated([one], two, RightsTime(NOW + 1500 * DAY)))
    core.accept_clock(NOW)
    assert opening() == [two.id]


@pytest.mark.parametrize("behind", [HOUR - 1.0, HOUR + 1.0])
def test_a_clock_is_told_of_when_it_is_more_than_an_hour_behind(behind: float) -> None:
    core = core_with()
    core.end_rights(NOW)
    assert [one.key for one in core.clock.troubles(NOW - behind)] == (["clock_behind"] if behind > HOUR else [])


def test_a_leap_is_told_of_until_it_is_accepted_if_rights_ended_with_it() -> None:
    core = core_with()
    state: dict[str, msgspec.Raw] = {}
    core.end_rights(NOW)
    core.end_rights(NOW + 2 * HOUR)
    assert core.clock.troubles(NOW + 2 * HOUR) == [], "nothing ended"
    core.people.add("ann", expires_at=NOW + 3 * HOUR)
    core.people.add_token(Token("t1", core.people.add("bob").id, "x", expires_at=NOW + 4 * HOUR))
    core.end_rights(NOW + 3 * HOUR)
    assert core.clock.troubles(NOW + 3 * HOUR) == [], "as they go by"
    leap = core.end_rights(NOW + 9 * HOUR)
    assert leap is not None
    assert (leap.since, leap.until, leap.tokens, leap.users) == (NOW + 3 * HOUR, NOW + 9 * HOUR, 1, 0)
    merge_pieces(state, pieces_of(core))
    again = core_with()
    again.load({}, {}, 1, state)
    assert [one.key for one in again.clock.troubles(NOW + 9 * HOUR)] == ["clock_leapt"]
    again.accept_clock(NOW + 9 * HOUR)
    assert again.clock.troubles(NOW + 9 * HOUR) == []


def test_tokens_that_went_out_of_use_over_night_are_no_leap() -> None:
    """A lab's machine may be off at night."""
    core = core_with()
    core.people.add_token(Token("t1", core.people.add("bob").id, "x", "session", at=NOW, seen_at=NOW, idle_s=12 * HOUR))
    core.end_rights(NOW)
    state: dict[str, msgspec.Raw] = {}
    core.clock.note_if_due()
    merge_pieces(state, pieces_of(core))
    again = core_with()
    again.load({}, {}, 1, state)
    assert again.end_rights(NOW + 14 * HOUR) is None
    assert again.people.tokens == {}


def test_a_clock_that_was_set_back_for_a_day_hides_no_line_of_the_audit_log(tmp_path: Path) -> None:
    now = NOW

    async def story() -> list[str]:
        audit = AuditLog(tmp_path / "audit", lambda: now)
        for verb, at in (("before", NOW), ("while it was wrong", NOW - 1500 * DAY), ("after", NOW + HOUR)):
            set_to(at)
            audit.record("ann", "127.0.0.1", "owner", verb, "x")
        found = await audit.read(Wanted(since=NOW - HOUR), 100)
        audit.close()
        return [entry.verb for entry in found.entries]

    def set_to(at: float) -> None:
        nonlocal now
        now = at

    assert asyncio.run(story()) == ["after", "before"]


# -- certificates that were made meanwhile ----------------------------------------------------------------------------

RIGHT = datetime(2026, 11, 28, tzinfo=UTC)
AHEAD = RIGHT + timedelta(days=1500)


def holds(path: Path, at: datetime) -> bool:
    """Does the first certificate in the file hold at this time?"""
    shown = x509.load_pem_x509_certificates(path.read_bytes())[0]
    return shown.not_valid_before_utc <= at < shown.not_valid_after_utc


def test_a_certificate_of_a_clock_that_was_ahead_is_made_anew(tmp_path: Path) -> None:
    own = OwnCertificates(tmp_path / "tls", ["queue"])
    own.ensure(RIGHT)
    authority = own.authority.read_bytes()
    own.ensure(AHEAD)
    assert not holds(own.shown, RIGHT)
    own.ensure(RIGHT)
    assert holds(own.shown, RIGHT)
    assert own.authority.read_bytes() == authority, "which people have pinned"


def test_so_is_that_of_the_console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = SimpleNamespace(tls="own", names=[])
    settings = SimpleNamespace(web=web, conf=tmp_path / "conf.json", folder=tmp_path / "web", hosts=["queue.lab"])
    console = Certificates(settings)  # type: ignore[arg-type]  # what it reads of them
    assert console.root is not None
    found = []
    for at in (RIGHT, AHEAD, RIGHT):
        monkeypatch.setattr("web.certificates.datetime", SimpleNamespace(now=lambda _zone, at=at: at))
        console.context()
        found.append((holds(tmp_path / "web" / "server.pem", at), console.root.read_bytes()))
    assert [is_good for is_good, _ in found] == [True] * 3
    assert len({root for _, root in found}) == 1, "people have installed it"
