"""A client and a master on another machine: whose authority is pinned, when it is asked for, and what a wrong one gets.

The master is a real one; its other machine is this one, over TLS all the same.
"""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from client import address
from client.api import Client
from client.session import Session
from client.trust import Trust
from master.tls.certificates import OwnCertificates
from tests.faults import fault_in, refusing, said, says
from tests.system.lab import ROOT, Lab
from wire.errors import BadRequestError, ConfigError, UnreachableError, UntrustedError
from wire.message import Message
from wire.pinning import fingerprint


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A master and nothing on another machine."""
    made = Lab(tmp_path_factory.mktemp("trust") / "lab", nodes=1)
    made.start()
    yield made
    assert made.close() == []


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is pinned yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def session(lab: Lab, trust: Trust, port: str = "data_port") -> Session:
    return Session("127.0.0.1", lab.keys["socket_info"][port], patience=0.0, trust=trust)


def ask(lab: Lab, trust: Trust) -> str:
    """Say something to the master; who it takes us for."""
    one = session(lab, trust)
    try:
        return str(one.call("server.info", {}, repeatable=False)["user"])
    finally:
        one.close()


def authority(lab: Lab) -> str:
    with lab.client() as client:
        if client.info()["tls"]["authority"] is None:
            with pytest.raises(UntrustedError):
                ask(lab, Trust("whoever"))  # the first who speaks TLS has the certificate made
        return str(client.info()["tls"]["authority"])


def pins(tmp_path: Path) -> list[str]:
    return [path.name for path in tmp_path.glob("config/muster/authorities/*")]


def test_with_the_fingerprint_the_authority_is_pinned_once_and_used_from_then_on(lab: Lab, tmp_path: Path) -> None:
    trust = Trust("queue:63005")
    trust.wanted = authority(lab).upper()
    assert ask(lab, trust)
    assert pins(tmp_path) == ["queue%3A63005.pem"]
    assert ask(lab, Trust("queue:63005"))


def test_an_unknown_authority_is_asked_about(lab: Lab, tmp_path: Path) -> None:
    asked: list[str] = []
    trust = Trust("queue:1")

    def no(shown: str) -> bool:
        asked.append(shown)
        return False

    trust.ask = no
    with refusing(UntrustedError, "authority_unknown", at="queue:1", shown=authority(lab)):
        ask(lab, trust)
    assert (asked, pins(tmp_path)) == ([authority(lab)], [])
    trust.ask = lambda _shown: True
    assert ask(lab, trust)
    assert pins(tmp_path) == ["queue%3A1.pem"]


def test_where_nobody_can_be_asked_the_error_says_what_to_type(lab: Lab) -> None:
    told = authority(lab)
    with pytest.raises(UntrustedError) as caught:
        ask(lab, Trust("queue:1"))
    assert said(caught.value) == Message(
        "authority_unknown", at="queue:1", shown=told, variable="MUSTER_CA_FINGERPRINT"
    )
    assert f"--ca-fingerprint {told}" in str(caught.value)


def test_another_fingerprint_than_the_one_that_was_given_is_refused(lab: Lab, tmp_path: Path) -> None:
    trust = Trust("queue:1")
    trust.wanted = "sha256:" + "0" * 64
    given = Message("as_given", what=trust.wanted)
    with refusing(UntrustedError, "authority_is_another", at="queue:1", shown=authority(lab), before=given):
        ask(lab, trust)
    assert pins(tmp_path) == []
    trust.wanted = "nonsense"
    with refusing(BadRequestError, "no_fingerprint", found="nonsense"):
        ask(lab, trust)


def test_an_authority_that_cannot_be_remembered_is_no_fault_of_the_network(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    trust = Trust("queue:1")
    trust.wanted = authority(lab)
    said = Message("authority_not_kept", detail=os.strerror(errno.ENOTDIR))
    assert fault_in(tmp_path / "file/muster", lambda: ask(lab, trust)) == said


def test_a_changed_authority_is_one_sentence_with_both_fingerprints_and_the_next_step(lab: Lab, tmp_path: Path) -> None:
    other = OwnCertificates(tmp_path / "other", ["x"])
    other.ensure()
    old, new = fingerprint(other.authority.read_text(encoding="ascii")), authority(lab)
    trust = Trust("queue:1", str(other.authority))
    with pytest.raises(UntrustedError) as told:
        ask(lab, trust)
    before = Message("as_before", what=old)
    assert said(told.value) == Message("authority_is_another", at="queue:1", shown=new, before=before)
    assert "\n" not in str(told.value)
    assert str(told.value).endswith(f"--ca-fingerprint {new}")
    trust = Trust("queue:1", str(other.authority))
    trust.wanted = new
    assert ask(lab, trust), "what it says to do works"


def test_a_changed_authority_that_nobody_shows_is_one_sentence_too(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = OwnCertificates(tmp_path / "other", ["x"])
    other.ensure()
    monkeypatch.setattr("client.trust._asked", lambda _sock: "no certificate")
    before = Message("as_before", what=fingerprint(other.authority.read_text(encoding="ascii")))
    with refusing(UntrustedError, "authority_is_not_that", at="queue:1", before=before):
        ask(lab, Trust("queue:1", str(other.authority)))


def test_a_fingerprint_that_is_given_goes_before_what_was_pinned(lab: Lab, tmp_path: Path) -> None:
    other = OwnCertificates(tmp_path / "other", ["x"])
    other.ensure()
    folder = tmp_path / "config" / "muster" / "authorities"
    folder.mkdir(parents=True)
    pinned = folder / "queue%3A1.pem"
    pinned.write_bytes(other.authority.read_bytes())
    trust = Trust("queue:1")
    trust.wanted = authority(lab)
    assert ask(lab, trust)
    assert fingerprint(pinned.read_text(encoding="ascii")) == authority(lab)


def test_what_is_no_master_is_said_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        trust = Trust("queue:1")
        one = Session("127.0.0.1", stranger.getsockname()[1], patience=0.0, trust=trust)
        child = os.fork()
        if child == 0:
            peer, _ = stranger.accept()
            peer.sendall(b"SSH-2.0-whatever\r\n")
            peer.recv(1000)
            os._exit(0)
        with pytest.raises(UnreachableError) as told:
            one.call("server.info", {}, repeatable=False)
        assert says(said(told.value), "speaks_no_tls")
        assert "plain://" not in str(told.value)
        one.close()
        os.waitpid(child, 0)


def test_notifications_come_through_tls(lab: Lab) -> None:
    trust = Trust("queue:1")
    trust.wanted = authority(lab)
    follower = session(lab, trust, "train_state_port")
    follower.call("subscribe", {"snapshot": "none"})
    with lab.client() as client:
        task = client.submit(["true"], hold=True)
        assert next(follower.notifications(60))["params"]["task"]["id"] == task
        client.cancel([task])
    follower.close()


# -- which masters ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "encrypted"),
    [
        ("queue.lab", True),
        ("10.0.0.1:7", True),
        ("[fe80::1]:7", True),
        ("localhost", False),
        ("127.0.0.1:7", False),
        ("[::1]:7", False),
        ("plain://queue.lab:7", False),
    ],
)
def test_tls_is_spoken_to_every_master_that_is_not_on_this_machine(text: str, *, encrypted: bool) -> None:
    found = address.parse(text)
    assert (found.trust is not None) is encrypted
    assert Client(found).session.trust is found.trust
    with pytest.raises(ConfigError):
        address.parse("plain://")


def test_a_conf_json_on_this_machine_knows_the_authority_by_its_file(lab: Lab, tmp_path: Path) -> None:
    ports = '{"monitor_port": 1, "data_port": 2, "train_state_port": 3}'
    (tmp_path / "conf.json").write_text(f'{{"bind": "10.9.9.9", "socket_info": {ports}}}', encoding="utf-8")
    (tmp_path / "task_info" / "tls").mkdir(parents=True)
    expected = authority(lab)
    pem = (lab.task_info / "tls" / "ca.pem").read_bytes()
    (tmp_path / "task_info" / "tls" / "ca.pem").write_bytes(pem)
    found = address.read_conf(str(tmp_path / "conf.json"))
    assert found.trust is not None
    assert fingerprint(found.trust.known()) == expected
    (tmp_path / "conf.json").write_text(
        f'{{"bind": "10.9.9.9", "tls": "off", "socket_info": {ports}}}', encoding="utf-8"
    )
    assert address.read_conf(str(tmp_path / "conf.json")).trust is None


def test_ssl_is_not_loaded_for_a_master_on_this_machine(lab: Lab) -> None:
    script = (
        "import sys; from client.cli.main import main; "
        f"main(['queue', '--conf', {str(lab.conf)!r}]); print('ssl' in sys.modules, 'client.trust' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False False"
