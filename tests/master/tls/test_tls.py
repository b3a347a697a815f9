"""TLS on the three ports, on real sockets: who must speak it, what is shown, and who speaks something like it."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from master.config.config import load_config
from master.ports import connection
from master.ports.port_server import NODES, TASKS
from master.tls import policy
from master.tls.certificates import CERTIFICATE_DAYS, RENEW_DAYS, OwnCertificates
from master.tls.entrance import listen
from master.tls.policy import Tls, Told, is_loopback, listens_outside, our_names
from master.tls.shown import context_of
from tests.faults import fault_in
from tests.leaps import Leap
from tests.master.in_process import DATA, LIMITS, InProcess, Peer, eof, run
from tests.waiting import settled
from wire.message import Message
from wire.pinning import fingerprint, normal, pinned, unverified

NOW = datetime(2026, 3, 1, tzinfo=UTC)
INFO = b'{"jsonrpc":"2.0","id":7,"method":"server.info"}\n'


async def encrypted(master: InProcess, port: str = DATA, pem: str | None = None) -> Peer:
    """A client that has pinned the master's authority, or another one."""
    context = pinned(pem or master.tls.authority())
    streams = await asyncio.open_connection(
        *master.address(port), ssl=context, server_hostname="whatever", limit=64 << 20
    )
    peer = Peer(*streams)
    master.peers.append(peer)
    return peer


# -- certificates ---------------------------------------------------------------------------------------------


def certificates(folder: Path, *names: str) -> OwnCertificates:
    return OwnCertificates(folder / "tls", names or ("here", "127.0.0.1"))


def shown(own: OwnCertificates) -> x509.Certificate:
    return x509.load_pem_x509_certificates(own.shown.read_bytes())[0]


def test_the_first_start_makes_an_authority_and_a_certificate_that_only_we_may_read(tmp_path: Path) -> None:
    own = certificates(tmp_path)
    own.ensure(NOW)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "tls").iterdir()}
    assert modes == {"ca.pem": 0o600, "ca.key": 0o600, "server.pem": 0o600}
    assert stat.S_IMODE((tmp_path / "tls").stat().st_mode) == 0o700
    shown(own).verify_directly_issued_by(x509.load_pem_x509_certificate(own.authority.read_bytes()))
    names = shown(own).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["here"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]


