"""From the log-in to the agent's first line, through whatever log-in shell and start-up files a real account has."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shlex
import shutil
import sys
import time
from pathlib import Path

import pytest

from master.drivers import ssh_attach, ssh_channel
from master.nodes.driver import CannotConnectError
from tests.master.drivers.real_sshd import RealSshd
from tests.master.drivers.ssh_story import Site, channel_to, nothing_left, run
from tests.testbed.archives import archive_of
from tests.waiting import PATIENCE_S, until
from wire.message import Message

SHELLS = [path for name in ("bash", "dash", "fish", "tcsh", "zsh") if (path := shutil.which(name))]


@pytest.fixture
def site(site: Site, server: RealSshd) -> Site:
    """It knows the server's key."""
    site.trust(server)
    return site


def bashrc(server: RealSshd, text: str) -> None:
    (server.home / ".bashrc").write_text(text, encoding="utf-8")


async def comes(site: Site, server: RealSshd, **keys: str) -> None:
    """The agent answers."""
    line = await site.connected(server.node(**keys))
    line.transport.abort()
    await line.end()


# -- log-in shells --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", SHELLS)
def test_the_agent_comes_through_any_log_in_shell(shell: str, server: RealSshd, site: Site, tmp_path: Path) -> None:
    server.stop()
    server.shell(shell)
    server.start()
    odd = tmp_path / "a folder (with $signs)" / "python3"
    odd.parent.mkdir()
    odd.symlink_to(sys.executable)

    async def story() -> None:
        await comes(site, server)
        await comes(site, server, python=str(odd))
        refusal = await site.refusal(server.node(python="python-of-nobody"))
        assert refusal.why == Message("python_not_there", python="python-of-nobody")

    with nothing_left():
        run(story())


def test_a_python_that_no_shell_could_be_given_is_refused() -> None:
    for python in ("it's", "a\\b", "wow!", "two\nlines"):
        with pytest.raises(CannotConnectError) as caught:
            ssh_attach.command(python)
        assert caught.value.why == Message("python_unquotable", python=python)


# -- start-up files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "echo 'Welcome to the lab!'; printf 'no newline at the end> '",
        "echo to stderr >&2; head -c 3000000 /dev/zero >&2",
        "head -c 12000 /dev/urandom | od -c",
        "sleep 2; echo good morning",
    ],
)
def test_a_bashrc_that_prints_or_takes_its_time_does_no_harm(text: str, server: RealSshd, site: Site) -> None:
    bashrc(server, text)
    with nothing_left():
        run(comes(site, server))


def test_a_bashrc_that_never_ends_is_named(server: RealSshd, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    words = "waiting for the licence server"
    heard, take = bytearray(), ssh_channel.Pipe.take

    def take_until_its_words_came(pipe: ssh_channel.Pipe, deadline: float) -> bytes:
        piece = take(pipe, 0.0 if words.encode() in heard else deadline)
        heard.extend(piece)
        return piece

    monkeypatch.setattr(ssh_attach, "ATTACH_S", PATIENCE_S)
    monkeypatch.setattr(ssh_channel.Pipe, "take", take_until_its_words_came)
    bashrc(server, f"echo '{words}'; sleep 1000 & wait")
    with nothing_left():
        refusal = run(site.refusal(server.node()))
    assert refusal.why == Message("shell_waits_saying", seconds=PATIENCE_S, said=words)


def test_a_bashrc_that_prints_without_end_is_named(server: RealSshd, site: Site) -> None:
    bashrc(server, "yes 'still here'")
    with nothing_left():
        refusal = run(site.refusal(server.node()))
    assert refusal.why.key == "shell_endless"
    assert "still here".startswith(str(refusal.why.args["said"]))  # it may be cut anywhere


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("exit 3", Message("shell_ended", status=3)),
        ("echo 'closed on sundays'; exit 1", Message("agent_not_started", said="closed on sundays")),
        ("printf 'bad \\033[31mmood\\n' >&2; exit 1", Message("agent_not_started", said="bad [31mmood")),
    ],
)
def test_a_bashrc_that_exits_is_told_with_its_last_words(text: str, why: Message, server: RealSshd, site: Site) -> None:
    bashrc(server, text)
    with nothing_left():
        assert run(site.refusal(server.node())).why == why


def test_last_words_are_told_also_where_the_shell_was_gone_before_we_spoke(server: RealSshd, site: Site) -> None:
    with nothing_left(), channel_to("echo 'closed on sundays'; exit 1", server, site) as (channel, pipe):
        until("the channel is closed", lambda: channel.closed)
        with pytest.raises(CannotConnectError) as caught:
            ssh_attach.attach(pipe, "python3", site.archive, "c-n")
        assert caught.value.why == Message("agent_not_started", said="closed on sundays")


# Not fish, which reads all of its input before it does anything: that looks like waiting.
@pytest.mark.parametrize("shell", [shell for shell in SHELLS if not shell.endswith("/fish")])
def test_a_bashrc_that_becomes_another_shell_is_told_so(shell: str, server: RealSshd, site: Site) -> None:
    bashrc(server, f"exec {shell} {'--norc' if shell.endswith('/bash') else ''}")
    with nothing_left():
        refusal = run(site.refusal(server.node()))
    assert refusal.why == Message("shell_becomes_another", python="python3")


