"""`muster init` for a lab of several people: its first admin comes in at the first start, with a password or a link."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.client.terminal import MUSTER, ROOT, Terminal
from tests.system.lab import Lab
from tests.system.pc import Pc

PASSWORD = "gull kettle 七 orchard"  # noqa: S105


class Place:
    """A folder that is to become a lab, and somebody's PC."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "lab"
        self.own = folder / "config"
        self.pc = Pc(folder / "pc")
        self.lab: Lab | None = None

    def init(self, *words: str, said: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*MUSTER, "init", str(self.folder), *words], cwd=ROOT, input=said, capture_output=True, text=True,
            timeout=60, check=False, env={**os.environ, "XDG_CONFIG_HOME": str(self.own)},
        )  # fmt: skip

    def terminal(self, *words: str) -> Terminal:
        return Terminal([*MUSTER, "init", str(self.folder), *words], {"XDG_CONFIG_HOME": str(self.own)})

    def start(self) -> tuple[str, ...]:
        """Start its master, on ports that are free here; what says where it is."""
        self.lab = Lab(self.folder, nodes=0)
        self.lab.start()
        return ("--conf", str(self.lab.conf))

    def said(self) -> dict[str, Any]:
        """What conf.json says."""
        told: dict[str, Any] = json.loads((self.folder / "conf.json").read_text(encoding="utf-8"))
        return told

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir()) if self.folder.exists() else []


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    if made.lab is not None:
        assert made.lab.close() == []


WRITTEN = ["conf.json", "gpu_slaver_info.json"]


def test_at_a_terminal_a_name_and_a_password_are_asked_for_and_he_logs_in_with_them(place: Place) -> None:
    with place.terminal() as terminal:
        terminal.shows(b"Name of a first admin")
        terminal.types("wang\n")
        terminal.shows(b"Password for wang")
        terminal.types(f"{PASSWORD}\n")
        terminal.shows(b"once more")
        terminal.types(f"{PASSWORD}\n")
        terminal.shows(b"A console for browsers, on port 8443")
        terminal.types("y\n")
        code, said = terminal.ends()
    assert (code, PASSWORD.encode() in said) == (0, False), said
    assert place.said()["web"] == {"port": 8443}
    conf = place.start()
    place.pc.log_in("wang", PASSWORD, *conf)
    who = json.loads(place.pc.muster("whoami", "--json", *conf).stdout)
    assert (who["user"], who["role"], who["via"]) == ("wang", "admin", "session")
    assert place.lab is not None
    listed = json.loads(place.lab.muster("users", "list", "--json").stdout)
    assert [(user["name"], user["role"], user["is_owner_only"]) for user in listed] == [("wang", "admin", False)]
    [entry] = [one for one in json.loads(place.lab.muster("audit", "--json").stdout) if one["from"] == "offline"]
    assert (entry["verb"], entry["target"]) == ("user.add", "wang")


def test_a_script_gets_a_link_for_him_which_works_once(place: Place) -> None:
    done = place.init("--admin", "wang", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["conf"], told["admin"]) == (str(place.folder / "conf.json"), "wang")
    assert not [
        path for path in place.folder.rglob("*") if path.is_file() and told["link"].encode() in path.read_bytes()
    ]
    conf = place.start()
    with place.pc.terminal("login", *conf, "--link", told["link"]) as terminal:
        terminal.shows(b"New password")
        terminal.types(f"{PASSWORD}\n")
        terminal.shows(b"once more")
        terminal.types(f"{PASSWORD}\n")
        code, said = terminal.ends()
    assert code == 0, said
    assert json.loads(place.pc.muster("whoami", "--json", *conf).stdout)["role"] == "admin"


def test_a_script_brings_a_password_or_is_told_what_to_type(place: Place) -> None:
    done = place.init("--admin", "wang", "--password-file", "-", said=f"{PASSWORD}\n")
    assert done.returncode == 0, done.stderr
    assert re.search(r"`muster login 127\.0\.0\.1(:\d+)?` with that password", done.stdout), done.stdout
    place.pc.log_in("wang", PASSWORD, *place.start())


@pytest.mark.parametrize(
    ("words", "web"),
    [((), None), (("--web",), {"port": 8443}), (("--web", "9000"), {"port": 9000}), (("--admin", "li"), None)],
)
def test_a_console_is_written_where_it_is_asked_for(
    place: Place, words: tuple[str, ...], web: dict[str, int] | None
) -> None:
    done = place.init(*words)
    assert done.returncode == 0, done.stderr
    assert place.said().get("web") == web