def test_what_is_good_is_kept(tmp_path: Path) -> None:
    certificates(tmp_path).ensure(NOW)
    before = {path.name: path.read_bytes() for path in (tmp_path / "tls").iterdir()}
    certificates(tmp_path).ensure(NOW + timedelta(days=CERTIFICATE_DAYS // 2))
    assert {path.name: path.read_bytes() for path in (tmp_path / "tls").iterdir()} == before


@pytest.mark.parametrize(
    ("later", "names"),
    [(timedelta(days=CERTIFICATE_DAYS - 30), ("here", "127.0.0.1")), (timedelta(0), ("here", "127.0.0.1", "10.0.0.7"))],
    ids=["it ends soon", "the machine has another address"],
)
def test_the_certificate_is_renewed_and_the_pinned_authority_stays(
    tmp_path: Path, later: timedelta, names: tuple[str, ...]
) -> None:
    old = certificates(tmp_path)
    old.ensure(NOW)
    authority, before = old.authority.read_bytes(), shown(old)
    new = certificates(tmp_path, *names)
    new.ensure(NOW + later)
    assert new.authority.read_bytes() == authority
    assert shown(new).serial_number != before.serial_number
    assert shown(new).not_valid_after_utc == NOW + later + timedelta(days=CERTIFICATE_DAYS)


def test_a_folder_without_the_authoritys_key_is_told_with_the_way_out(tmp_path: Path) -> None:
    certificates(tmp_path).ensure(NOW)
    (tmp_path / "tls" / "ca.key").unlink()
    certificates(tmp_path).ensure(NOW)  # nothing is to be signed yet
    fault = fault_in(tmp_path / "tls", lambda: certificates(tmp_path, "other").ensure(NOW))
    assert fault.key == "certificate_unmakable"
    assert "ca.key" in str(fault.args["detail"])


def test_a_master_that_runs_for_months_renews_its_certificate_while_connections_live(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            authority = master.tls.authority()
            early = await encrypted(master, pem=authority)
            ends = master.tls.told(NOW).ends
            assert ends is not None
            for days, is_renewed in ((RENEW_DAYS + 1, False), (RENEW_DAYS - 1, True)):
                master.tls.look(ends - timedelta(days=days))
                peer = await encrypted(master, pem=authority)
                got = peer.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
                assert (x509.load_der_x509_certificate(got).not_valid_after_utc > ends) is is_renewed
                assert (await peer.call("server.info"))["user"]
            assert (await early.call("server.info"))["user"]
            assert master.tls.told(ends).problems == ()

    run(story())


def test_a_renewal_that_fails_is_told_and_the_certificate_stays_in_use(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            await (await encrypted(master)).call("server.info")
            before = master.tls.told(NOW)
            assert before.ends is not None
            (tmp_path / "task_info" / "tls" / "ca.key").unlink()
            master.tls.look(before.ends - timedelta(days=90))
            (problem,) = master.tls.told(NOW).problems
            assert problem.key == "tls_not_renewed"
            assert "ca.key" in str(problem)
            assert master.tls.told(NOW).ends == before.ends
            assert (await (await encrypted(master)).call("server.info"))["user"]

    run(story())


def test_nothing_is_made_before_somebody_speaks_tls(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            await (await master.peer()).call("server.info")
            assert not (tmp_path / "task_info" / "tls").exists()
            assert master.tls.told(NOW) == Told("own", None, None, ())
            await (await encrypted(master)).call("server.info")
            assert master.tls.told(NOW).authority == fingerprint(master.tls.authority())

    run(story())


# -- conf.json ------------------------------------------------------------------------------------------------


def config(folder: Path, **keys: Any) -> Any:
    ports_ = {"monitor_port": 1, "data_port": 2, "train_state_port": 3}
    (folder / "conf.json").write_text(json.dumps({"socket_info": ports_, **keys}), encoding="utf-8")
    return load_config(folder / "conf.json")


@pytest.mark.parametrize(
    ("address", "inside"),
    [("127.0.0.1", True), ("::1", True), ("::ffff:127.0.0.1", True), ("10.0.0.1", False), ("", False), ("x", False)],
)
def test_which_addresses_are_this_machine(address: str, *, inside: bool) -> None:
    assert is_loopback(address) is inside
    assert listens_outside(address) is not inside


def test_the_certificate_names_every_address_of_this_machine() -> None:
    names = our_names("10.9.8.7")
    assert {"localhost", "127.0.0.1", "::1", "10.9.8.7", socket.gethostname()} <= set(names)
    assert "0.0.0.0" not in our_names("0.0.0.0")  # noqa: S104  (nothing is bound)


# -- pinning --------------------------------------------------------------------------------------------------


def test_a_fingerprint_may_be_written_as_other_programs_write_it(tmp_path: Path) -> None:
    own = certificates(tmp_path)
    own.ensure()
    plain = fingerprint(own.authority.read_text(encoding="ascii"))
    digits = plain.removeprefix("sha256:").upper()
    assert normal(f"SHA256:{digits}") == plain
    assert normal(":".join(digits[i : i + 2] for i in range(0, 64, 2))) == plain
    for wrong in ("", "sha256:12", "md5:" + digits, digits[:-1] + "g"):
        with pytest.raises(ValueError, match="not a fingerprint"):
            normal(wrong)


@pytest.mark.parametrize("days", [-400, 400], ids=["a clock far behind", "a clock far ahead"])
def test_a_wrong_clock_keeps_nobody_from_the_master_that_was_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            own = OwnCertificates(tmp_path / "task_info" / "tls", our_names("127.0.0.1"))
            # To a clock that is behind, this certificate begins later; to one that is ahead, it has ended.
            own.ensure(datetime.now(UTC) - timedelta(days=days))
            context = context_of(own.shown.read_bytes())
            monkeypatch.setattr(master.tls, "context", lambda: context)
            peer = await encrypted(master, pem=own.authority.read_text(encoding="ascii"))
            assert (await peer.call("server.info"))["user"]

    run(story())


# -- the ports ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("port", [DATA, TASKS, NODES])
def test_each_port_speaks_tls_and_plain_text(tmp_path: Path, port: str) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            for peer in (await encrypted(master, port), await master.peer(port)):
                assert (await peer.call("server.info"))["user"]

    run(story())


def test_large_answers_and_pushes_come_whole_through_tls(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            master.online()
            follower = await encrypted(master, TASKS)
            await follower.call("subscribe")
            peer = await encrypted(master)
            commands = [f"echo {number} {'x' * 1000}" for number in range(500)]
            await peer.call("task.submit_batch", commands=commands)
            listed = (await peer.call("task.list"))["tasks"]
            assert [task["command"] for task in listed] == commands
            told: set[int] = set()
            while told != set(range(1, 501)):  # those that start are told twice
                told.add((await follower.notification())["params"]["task"]["id"])

    run(story())


def test_a_client_with_the_wrong_pin_says_nothing_to_the_master(tmp_path: Path) -> None:
    async def story() -> None:
        other = OwnCertificates(tmp_path / "other", ["x"])
        other.ensure()
        async with InProcess(tmp_path) as master:
            with pytest.raises(ssl.SSLCertVerificationError):
                await encrypted(master, pem=other.authority.read_text(encoding="ascii"))
            await settled(lambda: not master.port_server.connections)

    run(story())


def test_an_old_tls_is_refused(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            master.tls.context()
            context = unverified()
            context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
            context.maximum_version = ssl.TLSVersion.TLSv1_1
            with pytest.raises((ssl.SSLError, ConnectionResetError)):  # the alert, or what follows it before it is read
                await asyncio.open_connection(*master.address(), ssl=context)
            assert master.tls.context().minimum_version is ssl.TLSVersion.TLSv1_2

    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        run(story())


@pytest.mark.parametrize("port", [DATA, NODES, TASKS])
def test_a_cipher_without_forward_secrecy_or_authentication_is_refused_on_each_port(tmp_path: Path, port: str) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            master.tls.context()

            async def speak(ciphers: str) -> None:
                context = unverified()
                context.maximum_version = ssl.TLSVersion.TLSv1_2
                context.set_ciphers(ciphers)
                _, writer = await asyncio.open_connection(*master.address(port), ssl=context)
                writer.close()

            await speak("ECDHE-ECDSA-AES128-GCM-SHA256")
            for cipher in (
                "ECDHE-ECDSA-AES128-SHA256",
                "ECDHE-ECDSA-AES256-SHA",
                "DHE-RSA-AES128-GCM-SHA256",
                "AES128-GCM-SHA256",
            ):
                with pytest.raises((ssl.SSLError, ConnectionResetError)):
                    await speak(cipher)

    run(story())


GARBAGE = {
    "random bytes": b"\x16" + bytes(range(1, 200)),
    "a record of another protocol": b"\x16\x03\x01\x00\x05hello\n",
    "JSON behind it": b"\x16" + INFO,
}


@pytest.mark.parametrize("said", GARBAGE.values(), ids=GARBAGE)
def test_what_only_begins_like_tls_is_closed_with_a_line_in_the_log(
    tmp_path: Path, said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            peer.send(said)
            await eof(peer)
            await settled(lambda: not master.port_server.connections)
            assert (await (await master.peer()).call("server.info"))["user"]

    with caplog.at_level(logging.WARNING):
        run(story())
    assert "no TLS came about" in caplog.text
    assert "Traceback" not in caplog.text


def test_a_handshake_that_never_ends_is_given_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HANDSHAKE_S", 0.2)

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            peer.send(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a hello that is announced as 512 bytes
            assert await eof(peer) == b""
            await settled(lambda: not master.port_server.connections)

    with caplog.at_level(logging.WARNING):
        run(story())
    assert "no TLS came about" in caplog.text


def test_a_tls_client_that_says_nothing_is_given_up_like_any_other(tmp_path: Path, leap: Leap) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await encrypted(master, TASKS)
            leap(LIMITS.handshake_s)
            assert await eof(peer) == b""

    run(story())


@pytest.fixture
def _from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every peer of this machine passes for one of another."""
    monkeypatch.setattr(connection, "is_loopback", lambda _address: False)


@pytest.mark.usefixtures("_from_outside")
def test_plain_text_from_another_machine_is_refused_and_told_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            plain = await master.peer()
            plain.send(INFO)
            message = json.loads(await eof(plain))
            assert message["error"]["data"]["code"] == "unauthenticated"
            assert "TLS" in message["error"]["message"]
            assert (await (await encrypted(master)).call("server.info"))["user"]

    with caplog.at_level(logging.WARNING):
        run(story())
    assert str(Message("no_plain_text")) in caplog.text


@pytest.mark.usefixtures("_from_outside")
def test_with_tls_off_everybody_speaks_plain_text_and_tls_is_told_apart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            master.port_server.tls = Tls.of(config(tmp_path, tls="off"))
            assert (await (await master.peer()).call("server.info"))["user"]
            peer = await master.peer()
            peer.send(b"\x16\x03\x01\x02\x00")
            assert await eof(peer) == b""
            assert not (tmp_path / "task_info" / "tls").exists()

    with caplog.at_level(logging.WARNING):
        run(story())
    assert "it speaks TLS, which this master does not" in caplog.text


def test_each_connection_costs_a_small_buffer_only() -> None:
    assert asyncio.sslproto.SSLProtocol.max_size == policy.READ_BYTES


# -- the ports ------------------------------------------------------------------------------------------------


def test_no_thread_is_started_to_look_up_an_address_that_is_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "run_in_executor", None)
        for address in ("127.0.0.1", "::1", ""):
            (await listen(address, 0, 1, socket.socket.close)).close()

    asyncio.run(story())


def test_an_address_that_is_a_name_is_looked_up() -> None:
    async def story() -> None:
        (await listen("localhost", 0, 1, socket.socket.close)).close()
        with pytest.raises(OSError, match=r"\S"):
            await listen("no-such-name.invalid", 0, 1, socket.socket.close)

    asyncio.run(story())
