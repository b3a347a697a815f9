"""A lab's own certificate and a real master: what stops a start, and a renewal that nobody notices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from client.session import Session
from client.trust import Trust
from tests.certificates import Made, authority, made
from tests.faults import in_words, refusing
from tests.system.far_node import ENTRY, FarNode
from tests.system.lab import Lab
from tests.waiting import until
from wire.errors import UntrustedError
from wire.message import Message
from wire.pinning import fingerprint

ROOT = authority()


def lay(lab: Lab, *chain: Made, key: Made | None = None) -> None:
    """Put a pair where the lab's conf.json says."""
    for name, data in (("key.pem", (key or chain[0]).key_pem), ("cert.pem", b"".join(one.pem for one in chain))):
        draft = lab.folder / f"{name}.draft"
        draft.touch(0o600)
        draft.write_bytes(data)
        draft.replace(lab.folder / name)


def made_for(lab: Lab, *names: str, by: Made = ROOT, days: tuple[float, float] = (-1, 90)) -> Made:
    lab.write_conf(tls={"cert": "cert.pem", "key": "key.pem"})
    return made("queue", by, names or ("127.0.0.1",), days)


@pytest.fixture
def lab(make_system_lab: Callable[..., Lab]) -> Lab:
    """Not started."""
    lab: Lab = make_system_lab(nodes=0)
    lab.write_registry([ENTRY])
    return lab


@pytest.fixture(autouse=True)
def _own_pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tests that run at the same time pin different authorities for a master of the same name."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def far(lab: Lab) -> Iterator[FarNode]:
    """A machine that will dial in."""
    node = FarNode(lab)
    yield node
    if lab.master is not None:
        with lab.client() as client:
            client.cancel(everything=True)
            until("no task lives", lambda: not client.tasks(states=["starting", "running"]))
    node.close()


def shown(lab: Lab, trust: Trust) -> str:
    """Ask the master, over TLS as from another machine; the fingerprint that it tells."""
    one = Session("127.0.0.1", lab.keys["socket_info"]["data_port"], patience=0.0, trust=trust)
    try:
        return str(one.call("server.info", {}, repeatable=False)["tls"]["authority"])
    finally:
        one.close()


def problems(lab: Lab) -> str:
    """What the master says is wrong with its certificate. To wait, for it looks only every ten seconds."""
    with lab.client() as client:
        return "; ".join(problem["text"] for problem in client.info()["tls"]["problems"])


def in_use(lab: Lab) -> bytes:
    return (lab.task_info / "tls" / "brought.pem").read_bytes()


def test_a_renewal_by_another_intermediate_locks_nobody_out(lab: Lab, far: FarNode) -> None:
    first, between = authority("Lab CA 1", ROOT), authority("Lab CA 2", ROOT)
    lay(lab, made_for(lab, by=first), first, ROOT)
    lab.start()
    far.make_token()
    assert far.authority == fingerprint(ROOT.pem.decode())
    far.start()
    far.await_state("online")
    trust = Trust("queue:1")
    trust.wanted = far.authority
    assert shown(lab, trust) == far.authority
    with lab.client() as client:
        task = client.submit(["sleep", "1000"], gpus=1)
        client.wait([task], 60, until="started")
        renewed = made_for(lab, by=between)
        lay(lab, renewed, between, ROOT)
        until("the new one is shown", lambda: in_use(lab).startswith(renewed.pem))
        assert client.node("far")["state"] == "online"
        assert client.info()["tls"]["problems"] == []
    assert shown(lab, Trust("queue:1")) == far.authority
    far.hang_up()
    far.await_state("connecting")
    far.start_again()
    far.await_state("online")
    with lab.client() as client:
        assert client.show(task)["state"] == "running"