def test_a_console_is_not_written_where_the_answer_is_no(place: Place) -> None:
    with place.terminal() as terminal:
        terminal.shows(b"Name of a first admin")
        terminal.types("wang\n")
        terminal.shows(b"Password for wang")
        terminal.types("\n")
        terminal.shows(b"A console for browsers")
        terminal.types("\n")
        code, said = terminal.ends()
    assert (code, b"muster login" in said) == (0, True), said
    assert "web" not in place.said()


def test_the_lines_to_type_name_where_the_master_will_listen(place: Place, tmp_path: Path) -> None:
    done = place.init("--admin", "wang", "--web")
    info = place.said()["socket_info"]
    at = "127.0.0.1" if info["data_port"] == 63005 else f"127.0.0.1:{info['data_port']}"
    link = done.stdout.partition("--link ")[2].split()[0]
    assert f"  muster login {at} --link {link}\n" in done.stdout, done.stdout
    assert f"  https://127.0.0.1:{place.said()['web']['port']}/#link={link} " in done.stdout, done.stdout
    assert "listens on this machine only" in done.stderr, "other machines do not reach it"
    place.folder = tmp_path / "second"
    done = place.init("--admin", "wang")
    port = place.said()["socket_info"]["data_port"]
    assert port != info["data_port"]
    assert f"  muster login 127.0.0.1:{port} --link " in done.stdout, "a port that is not the usual one is said"
    place.folder = tmp_path / "third"
    done = place.init("--admin", "wang", "--password-file", "-", said=f"{PASSWORD}\n")
    assert f"`muster login 127.0.0.1:{place.said()['socket_info']['data_port']}`" in done.stdout, done.stdout


def test_without_a_terminal_nothing_is_asked_and_the_queue_is_its_owners(place: Place) -> None:
    done = place.init()
    assert (done.returncode, place.files) == (0, WRITTEN), done.stderr
    assert [Path(line).name for line in sorted(done.stdout.splitlines())] == WRITTEN


@pytest.mark.parametrize("words", [(), ("--no-admin",), ("--yes",), ("-y",)])
def test_at_a_terminal_enter_is_no_answer_too_and_no_admin_and_yes_ask_nothing(
    place: Place, words: tuple[str, ...]
) -> None:
    with place.terminal(*words) as terminal:
        if not words:
            terminal.shows(b"Enter: none")
            terminal.types("\n")
        code, said = terminal.ends()
    assert (code, place.files) == (0, WRITTEN), said
    assert words == () or b"Name of a first admin" not in said


def test_with_yes_an_admin_gets_a_link_and_nothing_else_is_asked(place: Place) -> None:
    with place.terminal("--admin", "wang", "--yes") as terminal:
        code, said = terminal.ends()
    assert (code, b" --link " in said, place.said().get("web")) == (0, True, None), said


@pytest.mark.parametrize(
    ("words", "said", "told"),
    [
        (("--admin", "Wang!"), "", "cannot be a name"),
        (("--admin", "wang", "--password-file", "-"), "short\n", "at least 10 characters"),
        (("--admin", "wang", "--no-admin"), "", "not allowed with"),
        (("--password-file", "-"), "", "goes with --admin"),
        (("--web", "70000"), "", "a port from 1 to 65535"),
        (("--from", "x", "--web"), "", "for a new queue"),
        (("--from", "x", "--admin", "wang"), "", "for a new queue"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_written(
    place: Place, words: tuple[str, ...], said: str, told: str
) -> None:
    done = place.init(*words, said=said) if "--from" not in words else _without_dir(words)
    assert (done.returncode in (1, 2), told in done.stderr) == (True, True), done.stderr
    assert place.files == []


def _without_dir(words: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*MUSTER, "init", *words], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_a_queue_that_is_there_gets_none_in_this_way(place: Place) -> None:
    assert place.init("--admin", "wang").returncode == 0
    before = (place.folder / "task_info" / "journal.jsonl").read_bytes()
    for words in (("--admin", "li"), ("--admin", "li", "--force")):
        done = place.init(*words)
        assert (done.returncode, "`muster users add li --admin` adds an admin" in done.stderr) == (1, True), done.stderr
    with place.terminal("--force") as terminal:
        code, said = terminal.ends()
    assert (code, b"first admin" in said) == (0, False)
    assert (place.folder / "task_info" / "journal.jsonl").read_bytes() == before
