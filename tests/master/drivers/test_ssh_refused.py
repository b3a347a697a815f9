"""What is in the way of a log-in over `ssh`: one clear line each, cure included, and nothing left behind by any."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import paramiko
import pytest
from paramiko.common import AUTH_FAILED
from paramiko.server import InteractiveQuery

from master.drivers import ssh_login, ssh_socket
from master.drivers.passwords import Passwords
from master.nodes.driver import CannotConnectError
from master.nodes.registry import NodeConfig, misspelt_address
from tests.master.drivers.real_sshd import PASSWORD, RealSshd, make_key
from tests.master.drivers.ssh_story import Site, black_hole, half, mute, nothing_left, run
from tests.ports import free_ports
from tests.soak import one_in
from wire.errors import NodeUnreachableError
from wire.message import Message


def test_a_wrong_password_or_key_is_told_with_the_cure_and_not_tried_again_soon(
    server: RealSshd, site: Site, tmp_path: Path
) -> None:
    site.trust(server)
    site.psw.write_text("wrong-secret\n", encoding="utf-8")
    refusal = run(site.refusal(server.node(key_file=None)))
    peer = f"127.0.0.1:{server.port}"
    assert (refusal.patience, "wrong-secret" in str(refusal)) == ("long", False)
    assert refusal.why == Message("password_refused", where=peer, user="lab", path=str(site.psw))
    stranger = make_key(tmp_path / "stranger")
    refusal = run(site.refusal(server.node(key_file=str(stranger))))
    assert refusal.patience == "long"
    assert refusal.why == Message("key_refused", where=peer, user="lab", path=str(stranger))


def test_a_node_that_takes_no_passwords_says_what_it_takes(tmp_path: Path, site: Site) -> None:
    server = RealSshd(tmp_path / "server", passwords=False)
    server.start()
    try:
        site.trust(server)
        refusal = run(site.refusal(server.node(key_file=None)))
        peer = f"127.0.0.1:{server.port}"
        assert refusal.patience == "long"
        assert refusal.why == Message("log_in_without_password", where=peer, user="lab", allowed=("publickey",))
    finally:
        server.close()


def test_a_password_that_sshd_asks_for_as_a_question_opens_and_a_wrong_one_is_told_as_wrong(
    tmp_path: Path, site: Site
) -> None:
    server = RealSshd(tmp_path / "server", passwords=False, questions=True)
    server.start()
    try:
        site.trust(server)

        async def story() -> None:
            line = await site.connected(server.node(key_file=None))
            line.transport.abort()
            await line.end()

        run(story())
        site.psw.write_text("wrong-secret\n", encoding="utf-8")
        refusal = run(site.refusal(server.node(key_file=None)))
        assert refusal.patience == "long"
        assert (refusal.why.key, refusal.why.args["path"]) == ("password_refused", str(site.psw))
    finally:
        server.close()


class AsksForACode(paramiko.ServerInterface):
    """A server that wants a code once it has the password. `answers`: what it was told."""

    def __init__(self) -> None:
        self.answers: list[list[str]] = []

    def get_allowed_auths(self, _user: str) -> str:
        return "keyboard-interactive"

    def check_auth_interactive(self, _user: str, _methods: str) -> InteractiveQuery:
        return InteractiveQuery("", "", "Password: ")

    def check_auth_interactive_response(self, responses: list[str]) -> int | InteractiveQuery:
        self.answers.append(list(responses))
        return InteractiveQuery("", "", "Code: ") if len(self.answers) == 1 else AUTH_FAILED


def test_a_second_question_is_not_answered_with_the_password(tmp_path: Path, site: Site) -> None:
    key = make_key(tmp_path / "host", "ecdsa")
    ours, theirs = socket.socketpair()
    asking = AsksForACode()
    transport = paramiko.Transport(theirs)
    try:
        transport.add_server_key(paramiko.ECDSAKey(filename=str(key)))
        transport.start_server(event=threading.Event(), server=asking)
        public = " ".join(key.with_suffix(".pub").read_text(encoding="ascii").split()[:2])
        node = NodeConfig(name="n", gpu_count=0, ip="127.0.0.1", user_name="lab", host_key=public)
        with pytest.raises(CannotConnectError) as caught:
            ssh_login.log_in(ours, node, site.keys, Passwords(site.psw))
    finally:
        ssh_login.close(transport, theirs)
    asked = ("Password:", "Code:")
    assert caught.value.why == Message("log_in_more_questions", where="127.0.0.1:22", user="lab", asked=asked)
    assert asking.answers == [[PASSWORD], [""]]


def test_an_sshd_that_opens_no_session_and_an_ip_that_holds_more_name_what_to_change(
    tmp_path: Path, site: Site
) -> None:
    server = RealSshd(tmp_path / "server")
    server.more_config = "MaxSessions 0\n"
    server.start()
    try:
        site.trust(server)
        refusal = run(site.refusal(server.node()))
        peer = f"127.0.0.1:{server.port}"
        assert refusal.patience == "long"
        assert refusal.why == Message("no_session", where=peer, user="lab", said="Connect failed")
    finally:
        server.close()
    changes = {
        "me@10.0.0.1": "ip=10.0.0.1 user_name=me",
        "gpu7:22": "ip=gpu7 port=22",
        "[::1]": "ip=::1",
        "[fe80::1%eth0]:2222": "ip=fe80::1%eth0 port=2222",
        "ssh://me:secret@gpu7:22/": "ip=gpu7 user_name=me port=22",
    }
    for ip, change in changes.items():
        refusal = run(site.refusal(server.node(ip=ip, proxy="socks5h://127.0.0.1:1")))
        assert refusal.why == Message("ip_misspelt", ip=ip, changes=change)
        assert refusal.patience == "long"
    for ip in ("::1", "fe80::1%eth0", "10.0.0.1", "gpu7", "gpu7.lab"):
        assert misspelt_address(ip) is None


def test_a_key_file_that_cannot_be_used_is_told_before_anybody_is_asked(tmp_path: Path) -> None:
    open_to_all = make_key(tmp_path / "open")
    open_to_all.chmod(0o644)
    garbage = tmp_path / "garbage"
    garbage.write_text(
        "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n", encoding="ascii"
    )
    garbage.chmod(0o600)
    expected = {
        str(tmp_path / "missing"): "key_file_unreadable",
        str(open_to_all): "key_file_open",
        str(make_key(tmp_path / "locked", passphrase="secret")): "key_file_encrypted",  # noqa: S106
        str(make_key(tmp_path / "pair").with_suffix(".pub")): "key_file_without_key",
        str(garbage): "key_file_unusable",
        "relative/key": "key_file_relative",
    }
    for key_file, key in expected.items():
        with pytest.raises(CannotConnectError) as caught:
            ssh_login.load_key(key_file)
        assert (caught.value.why.key, caught.value.why.args["path"]) == (key, key_file)
        assert caught.value.patience == "long"


def test_a_node_with_neither_key_nor_password_says_where_to_put_one(server: RealSshd, site: Site) -> None:
    site.psw.unlink()
    refusal = run(site.refusal(server.node(key_file=None)))
    assert (refusal.patience, refusal.why) == ("long", Message("no_credential", path=str(site.psw)))
    site.psw.write_text("x\n", encoding="utf-8")
    site.psw.chmod(0o640)
    assert run(site.refusal(server.node(key_file=None))).why == Message("passwords_open", path=str(site.psw))


def refused_port() -> AbstractContextManager[int]:
    return nullcontext(free_ports(1)[0])


@pytest.mark.parametrize(
    ("port", "key"),
    [
        (refused_port, "connection_refused"),
        (black_hole, "no_answer_in_time"),
        (mute, "sshd_mute"),
    ],
)
def test_an_address_without_sshd_is_told(
    port: object, key: str, site: Site, server: RealSshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_socket, "CONNECT_S", 0.5)
    monkeypatch.setattr(ssh_login, "BANNER_S", 0.5)
    assert callable(port)
    with port() as number, nothing_left():
        refusal = run(site.refusal(server.node(port=number)))
    assert refusal.why.key == key
    assert f"127.0.0.1:{number}" in refusal.why.args.values()
    assert refusal.patience == "short"
    with port() as number, pytest.raises(NodeUnreachableError, match=r"127\.0\.0\.1"):
        run(site.driver(server.node(port=number)).offered_key())


# -- nothing is left ------------------------------------------------------------------------------------------

ROUNDS = 50


async def in_vain(site: Site, node: NodeConfig, key: str) -> None:
    """Fail ROUNDS times for this reason, as often at a time as the gate lets through."""
    for refusal in await asyncio.gather(*(site.refusal(node) for _ in range(ROUNDS))):
        assert refusal.why.key.startswith(key)


REASONS = {
    "password": "password_refused",
    "key": "key_refused",
    "unknown": "host_key_unknown",
    "refused": "connection_refused",
    "mute": "sshd_mute",
    "half": "key_exchange_",
    "black hole": "no_answer_in_time",
    "no python": "python_not_there",
}
"""How the keys of their messages begin."""


@pytest.mark.parametrize("kind", one_in(3, REASONS))
def test_fifty_failures_of_a_kind_leave_neither_thread_nor_descriptor(
    kind: str, server: RealSshd, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind != "unknown":
        site.trust(server)
    node = server.node()
    swallowing: AbstractContextManager[int] = nullcontext(server.port)
    if kind == "password":
        site.psw.write_text("wrong\n", encoding="utf-8")
        node = server.node(key_file=None)
    elif kind == "key":
        node = server.node(key_file=str(make_key(tmp_path / "stranger")))
    elif kind == "no python":
        node = server.node(python="python-of-nobody")
    elif kind != "unknown":
        monkeypatch.setattr(ssh_socket, "CONNECT_S", 0.3)  # nobody is there, while a real server may be busy
        monkeypatch.setattr(ssh_login, "BANNER_S", 0.3)
        swallowing = {"refused": refused_port, "mute": mute, "half": half, "black hole": black_hole}[kind]()
    with swallowing as port:
        node = server.node(port=port) if port != server.port else node
        with nothing_left():
            run(in_vain(site, node, REASONS[kind]))
