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


def test_a_wrong_password_or_key_is_told_with_the_cure_and_not_tried_again_soon(
    server: RealSshd, site: Site, tmp_path: Path
) -> None:
    site.trust(server)
    site.psw.write_text("wrong-secret\n", encoding="utf-8")
    refusal = run(site.refusal(server.node(key_file=None)))
    assert (refusal.patience, "wrong-secret" in str(refusal)) == ("long", False)
    assert str(refusal).endswith(f"(as lab) refuses the password: correct it in {site.psw}, or use `key_file`")
    stranger = make_key(tmp_path / "stranger")
    refusal = run(site.refusal(server.node(key_file=str(stranger))))
    assert refusal.patience == "long"
    assert f"refuses the key {stranger}: add its public half to ~/.ssh/authorized_keys there" in str(refusal)


def test_a_node_that_takes_no_passwords_says_what_it_takes(tmp_path: Path, site: Site) -> None:
    server = RealSshd(tmp_path / "server", passwords=False)
    server.start()
    try:
        site.trust(server)
        refusal = run(site.refusal(server.node(key_file=None)))
        assert (refusal.patience, "takes no log-in with a password, only publickey" in str(refusal)) == ("long", True)
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
        assert str(refusal).endswith(f"(as lab) refuses the password: correct it in {site.psw}, or use `key_file`")
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
    assert str(caught.value) == (
        "127.0.0.1:22 (as lab) asks for more than the password (Password:, Code:), and Muster answers one question: "
        "use `key_file`"
    )
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
        assert (refusal.patience, "opens no session (Connect failed): set `MaxSessions`" in str(refusal)) == (
            "long",
            True,
        )
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
        assert str(refusal).endswith(f"a host name or an address: set `{change}` for this node"), ip
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
        str(tmp_path / "missing"): "cannot be read: No such file or directory",
        str(open_to_all): f"may be read by others: `chmod 600 {open_to_all}`",
        str(make_key(tmp_path / "locked", passphrase="secret")): "is encrypted: nobody is there to type its passphrase",  # noqa: S106
        str(make_key(tmp_path / "pair").with_suffix(".pub")): "holds no private key (is it the public half?)",
        str(garbage): "is no usable key",
        "relative/key": "write the whole path",
    }
    for key_file, words in expected.items():
        with pytest.raises(CannotConnectError) as caught:
            ssh_login.load_key(key_file)
        assert f"key_file {key_file}" in str(caught.value)
        assert words in str(caught.value)
        assert caught.value.patience == "long"


def test_a_node_with_neither_key_nor_password_says_where_to_put_one(server: RealSshd, site: Site) -> None:
    site.psw.unlink()
    refusal = run(site.refusal(server.node(key_file=None)))
    assert (refusal.patience, str(site.psw) in str(refusal), "`key_file`" in str(refusal)) == ("long", True, True)
    site.psw.write_text("x\n", encoding="utf-8")
    site.psw.chmod(0o640)
    assert f"`chmod 600 {site.psw}`" in str(run(site.refusal(server.node(key_file=None))))


def refused_port() -> AbstractContextManager[int]:
    return nullcontext(free_ports(1)[0])


@pytest.mark.parametrize(
    ("port", "words"),
    [
        (refused_port, "refuses the connection: does sshd run there, on this `port`?"),
        (black_hole, "does not answer within"),
        (mute, "takes the connection and then says nothing"),
    ],
)
def test_an_address_without_sshd_is_told(
    port: object, words: str, site: Site, server: RealSshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_socket, "CONNECT_S", 0.5)
    monkeypatch.setattr(ssh_login, "BANNER_S", 0.5)
    assert callable(port)
    with port() as number, nothing_left():
        refusal = run(site.refusal(server.node(port=number)))
    assert str(refusal).startswith(f"127.0.0.1:{number} {words}")
    assert refusal.patience == "short"
    with port() as number, pytest.raises(NodeUnreachableError, match=r"127\.0\.0\.1"):
        run(site.driver(server.node(port=number)).offered_key())


# -- nothing is left ------------------------------------------------------------------------------------------

ROUNDS = 50


async def in_vain(site: Site, node: NodeConfig, words: str) -> None:
    """Fail ROUNDS times for this reason, as often at a time as the gate lets through."""
    for refusal in await asyncio.gather(*(site.refusal(node) for _ in range(ROUNDS))):
        assert words in str(refusal)


REASONS = {
    "password": "refuses the password",
    "key": "refuses the key",
    "unknown": "is not known",
    "refused": "refuses the connection",
    "mute": "says nothing",
    "half": "the key exchange failed",
    "black hole": "does not answer",
    "no python": "no `python-of-nobody`",
}


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
