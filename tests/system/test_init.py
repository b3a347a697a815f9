"""`muster init` beside other labs of the same account: which ports a new one gets, and what is said of it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from client import known_labs
from tests.client.terminal import MUSTER, ROOT, Terminal
from tests.faults import in_words
from tests.old_lab import PORTS, lay_out
from tests.ports import free_ports


class Account:
    """Somebody without a lab, in a folder of his own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.more = {"XDG_CONFIG_HOME": str(folder / "config"), "PYTHONPATH": str(ROOT)}

    def init(self, *words: str, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*MUSTER, "init", *words], cwd=cwd or self.folder, env={**os.environ, **self.more, **more},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def made(self, name: str, *words: str) -> Path:
        """The conf.json of a new lab."""
        done = self.init(name, *words)
        assert done.returncode == 0, done
        return self.folder / name / "conf.json"

    def terminal(self, *words: str, **more: str) -> Terminal:
        return Terminal([*MUSTER, "init", *words], {**self.more, **more}, self.folder)


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return Account(tmp_path)


def said(conf: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(conf.read_text(encoding="utf-8"))
    return told


def ports(conf: Path) -> list[int]:
    info = said(conf)["socket_info"]
    return [info[name] for name in PORTS]


def test_labs_that_are_made_at_the_same_time_get_different_ports(account: Account) -> None:
    running = [
        subprocess.Popen(
            [*MUSTER, "init", f"lab{number}", "--web"], cwd=account.folder, env={**os.environ, **account.more},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )
        for number in range(6)
    ]  # fmt: skip
    told = [process.communicate(timeout=120)[1] for process in running]
    assert [process.returncode for process in running] == [0] * 6, told
    labs = [account.folder / f"lab{number}" / "conf.json" for number in range(6)]
    found = [port for conf in labs for port in (*ports(conf), said(conf)["web"]["port"])]
    assert len(set(found)) == len(found), found
    kept = (account.folder / "config" / "muster" / "labs").read_text(encoding="utf-8").splitlines()
    assert sorted(kept) == sorted(map(str, labs)), "and all of them are remembered"


def test_a_lock_that_another_one_keeps_does_not_hold_a_new_lab_up_for_ever(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_labs, "_WAIT_S", 0.0)
    monkeypatch.setenv("XDG_CONFIG_HOME", account.more["XDG_CONFIG_HOME"])
    with known_labs.alone(), known_labs.alone():
        known_labs.remember(__file__)
    assert known_labs.known() == [__file__]


def test_a_port_that_was_said_for_the_console_is_not_given_twice_and_told_where_it_is_anothers(
    account: Account,
) -> None:
    (usual,) = {ports(account.made("usual"))[0]}
    first = account.made("first", "--web", str(usual + 11))
    assert usual + 11 not in ports(first)
    assert len({said(first)["web"]["port"], *ports(first)}) == 4
    done = account.init("second", "--web", str(usual))
    assert done.returncode == 0, done
    assert f"port {usual} " in done.stderr, done.stderr
    assert "web.port" in done.stderr, done.stderr
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        done = account.init("third", "--web", str(sock.getsockname()[1]))
        assert f"port {sock.getsockname()[1]} " in done.stderr, done.stderr
    own = ports(first)[1]
    done = account.init("first", "--force", "--web", str(own))
    assert (done.returncode, f"--web: {own} is " in done.stderr) == (1, True), done.stderr
    assert said(first)["web"]["port"] == usual + 11, "nothing was written"


def test_what_lies_in_the_way_of_a_new_lab_is_told_and_left_alone(account: Account) -> None:
    (account.folder / "file").write_text("mine")
    (account.folder / "dangling").symlink_to("nowhere")
    for name in ("file", "dangling"):
        done = account.init(name)
        assert done.returncode == 1
        assert done.stderr.startswith(f"error: config: {account.folder / name}: it is there, and no folder"), done
    lab = account.folder / "lab"
    lab.mkdir()
    for name in ("conf.json", "gpu_slaver_info.json"):
        (lab / name).symlink_to("/nowhere")
        done = account.init("lab")
        assert (done.returncode, f"{lab / name} exists already" in done.stderr) == (1, True), done
        assert [path.name for path in lab.iterdir()] == [name]
        (lab / name).unlink()


def test_each_lab_gets_ports_of_its_own_also_while_the_others_are_down(account: Account) -> None:
    labs = [account.made(f"lab{number}", "--web") for number in range(3)]
    found = [port for conf in labs for port in (*ports(conf), said(conf)["web"]["port"])]
    assert len(set(found)) == len(found) == 12


def test_a_port_in_use_is_nobodys(account: Account) -> None:
    first = account.made("first")
    held = ports(first)[2]
    first.unlink()
    with ExitStack() as stack:
        with suppress(OSError):  # then somebody else has it by now
            stack.enter_context(socket.create_server(("0.0.0.0", held)))  # noqa: S104  (a lab may listen everywhere)
        assert held not in ports(account.made("second"))


def test_a_lab_that_is_gone_is_forgotten(account: Account) -> None:
    account.made("first").unlink()
    second = account.made("second")
    assert (account.folder / "config" / "muster" / "labs").read_text().splitlines() == [str(second)]


def test_a_lab_that_is_written_anew_keeps_its_ports(account: Account) -> None:
    conf, own = account.made("lab"), free_ports(3)
    conf.write_text(json.dumps({"socket_info": dict(zip(PORTS, own, strict=True))}))
    with socket.create_server(("127.0.0.1", own[0])):
        account.made("lab", "--force")
    assert ports(conf) == own
    conf.write_text("{")
    account.made("lab", "--force")
    assert len(set(ports(conf))) == 3


def test_a_lab_that_is_taken_over_keeps_its_ports_and_others_get_others(account: Account) -> None:
    new = account.made("new")
    old = lay_out(account.folder / "gpulab", free_ports(3))
    before = {name: int(port) for name, port in said(old / "conf.json")["socket_info"].items() if name in PORTS}
    conf = said(new)
    conf["socket_info"] |= before
    new.write_text(json.dumps(conf))
    done = account.init("--from", str(old), "--yes", "--bind", "127.0.0.1", "--networks", "127.0.0.0/8")
    assert done.returncode == 0, done
    assert ports(old / "conf.json") == [before[name] for name in PORTS]
    assert in_words(done.stderr, "lab_has_port_too")
    new.unlink()
    assert set(ports(account.made("third"))).isdisjoint(before.values())


@pytest.mark.parametrize("what", ["a folder", "a link to nowhere", "no text", "a pipe"])
def test_what_lies_in_the_place_of_the_list_keeps_nobody_from_a_lab(account: Account, what: str) -> None:
    labs = account.folder / "config" / "muster" / "labs"
    labs.parent.mkdir(parents=True)
    match what:
        case "a folder":
            labs.mkdir()
        case "a link to nowhere":
            labs.symlink_to("/nowhere/labs")
        case "a pipe":
            os.mkfifo(labs)
        case _:
            labs.write_bytes(b"\xff\0\n/dev/null\n" * 1000)
    assert len(set(ports(account.made("lab")))) == 3


# -- what it says -----------------------------------------------------------------------------------------------------


def test_it_prints_what_it_made_and_the_next_command(account: Account) -> None:
    done = account.init("my lab", "--web")
    conf = account.folder / "my lab" / "conf.json"
    assert [Path(line).name for line in sorted(done.stdout.splitlines())] == ["conf.json", "gpu_slaver_info.json"]
    made, following = done.stderr.splitlines()
    for port in (*ports(conf), said(conf)["web"]["port"]):
        assert str(port) in made
    assert "node local" in made
    assert following == "next: cd 'my lab' && muster up --detach"
    (account.folder / "here").mkdir()
    alone = Account(account.folder / "here")
    assert "next: muster up --detach" in alone.init().stderr.splitlines()


def test_json_is_all_that_is_said_where_it_is_wanted(account: Account) -> None:
    account.made("first")
    done = account.init("lab", "--json")
    assert json.loads(done.stdout) == {"conf": str(account.folder / "lab" / "conf.json")}
    assert done.stderr == ""


def test_at_a_terminal_it_asks_which_lab_is_meant_where_another_one_is_known(account: Account) -> None:
    first = account.made("first")
    elsewhere = account.folder / "elsewhere" / "conf.json"
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(first.read_bytes())
    known: list[tuple[Path | str, str, dict[str, str]]] = [
        (first, "second", {}),
        (first, "first/inner", {}),
        (elsewhere, "second", {"MUSTER_CONF": str(elsewhere)}),
        ("queue.lab:7", "second", {"MUSTER_MASTER": "queue.lab:7"}),
    ]
    for other, folder, more in known:
        with account.terminal(folder, **more) as terminal:
            assert str(other).encode() in terminal.shows(b"[y/N]")
            terminal.types("\n")
            code, told = terminal.ends()
        assert (code, in_words(told.decode(), "no_lab_made")) == (1, True), told
        assert not (account.folder / folder).exists()
    with account.terminal("second") as terminal:
        terminal.shows(b"[y/N]")
        terminal.types("y\n")
        terminal.shows(b"Enter: none")
        terminal.types("\n")
        code, told = terminal.ends()
    assert (code, (account.folder / "second" / "conf.json").exists()) == (0, True), told


def test_the_end_of_the_terminal_is_no(account: Account) -> None:
    account.made("first")
    with account.terminal("second") as terminal:
        terminal.shows(b"[y/N]")
        terminal.types("\x04")
        code, _ = terminal.ends()
    assert (code, (account.folder / "second").exists()) == (1, False)


def test_without_a_terminal_it_notes_the_other_lab_and_goes_on(account: Account) -> None:
    first = account.made("first")
    done = account.init("second")
    assert (done.returncode, str(first) in done.stderr) == (0, True), done
    assert "next: cd second && muster up --detach" in done.stderr.splitlines()
    done = account.init("third", MUSTER_CONF=str(first))
    third = account.folder / "third" / "conf.json"
    assert f"next: muster up --detach --conf {third}" in done.stderr.splitlines()
    assert "unset MUSTER_CONF" in done.stderr
    with account.terminal("fourth", "--no-admin") as terminal:
        code, told = terminal.ends()
    assert (code, b"[y/N]" in told) == (0, False), told


def test_where_there_is_a_lab_already_nothing_is_asked(account: Account) -> None:
    account.made("first")
    account.made("second")
    with account.terminal("second") as terminal:
        code, told = terminal.ends()
    assert (code, b"exist already" in told) == (1, True), told


def test_a_lab_that_somebody_logged_in_to_is_known(account: Account) -> None:
    logins = account.folder / "config" / "muster" / "logins"
    logins.mkdir(parents=True)
    kept = {"name": "queue.lab:63005", "token": "t", "user": "li", "until": 1.0, "master": "queue.lab:63005"}
    (logins / "queue.lab:63005.json").write_text(json.dumps(kept))
    (logins / "queue.lab:63005.json").chmod(0o600)
    done = account.init("lab")
    assert (done.returncode, "queue.lab:63005" in done.stderr) == (0, True), done
    (logins / "queue.lab:63005.json").write_text("nonsense")
    assert account.init("lab2").returncode == 0