def test_files_in_the_home_do_not_stand_for_modules(server: RealSshd, site: Site) -> None:
    for name in ("hashlib", "binascii", "json", "socket", "select"):
        (server.home / f"{name}.py").write_text("raise SystemExit('mine')", encoding="utf-8")
    bashrc(server, f"export PYTHONPATH={server.home} PYTHONSTARTUP=/nowhere")
    run(comes(site, server))


# -- the node's Python ----------------------------------------------------------------------------------------


def fake_python(path: Path, line: str) -> str:
    path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_a_node_without_python_and_one_with_an_old_one_are_told(server: RealSshd, site: Site, tmp_path: Path) -> None:
    loader = shlex.split(ssh_attach.command("python3"))[-1]
    as_old = f"import sys; sys.version_info = (3, 6, 9); {loader}"
    old = fake_python(tmp_path / "python3", f"exec {shlex.join([sys.executable, '-c', as_old])}")
    broken = fake_python(tmp_path / "python4", "echo 'libpython4.so: cannot open shared object file' >&2; exit 127")

    async def story() -> None:
        refusal = await site.refusal(server.node(python="python-of-nobody"))
        assert refusal.why == Message("python_not_there", python="python-of-nobody")
        refusal = await site.refusal(server.node(python=old))
        assert refusal.why == Message("python_too_old", python=old, version="3.6.9")
        refusal = await site.refusal(server.node(python=broken))
        assert refusal.why == Message("python_not_there", python=broken)

    with nothing_left():
        run(story())


# -- the archive ----------------------------------------------------------------------------------------------


def archives(server: RealSshd) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (server.home / ".local/state/muster").glob("agent-*")}


def file_of(site: Site) -> str:
    return f"agent-{site.archive.compiled.checksum[:16]}.pyz"


def test_the_archive_is_sent_once_and_again_where_it_is_damaged(server: RealSshd, site: Site) -> None:
    content = site.archive.compiled.data
    name = file_of(site)
    base = server.home / ".local/state/muster"

    async def story() -> None:
        await comes(site, server)
        assert archives(server) == {name: content}
        assert base.stat().st_mode & 0o777 == 0o700
        written = (base / name).stat().st_ino
        await comes(site, server)
        assert (base / name).stat().st_ino == written
        (base / name).write_bytes(content[:-1] + b"!")
        await comes(site, server)
        assert archives(server) == {name: content}

    run(story())


def test_old_archives_go_when_a_new_one_comes(server: RealSshd, site: Site) -> None:
    base = server.home / ".local/state/muster"
    base.mkdir(parents=True)
    for age in range(8):
        path = base / f"agent-{age:016x}.pyz"
        path.write_bytes(b"")
        at = time.time() - age * 43_200
        os.utime(path, (at, at))
    run(comes(site, server))
    kept = {f"agent-{age:016x}.pyz" for age in range(4)} | {file_of(site)}
    assert set(archives(server)) == kept


def test_a_full_disk_is_told_with_the_path(server: RealSshd, site: Site) -> None:
    server.stop()
    server.start(state_size="32k")
    with nothing_left():
        refusal = run(site.refusal(server.node()))
    path = server.home / f".local/state/muster/{file_of(site)}"
    assert refusal.why == Message("agent_not_put", said=f"{path}: No space left on device")


def test_a_folder_that_is_somebody_elses_is_not_used(server: RealSshd, site: Site) -> None:
    base = server.home / ".local/state"
    base.mkdir(parents=True)
    (base / "muster").write_text("", encoding="utf-8")
    refusal = run(site.refusal(server.node()))
    assert refusal.why == Message("agent_not_put", said=f"{base}/muster: File exists")


def test_the_order_is_two_lines_of_ascii_and_only_the_first_says_something_to_a_shell() -> None:
    order = ssh_attach.order(archive_of(b"content"), "c-%E8%8A%82")
    assert order.isascii()
    first, second, rest = order.split(b"\n")
    assert (first, rest) == (b"muster-needs-python;exit 127", b"")
    assert hashlib.sha256(b"content").hexdigest().encode() not in second  # it is inside, encoded


@pytest.mark.parametrize("python", [path for path in (shutil.which("pypy3"),) if path])
def test_the_agent_runs_on_another_python_of_the_node(python: str, server: RealSshd, site: Site) -> None:
    with nothing_left():
        run(comes(site, server, python=python))


def test_two_nodes_of_one_account_that_are_sent_the_archive_at_once_get_an_agent_each(
    server: RealSshd, site: Site
) -> None:
    async def story() -> None:
        lines = await asyncio.gather(*(site.connected(server.node(name)) for name in ("a", "节点 b")))
        pids = {(await line.hear("welcome"))["pid"] for line in lines}
        assert len(pids) == 2
        for line in lines:
            line.transport.abort()
            await line.end()
        assert set(archives(server)) == {file_of(site)}

    with nothing_left():
        run(story())
