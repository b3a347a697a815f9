"""Coming in from a PC: `muster login` on another machine and on the master's own, what is kept of it, what a token may
not do, and the way out again."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.api import connect
from client.live.state import FEEDS
from tests.ports import free_ports
from tests.system.lab import ROOT, Lab
from tests.system.pc import Pc
from tests.testbed.bed import Testbed
from tests.waiting import until
from wire.errors import ForbiddenError, UnauthenticatedError
from wire.message import Message

PASSWORD = "gull kettle 七 orchard"  # noqa: S105
OTHER = "seven slow lanterns hum"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A master on this machine, with an admin and a user."""
    made = Lab(tmp_path_factory.mktemp("people") / "lab", nodes=1)
    made.start()
    with made.client() as owner:
        owner.people.add("ann", display="安", password=PASSWORD)
        owner.people.add("root2", role="admin", password=PASSWORD)
    yield made
    assert made.close() == []


@pytest.fixture
def pc(tmp_path: Path) -> Pc:
    """A home on the master's machine."""
    return Pc(tmp_path / "pc")


def here(lab: Lab) -> str:
    return f"127.0.0.1:{lab.keys['socket_info']['data_port']}"


@pytest.fixture
def bed() -> Iterator[Testbed]:
    with Testbed(1) as bed:
        yield bed


@pytest.fixture
def far(tmp_path: Path, bed: Testbed) -> Iterator[Lab]:
    """A master that other machines reach, over TLS."""
    made = Lab(tmp_path / "far", nodes=1)
    made.write_conf(bind=bed.master_address)
    made.start()
    with made.client() as owner:
        owner.people.add("ann", display="安", password=PASSWORD)
    yield made
    assert made.close() == []


def test_somebody_comes_in_from_his_pc_and_every_command_finds_the_master_from_then_on(
    far: Lab, bed: Testbed, tmp_path: Path
) -> None:
    pc = Pc(tmp_path / "pc", bed.hosts[0])
    assert str(Message("no_master_named")) in pc.muster("queue").stderr
    where = f"{bed.master_address}:{far.keys['socket_info']['data_port']}"
    with pc.terminal("login", where) as terminal:
        asked = terminal.shows(b"[y/N]").decode()
        with far.client() as owner:
            assert owner.info()["tls"]["authority"] in asked.replace("\r\n", "\n")
        terminal.types("y\n")
        terminal.shows(b"User [")
        terminal.types("ann\n")
        terminal.shows(b"Password of ann")
        until("nothing is shown that is typed", lambda: not terminal.echoes)
        terminal.types(f"{OTHER}\n")
        terminal.shows(b"no user of this name has this password; try again\r\nPassword of ann")
        terminal.types(f"{PASSWORD}\n")
        code, said = terminal.ends()
        assert (code, terminal.echoes) == (0, True), said
    assert f"logged in at {where} as ann (user)" in said.decode()
    assert PASSWORD not in said.decode()
    assert "mst_" not in said.decode()
    [kept] = pc.logins
    assert (stat.S_IMODE(kept.stat().st_mode), stat.S_IMODE(kept.parent.stat().st_mode)) == (0o600, 0o700)
    assert PASSWORD not in kept.read_text()

    submitted = pc.muster("submit", "--hold", "--name", "mine", "--", "true")
    assert (submitted.returncode, submitted.stderr) == (0, "")
    with far.client() as owner:
        other = owner.submit(["true"], hold=True)
    [mine] = json.loads(pc.muster("queue", "--mine", "--json").stdout)
    assert (mine["id"], mine["owner"]) == (int(submitted.stdout), "ann")
    refused = pc.muster("cancel", str(other))
    assert (refused.returncode, "forbidden" in refused.stderr) == (1, True)
    who = json.loads(pc.muster("whoami", "--json").stdout)
    assert (who["user"], who["display"], who["via"]) == ("ann", "安", "session")
    assert "ann (安)" in pc.muster("whoami").stdout
    seen = json.loads(pc.muster("top", "--once", "--json").stdout)
    assert [task["id"] for task in seen["tasks"]] == [mine["id"], other]

    out = pc.muster("logout")
    assert (out.returncode, pc.logins) == (0, [])
    assert str(Message("no_master_named")) in pc.muster("queue").stderr
    nobody = pc.muster("queue", "--master", where)
    assert (nobody.returncode, nobody.stderr.startswith("error: unauthenticated: ")) == (1, True)
    with far.client() as owner:
        assert owner.people.tokens("ann") == []


