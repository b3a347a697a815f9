"""`muster users`, `groups` and `tokens` at a real master: what is typed, what is printed, what becomes of it."""

from __future__ import annotations

import csv
import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.api import connect
from client.text.columns import width
from master.people.passwords import LEAST_CHARACTERS
from tests.faults import in_words
from tests.system.lab import Lab
from tests.system.pc import Pc
from tests.waiting import until
from wire.errors import UnauthenticatedError
from wire.message import Message

PASSWORD = "gull kettle 七 orchard"  # noqa: S105
OTHER = "seven slow lanterns hum"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A master on this machine."""
    made = Lab(tmp_path_factory.mktemp("people") / "lab", nodes=1)
    made.start()
    yield made
    assert made.close() == []


@pytest.fixture
def pc(tmp_path: Path) -> Pc:
    """A home on the master's machine."""
    return Pc(tmp_path / "pc")


@pytest.fixture
def admin(lab: Lab, pc: Pc) -> Pc:
    """The same, where the master's own user types."""
    (pc.home / "work" / "conf.json").symlink_to(lab.conf)
    return pc


def here(lab: Lab) -> str:
    return f"127.0.0.1:{lab.keys['socket_info']['data_port']}"


def test_a_user_is_added_changed_kept_out_and_removed(admin: Pc) -> None:
    added = admin.muster("users", "add", "wang", "--display", "王伟", "--expires", "2099-07-31", "--json")
    assert added.returncode == 0, added.stderr
    user = json.loads(added.stdout)
    assert (user["display"], user["role"], user["has_password"]) == ("王伟", "user", False)
    narrow = admin.muster("users", "list", COLUMNS="60").stdout
    assert "王伟" in narrow
    assert all(width(line) <= 60 for line in narrow.splitlines())
    assert admin.muster("users", "edit", "wang", "role=admin", "display=", "expires=never").returncode == 0
    [found] = [one for one in json.loads(admin.muster("users", "list", "--json").stdout) if one["name"] == "wang"]
    assert (found["role"], found["display"], found["expires_at"]) == ("admin", "", None)
    listed = admin.muster("users", "list").stdout
    assert "wang" in listed
    assert admin.muster("users", "disable", "wang", "nobody").returncode == 1
    assert "disabled by" in admin.muster("users", "list").stdout
    assert admin.muster("users", "enable", "wang").returncode == 0
    asked = admin.muster("users", "rm", "wang")
    nobody = Message("nobody_to_ask", question="Remove the user wang?")
    assert (asked.returncode, str(nobody) in asked.stderr) == (1, True)
    assert json.loads(admin.muster("users", "rm", "wang", "--yes", "--json").stdout) == [{"name": "wang"}]
    wrong = admin.muster("users", "edit", "wang", "password=x")
    assert (wrong.returncode, "keys are role" in wrong.stderr) == (2, True)


def test_tasks_from_before_there_were_users_are_claimed_for_one(tmp_path: Path) -> None:
    lab, pc = Lab(tmp_path / "lab", nodes=1), Pc(tmp_path / "pc")
    lab.start()
    try:
        conf = ("--conf", str(lab.conf))
        with lab.client() as owner:
            tasks = [owner.submit(["true"], hold=True) for _ in range(2)]
            me = owner.people.whoami()["user"]
        assert me is not None
        assert pc.muster("users", "add", "wang", *conf).returncode == 0
        done = pc.muster("users", "claim", me, "wang", *conf)
        assert (done.returncode, done.stdout) == (0, f"2 tasks of {me}: wang's from now on\n"), done.stderr
        found = json.loads(pc.muster("queue", "--user", "wang", "--json", *conf).stdout)
        assert [task["id"] for task in found] == tasks
    finally:
        assert lab.close() == []


