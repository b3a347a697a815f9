"""A lab's own certificate on the real ports: who believes it, and what open connections notice when it is replaced."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from cryptography import x509

from master.tls.policy import Tls
from master.tls.shown import Shown, context_of
from tests.certificates import Made, authority, made
from tests.master.in_process import InProcess, Peer, run
from wire.console import TlsFiles
from wire.pinning import ENDED, NOT_YET, OTHER_NAMES, doubt, pinned

ROOT = authority()
STRANGER = authority()
"""Another one of the same name."""


def lay(folder: Path, *chain: Made, key: Made | None = None) -> None:
    (folder / "cert.pem").write_bytes(b"".join(one.pem for one in chain))
    (folder / "key.pem").touch(0o600)
    (folder / "key.pem").write_bytes((key or chain[0]).key_pem)


def bring(master: InProcess, *chain: Made) -> Tls:
    """Have the ports show this."""
    lay(master.folder, *chain)
    tls = Tls.of(msgspec.structs.replace(master.place.config, tls=TlsFiles("cert.pem", "key.pem")))
    master.tls = master.port_server.tls = master.place.reports.tls = tls
    return tls


async def come(master: InProcess, name: str = "queue", pin: bytes | None = None, *, is_shown: bool = False) -> Peer:
    """A client that has pinned the authority, and calls the master `name`."""
    context = pinned((pin or ROOT.pem).decode(), is_shown=is_shown)
    peer = Peer(*await asyncio.open_connection(*master.address(), ssl=context, server_hostname=name))
    master.peers.append(peer)
    return peer


def seen(peer: Peer) -> x509.Certificate:
    return x509.load_der_x509_certificate(peer.writer.get_extra_info("ssl_object").getpeercert(binary_form=True))


def test_who_pinned_the_authority_comes_in_by_each_name_of_the_certificate(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            between = authority("Lab CA 2", ROOT)
            tls = bring(master, made("queue", between, ["queue", "127.0.0.1"]), between, ROOT)
            for name in ("queue", "127.0.0.1"):
                assert (await (await come(master, name, tls.authority().encode())).call("server.info"))["user"]

    run(story())


def test_by_another_name_it_is_refused_and_told_so(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            bring(master, made("queue", ROOT, ["queue"]), ROOT)
            for name in ("elsewhere", "127.0.0.1"):
                with pytest.raises(ssl.SSLCertVerificationError) as refused:
                    await come(master, name)
                assert doubt(refused.value) == OTHER_NAMES

    run(story())


@pytest.mark.parametrize(("days", "told"), [((-30.0, -1.0), ENDED), ((1.0, 30.0), NOT_YET)])
def test_one_that_does_not_hold_now_is_refused_and_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: tuple[float, float], told: str
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            tls = bring(master, made("queue", ROOT, ["queue"]), ROOT)
            leaf = made("queue", ROOT, ["queue"], days)
            monkeypatch.setattr(tls, "context", lambda: context_of(leaf.key_pem + leaf.pem))  # time went by since
            with pytest.raises(ssl.SSLCertVerificationError) as refused:
                await come(master)
            assert doubt(refused.value) == told
            # On the master's own machine one can still ask what is the matter.
            assert (await (await come(master, "elsewhere", leaf.pem, is_shown=True)).call("server.info"))["user"]

    run(story())


def test_another_authority_of_the_same_name_is_no_matter_of_dates_or_names(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            bring(master, made("queue", STRANGER, ["queue"]), STRANGER)
            for pin, is_shown in ((ROOT.pem, False), (made("queue", ROOT, ["queue"]).pem, True)):
                with pytest.raises(ssl.SSLCertVerificationError) as refused:
                    await come(master, pin=pin, is_shown=is_shown)
                assert doubt(refused.value) == ""

    run(story())


def test_a_certificate_is_replaced_while_connections_live(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            first, between = made("queue", ROOT, ["queue"]), authority("Lab CA 3", ROOT)
            second = made("queue", between, ["queue"])
            tls = bring(master, first, ROOT)
            early = await come(master)
            lay(master.folder, second, between, ROOT, key=first)  # the key is still on its way
            tls.look(datetime.now(UTC))
            assert [one.key for one in tls.told(datetime.now(UTC)).problems] == ["tls_refused"]
            assert seen(await come(master)) == first.certificate
            lay(master.folder, second, between, ROOT)
            tls.look(datetime.now(UTC))
            late = await come(master)
            assert (seen(early), seen(late)) == (first.certificate, second.certificate)
            for peer in (early, late):
                assert (await peer.call("server.info"))["user"]

    run(story())


@pytest.mark.parametrize(
    ("names", "host", "called"),
    [
        ((), "queue", "queue"),
        (("other.example", "queue"), "queue", "queue"),
        (("other.example", "queue.lab.example"), "queue", "queue.lab.example"),
        (("*.lab.example", "queue.other"), "a.lab.example", "a.lab.example"),
        (("*.lab.example", "queue.other"), "10.0.0.7", "queue.other"),
        (("*.lab.example",), "10.0.0.7", "10.0.0.7"),
    ],
)
def test_a_host_is_called_by_a_name_that_clients_believe(names: tuple[str, ...], host: str, called: str) -> None:
    root = made("queue", None, ["queue"])
    shown = Shown(context_of(root.key_pem + root.pem), "", datetime.now(UTC), names)
    assert shown.callable_as(host) == called