def test_a_master_behind_a_socks_proxy_is_reached_from_the_log_in_on(far: Lab, bed: Testbed, tmp_path: Path) -> None:
    """The proxy stands on the PC itself, as `ssh -D` would."""
    pc = Pc(tmp_path / "pc", bed.hosts[0])
    where = f"{bed.master_address}:{far.keys['socket_info']['data_port']}"
    with far.client() as owner:
        pinned = str(owner.info()["tls"]["authority"])
    words = [sys.executable, "-m", "tests.testbed.socks", "127.0.0.1", "1080", "0"]
    proxy = subprocess.Popen(["nsenter", f"--target={bed.hosts[0].init}", "--net", "--", *words], cwd=ROOT)
    try:
        ways = ["--proxy", "socks5://127.0.0.1:1080", "--ca-fingerprint", pinned]
        probe = ("api", "auth.whoami", "--master", where, *ways)
        until("the proxy listens", lambda: pc.muster(*probe).returncode == 0)
        pc.log_in("ann", PASSWORD, where, *ways)
        assert pc.muster("queue").returncode == 0
    finally:
        proxy.kill()
        proxy.wait()
    gone = pc.muster("queue")
    away = Message("proxy_away", proxy="127.0.0.1:1080", detail="connection refused")
    assert (gone.returncode, str(away) in gone.stderr) == (3, True), gone.stderr
    wrong = pc.muster("queue", "--proxy", "http://u:hush@gate:1")
    assert (wrong.returncode, "socks5://" in wrong.stderr, "hush" in wrong.stderr) == (1, True, False)


def test_a_link_that_an_admin_made_lets_somebody_choose_a_password(lab: Lab, pc: Pc) -> None:
    with lab.client() as owner:
        owner.people.add("bob")
        link = owner.people.link("bob")["link"]
    with pc.terminal("login", here(lab), "--link", f"https://queue.lab:8443/#{link}") as terminal:
        terminal.shows(b"New password")
        terminal.types(f"{OTHER}\n")
        terminal.shows(b"once more")
        terminal.types(f"{PASSWORD}\n")
        code, said = terminal.ends()
        assert (code, b"not the same" in said) == (1, True)
    with pc.terminal("login", here(lab), "--link", "-") as terminal:
        terminal.shows(b"Link: ")
        terminal.types(f"{link}\n")
        terminal.shows(b"New password")
        terminal.types(f"{OTHER}\n")
        terminal.shows(b"once more")
        terminal.types(f"{OTHER}\n")
        code, said = terminal.ends()
        assert (code, b"as bob (user)" in said) == (0, True), said
    assert json.loads(pc.muster("whoami", "--json").stdout)["user"] == "bob"


def test_nobody_is_asked_where_there_is_no_terminal(lab: Lab, pc: Pc) -> None:
    done = pc.muster("login", here(lab), "--user", "ann", said=f"{PASSWORD}\n")
    assert (done.returncode, "MUSTER_TOKEN" in done.stderr, pc.logins) == (1, True, [])


def test_ctrl_c_at_a_password_gives_the_terminal_back(lab: Lab, pc: Pc) -> None:
    with pc.terminal("login", here(lab), "--user", "ann") as terminal:
        terminal.shows(b"Password of ann")
        until("nothing is shown that is typed", lambda: not terminal.echoes)
        os.kill(terminal.program.pid, 2)
        code, _ = terminal.ends()
        assert (code, terminal.echoes) == (130, True)
    assert pc.logins == []


def test_a_log_in_outranks_the_kernels_word_and_so_does_a_token(lab: Lab, pc: Pc) -> None:
    conf = ("--conf", str(lab.conf))
    assert json.loads(pc.muster("whoami", "--json", *conf).stdout)["via"] == "owner"
    with lab.client() as owner:
        token = owner.people.new_token("root2", label="script")["token"]
    assert json.loads(pc.muster("whoami", "--json", *conf, MUSTER_TOKEN=token).stdout)["user"] == "root2"
    assert json.loads(pc.muster("whoami", "--json", *conf, "--token", token).stdout)["user"] == "root2"
    pc.log_in("ann", PASSWORD, *conf)
    assert json.loads(pc.muster("whoami", "--json", *conf, MUSTER_TOKEN="").stdout)["user"] == "ann"
    assert json.loads(pc.muster("whoami", "--json", "--master", here(lab)).stdout)["user"] == "ann", "by any name of it"
    assert json.loads(pc.muster("whoami", "--json", *conf, MUSTER_TOKEN=token).stdout)["user"] == "root2"
    with connect(conf=str(lab.conf), token=token) as client:
        assert client.people.whoami()["user"] == "root2"


def test_a_wrong_token_is_refused_and_nothing_is_tried_in_its_place(lab: Lab, pc: Pc) -> None:
    wrong = "mst_0a0b0c0d_" + "x" * 43
    done = pc.muster("queue", "--conf", str(lab.conf), MUSTER_TOKEN=wrong)
    assert (done.returncode, done.stdout, "unauthenticated" in done.stderr) == (1, "", True)
    assert wrong not in done.stderr
    with pytest.raises(UnauthenticatedError):
        connect(conf=str(lab.conf), token=wrong)
    lost = pc.muster(f"--token={wrong}")
    assert (lost.returncode, wrong in lost.stderr) == (2, False)


def test_a_new_log_in_ends_the_one_that_it_replaces(lab: Lab, pc: Pc) -> None:
    pc.log_in("ann", PASSWORD, here(lab), "--label", "first")
    first = pc.logins[0].read_text()
    pc.log_in("ann", PASSWORD, "--label", "second")
    assert first != pc.logins[0].read_text()
    with lab.client() as owner:
        labels = [one["label"] for one in owner.people.tokens("ann") if one["label"] in ("first", "second")]
    assert labels == ["second"]