def test_a_file_of_users_is_added_whole_with_a_link_for_each(lab: Lab, admin: Pc, tmp_path: Path) -> None:
    assert admin.muster("groups", "add", "nlp", "vision").returncode == 0
    people = tmp_path / "people.csv"
    head = "name,display,mail,role,groups,expires"
    rows = ['li,"李, 娜",li@lab.example,viewer,nlp vision,2099-01-01', "", 'zhao,"=HYPERLINK(""x"")",,,nlp,']
    people.write_text("\ufeff" + "\r\n".join([head, *rows]), encoding="utf-8")
    links = admin.home / "links.csv"
    done = admin.muster("users", "add", "--from", str(people), "--links-to", str(links))
    assert (done.returncode, stat.S_IMODE(links.stat().st_mode)) == (0, 0o600), done.stderr
    with links.open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert [(row["name"], row["display"], row["mail"]) for row in table] == [
        ("li", "李, 娜", "li@lab.example"), ("zhao", '\'=HYPERLINK("x")', ""),
    ]  # fmt: skip
    groups = {one["name"]: one["members"] for one in json.loads(admin.muster("groups", "list", "--json").stdout)}
    assert (groups["nlp"], groups["vision"]) == (["li", "zhao"], ["li"])
    again = admin.muster("users", "add", "new", "--links-to", str(links))
    there = Message("links_file_exists", path=str(links))
    assert (again.returncode, str(there) in again.stderr) == (1, True)
    assert "new" not in admin.muster("users", "list").stdout.split()

    words = table[0]["command"].split()
    assert words[:2] == ["muster", "login"]
    with admin.terminal("login", here(lab), *words[3:5]) as terminal:
        for question in (b"New password", b"once more"):
            terminal.shows(question)
            terminal.types(f"{OTHER}\n")
        code, said = terminal.ends()
        assert (code, b"as li (viewer)" in said) == (0, True), said


def test_of_a_file_with_mistakes_nobody_is_added_and_each_is_told_with_its_place(admin: Pc, tmp_path: Path) -> None:
    assert admin.muster("users", "add", "sun").returncode == 0
    before = admin.muster("users", "list", "--json").stdout
    people = tmp_path / "people.csv"
    people.write_text(
        "name,role,groups,expires\nqian,,,\nSun,,,\nsun,,,\nqian,boss,nowhere,soon\nzhou,user\n", encoding="utf-8"
    )
    done = admin.muster("users", "add", "--from", str(people))
    assert done.returncode == 1
    for told in (
        "line 3, name: 'Sun'", f"line 4, name: {Message('user_exists', name='sun')}",
        "line 5, name: qian stands in line 2",
        "line 5, role: 'boss'", f"line 5, groups: {Message('group_to_add', name='nowhere')}", "line 5, expires: 'soon'",
        "line 6: 4 cells",
    ):  # fmt: skip
        assert told in done.stderr
    people.write_bytes("name,display\nqian,王伟".encode("gbk"))
    assert str(Message("csv_not_utf8", line=2)) in admin.muster("users", "add", "--from", str(people)).stderr
    people.write_text("name;colour\nqian;red\n")
    assert in_words(admin.muster("users", "add", "--from", str(people)).stderr, "no_column", name="colour")
    assert admin.muster("users", "list", "--json").stdout == before


def test_passwords_are_set_from_a_file_and_at_the_terminal_and_the_old_one_is_asked_for(lab: Lab, admin: Pc) -> None:
    assert admin.muster("users", "add", "gao", "--password-file", "-", said=f"{PASSWORD}\n").returncode == 0
    no_terminal = admin.muster("users", "passwd", "gao")
    assert (no_terminal.returncode, str(Message("password_needs_terminal")) in no_terminal.stderr) == (1, True)
    short = admin.muster("users", "passwd", "gao", "--password-file", "-", said="short\n").stderr
    assert str(Message("password_too_short", least=LEAST_CHARACTERS)) in short
    admin.log_in("gao", PASSWORD, here(lab))
    with admin.terminal("users", "passwd") as terminal:
        for question, answer in ((b"Old password", PASSWORD), (b"New password for gao", OTHER), (b"once more", OTHER)):
            terminal.shows(question)
            until("nothing is shown that is typed", lambda: not terminal.echoes)
            terminal.types(f"{answer}\n")
        code, said = terminal.ends()
        assert (code, b"the password is set" in said, OTHER.encode() in said) == (0, True, False), said
    assert json.loads(admin.muster("whoami", "--json").stdout)["user"] == "gao", "this log-in goes on"
    assert admin.muster("logout").returncode == 0
    admin.log_in("gao", OTHER, here(lab))
    assert admin.muster("logout").returncode == 0
    assert admin.muster("users", "passwd", "gao", "--remove").returncode == 0
    [gao] = [one for one in json.loads(admin.muster("users", "list", "--json").stdout) if one["name"] == "gao"]
    assert not gao["has_password"]