def test_a_bad_renewal_is_told_by_status_and_in_the_log_and_the_old_one_serves_on(lab: Lab) -> None:
    old, new = (made_for(lab, days=(-1, days)) for days in (20.5, 90))
    lay(lab, old, ROOT)
    lab.start()
    assert "20 days" in lab.muster("status").stdout
    lay(lab, new, ROOT, key=old)
    key, cert = (str(lab.folder / name) for name in ("key.pem", "cert.pem"))
    other = str(Message("tls_key_of_another", key=key, subject="CN=queue", cert=cert))
    until("it is told", lambda: other in problems(lab))
    assert other in lab.server_log()
    trust = Trust("queue:1")
    trust.wanted = fingerprint(ROOT.pem.decode())
    assert shown(lab, trust)
    lay(lab, new, ROOT)
    until("the good one is taken", lambda: "is not taken" not in problems(lab))
    told = lab.muster("status").stdout
    assert "is not taken" not in told
    assert "days: put" not in told


@pytest.mark.parametrize(
    ("days", "chain", "told"),
    [
        ((-30.0, -1.0), (ROOT,), Message("tls_ended", subject="CN=queue")),
        ((-1.0, 90.0), (), Message("tls_chain_incomplete", issuer="CN=Lab CA", subject="CN=queue")),
    ],
    ids=["ended", "incomplete"],
)
def test_one_that_cannot_work_stops_the_start_with_file_and_cure(
    lab: Lab, days: tuple[float, float], chain: tuple[Made, ...], told: Message
) -> None:
    lay(lab, made_for(lab, days=days), *chain)
    assert lab.launch_master().wait(60) != 0
    said = (lab.folder / "master.out").read_text(encoding="utf-8")
    assert in_words(said, told.key, **told.args)
    assert "cert.pem: " in said
    assert f"{lab.conf}: tls: " in said
    assert "Traceback" not in said


def test_who_calls_it_by_another_name_is_told_so_and_its_own_machine_needs_no_name(lab: Lab, tmp_path: Path) -> None:
    lay(lab, made_for(lab, "queue.lab.example"), ROOT)
    lab.start()
    pinned = tmp_path / "pinned.pem"
    pinned.write_bytes(ROOT.pem)
    with refusing(UntrustedError, "certificate_for_other_names", at="127.0.0.1:1"):
        shown(lab, Trust("127.0.0.1:1", str(pinned)))
    here = Trust("127.0.0.1:1", shown_at=str(lab.task_info / "tls" / "brought.pem"), is_brought=True)
    assert shown(lab, here) == fingerprint(ROOT.pem.decode())
    renewed = made_for(lab, "queue.lab.example")
    lay(lab, renewed, ROOT)
    until("the new one is shown", lambda: in_use(lab).startswith(renewed.pem))
    assert shown(lab, here)


@pytest.mark.parametrize("begins", ["its own", "the lab's"])
def test_a_master_that_runs_since_before_tls_was_edited_is_known_on_its_own_machine(
    lab: Lab, begins: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = lab.task_info / "tls"
    own, brought = folder / "ca.pem", folder / "brought.pem"
    lab.start()
    first = Trust("another:1")  # for which it makes one
    first.ask = lambda _fingerprint: True
    shown(lab, first)
    lab.stop_master()
    lay(lab, made_for(lab), ROOT)
    lab.start()
    if begins == "its own":
        lab.stop_master()
        lab.write_conf(tls="auto")
        lab.start()
    for is_brought in (True, False):
        told = shown(lab, Trust("localhost:1", str(own), str(brought), is_brought=is_brought))
        is_own = begins == "its own"
        assert told == fingerprint(own.read_text("ascii") if is_own else ROOT.pem.decode())
    own.write_text(authority().pem.decode(), "ascii")
    brought.write_text(made("queue", authority(), ("127.0.0.1",), (-1, 90)).pem.decode(), "ascii")
    for is_brought in (True, False):
        with pytest.raises(UntrustedError):
            shown(lab, Trust("localhost:1", str(own), str(brought), is_brought=is_brought))


def test_a_token_is_shown_with_a_name_that_the_agent_will_believe(lab: Lab, far: FarNode) -> None:
    lay(lab, made_for(lab, "queue.lab.example"), ROOT)
    lab.start()
    assert far.make_token()["master"] == f"queue.lab.example:{lab.keys['socket_info']['data_port']}"