def test_a_log_in_that_others_may_have_read_is_not_used_and_can_be_ended(lab: Lab, pc: Pc) -> None:
    pc.log_in("ann", PASSWORD, here(lab), "--label", "open")
    pc.logins[0].chmod(0o644)
    refused = pc.muster("queue")
    assert (refused.returncode, str(Message("login_open", mode="644")) in refused.stderr) == (1, True)
    assert pc.muster("logout").returncode == 0
    with lab.client() as owner:
        assert "open" not in [one["label"] for one in owner.people.tokens("ann")]


def test_what_names_a_master_goes_before_the_last_log_in(lab: Lab, pc: Pc) -> None:
    pc.log_in("ann", PASSWORD, here(lab))
    assert pc.muster("status").returncode == 0
    [port] = free_ports(1)
    for words in (["--master", f"127.0.0.1:{port}"], ["--conf", str(pc.home / "none.json")]):
        assert pc.muster("queue", *words).returncode != 0
    ports = dict.fromkeys(("monitor_port", "data_port", "train_state_port"), port)
    (pc.home / "work" / "conf.json").write_text(json.dumps({"socket_info": ports}))
    assert pc.muster("queue").returncode == 3


def test_neither_a_token_nor_a_password_goes_over_plain_text_to_another_machine(bed: Testbed, tmp_path: Path) -> None:
    """Who listens there hears nothing."""
    pc = Pc(tmp_path / "pc", bed.hosts[0])
    heard: list[bytes] = []
    with socket.create_server((bed.master_address, 0)) as stranger:
        where = f"plain://{bed.master_address}:{stranger.getsockname()[1]}"

        def listen() -> None:
            for _ in range(2):
                peer, _ = stranger.accept()
                with peer:
                    heard.append(peer.recv(1000))

        listener = threading.Thread(target=listen)
        listener.start()
        done = pc.muster("queue", "--master", where, MUSTER_TOKEN="mst_0a0b0c0d_" + "x" * 43)
        assert (done.returncode, "is not encrypted" in done.stderr) == (1, True)
        with pc.terminal("login", where) as terminal:
            code, said = terminal.ends()
            assert (code, b"is not encrypted" in said) == (1, True)
        listener.join()
    assert heard == [b"", b""]


def test_python_shows_a_token_on_every_connection(lab: Lab) -> None:
    with lab.client() as owner:
        token = owner.people.new_token("ann")["token"]
        theirs = owner.submit(["true"], hold=True)
    with connect(conf=str(lab.conf), token=token) as ann:
        mine = ann.submit(["true"], hold=True)
        assert [task["id"] for task in ann.tasks(mine=True)][-1] == mine
        with pytest.raises(ForbiddenError):
            ann.hold(theirs)
        for what in FEEDS:
            assert next(ann.watch(what))["method"] == "snapshot"
        assert token not in repr(ann) + repr(ann.session) + repr(ann.address)
        ann.use_token("mst_0a0b0c0d_" + "x" * 43)  # the connection that is open stays hers
        for what in FEEDS:
            with pytest.raises(UnauthenticatedError):
                next(ann.watch(what))
        with pytest.raises(UnauthenticatedError):
            ann.wait([mine], timeout=10)
        with lab.client() as owner:
            owner.people.revoke_tokens([token.split("_")[1]])
        with pytest.raises(UnauthenticatedError):
            ann.info()


def test_before_there_are_users_nobody_is_asked_for_a_password(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", nodes=1)
    lab.start()
    with Pc(tmp_path / "pc").terminal("login", here(lab)) as terminal:
        code, said = terminal.ends()
        assert (code, b"muster users add" in said) == (1, True), said
    assert lab.close() == []


def test_who_logs_out_of_a_master_that_is_away_is_told_that_it_goes_on_there(tmp_path: Path) -> None:
    lab, pc = Lab(tmp_path / "lab", nodes=1), Pc(tmp_path / "pc")
    lab.start()
    with lab.client() as owner:
        owner.people.add("ann", password=PASSWORD)
    pc.log_in("ann", PASSWORD, here(lab))
    assert lab.close() == []
    done = pc.muster("logout")
    assert (done.returncode, "there it goes on" in done.stderr, pc.logins) == (3, True, [])


def test_a_master_that_is_started_knows_no_token_of_whoever_typed_it(tmp_path: Path) -> None:
    lab, pc = Lab(tmp_path / "lab", nodes=1), Pc(tmp_path / "pc")
    up = ("up", "--detach", "--conf", str(lab.conf))
    more = {"MUSTER_TOKEN": "mst_0a0b0c0d_x", "XDG_STATE_HOME": str(lab.state)}
    assert pc.muster(*up, **more).returncode == 0
    try:
        with lab.client() as owner:
            environment = Path(f"/proc/{owner.info()['pid']}/environ").read_bytes()
            assert (b"HOME=" in environment, b"MUSTER_TOKEN" in environment) == (True, False)
            owner.stop_master()
    finally:
        assert lab.close() == []