def test_a_link_is_one_line_to_be_typed(lab: Lab, admin: Pc) -> None:
    assert admin.muster("users", "add", "mei").returncode == 0
    link = json.loads(admin.muster("users", "link", "mei", "--json").stdout)
    assert {"name", "link", "until", "command", "url"} == link.keys()
    assert link["url"] is None, "there is no console"
    words = link["command"].split()
    assert words[:3] == ["muster", "login", here(lab)], "no name of this machine leads to a master on loopback alone"
    done = admin.muster("users", "link", "mei")
    added = admin.muster("users", "add", "hua", "--links")
    for told in (done, added):
        assert str(Message("this_machine_only")) in told.stderr, "the line is of no use on another one"
    assert (len(done.stdout.splitlines()), " --link " in done.stdout, link["link"] in done.stdout) == (1, True, False)


def test_groups_are_filled_and_emptied(admin: Pc) -> None:
    for words in (("users", "add", "ann"), ("users", "add", "bo"), ("groups", "add", "robots")):
        assert admin.muster(*words).returncode == 0
    done = admin.muster("groups", "edit", "robots", "--add", "ann,bo", "--add-mentor", "bo")
    assert (done.returncode, "members ann, bo; mentors bo" in done.stdout) == (0, True)
    changed = admin.muster("groups", "edit", "robots", "--remove", "bo", "--remove-mentor", "bo", "--json")
    assert json.loads(changed.stdout)["members"] == ["ann"]
    listed = [line.split() for line in admin.muster("groups", "list").stdout.splitlines()]
    assert ["robots", "ann", "-"] in [line[:3] for line in listed]
    assert admin.muster("groups", "edit", "robots").returncode == 2
    assert admin.muster("groups", "rm", "robots", "--yes").returncode == 0


def test_a_token_is_printed_alone_works_and_is_revoked(lab: Lab, admin: Pc) -> None:
    assert admin.muster("users", "add", "bot").returncode == 0
    made = admin.muster("tokens", "new", "--user", "bot", "--scopes", "read", "--expires", "90d", "--label", "夜间")
    token = made.stdout.strip()
    assert (made.stdout, token.startswith("mst_")) == (f"{token}\n", True)
    refused = admin.muster("submit", "--", "true", MUSTER_TOKEN=token)
    assert (refused.returncode, refused.stderr.startswith("error: forbidden: ")) == (1, True)
    told = json.loads(admin.muster("tokens", "new", "--user", "bot", "--json").stdout)
    assert {"id", "token", "user", "scopes", "expires_at"} == told.keys()
    listed = admin.muster("tokens", "list", "--user", "bot", COLUMNS="60").stdout
    assert ("夜间" in listed, token.split("_", 2)[2] in listed) == (True, False)
    assert all(width(line) <= 60 for line in listed.splitlines())
    assert admin.muster("tokens", "revoke", told["id"]).returncode == 0
    assert admin.muster("tokens", "revoke", "--all", "--user", "bot").returncode == 0
    with pytest.raises(UnauthenticatedError):
        connect(conf=str(lab.conf), token=token)
    assert admin.muster("tokens", "new", "--scopes", "all").returncode == 2
    assert admin.muster("tokens", "revoke").returncode == 2


def test_who_revokes_all_of_his_own_is_logged_out_here_too(lab: Lab, admin: Pc) -> None:
    assert admin.muster("users", "add", "yi", "--password-file", "-", said=f"{PASSWORD}\n").returncode == 0
    admin.log_in("yi", PASSWORD, here(lab))
    done = admin.muster("tokens", "revoke", "--all")
    assert (done.returncode, "muster login" in done.stderr, admin.logins) == (0, True, []), done.stderr


def test_status_and_top_tell_who_one_is(lab: Lab, admin: Pc) -> None:
    assert admin.muster("users", "add", "kai", "--password-file", "-", said=f"{PASSWORD}\n").returncode == 0
    admin.log_in("kai", PASSWORD, here(lab))
    assert "you      kai" in admin.muster("status").stdout
    assert "kai at 127.0.0.1" in admin.muster("top", "--once", COLUMNS="120").stdout
    with admin.terminal("top") as terminal:
        terminal.shows(b"kai")
        terminal.types("q")
        terminal.ends()
