"""A lab's own certificate and key, as bytes at a given time: what is refused, what is doubted, and what clients pin."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from master.tls.brought import system_roots
from master.tls.chain import leads_to
from master.tls.pair import TOLD_DAYS, Files, Pair, examine
from tests.certificates import Made, authority, made
from tests.faults import says
from wire.message import Message

NOW = datetime(2026, 3, 1, tzinfo=UTC)
FILES = Files("cert.pem", "key.pem")
CALLED = ("127.0.0.1", "localhost", "queue", "10.0.0.7")
ROOT = authority("Lab CA", days=(-4000, 4000))
BETWEEN = authority("Lab CA 2", ROOT, days=(-4000, 4000))
LEAF = made("queue", BETWEEN, ["queue.lab.example"], now=NOW)


def looked_at(
    *chain: Made, key: bytes | None = None, roots: bytes = b"", now: datetime = NOW, called: tuple[str, ...] = CALLED
) -> Pair | tuple[Message, ...]:
    cert = b"".join(one.pem for one in chain)
    return examine(FILES, cert, chain[0].key_pem if key is None else key, roots=roots, called=called, now=now)


def good(*chain: Made, roots: bytes = b"", now: datetime = NOW, called: tuple[str, ...] = CALLED) -> Pair:
    found = looked_at(*chain, roots=roots, now=now, called=called)
    assert isinstance(found, Pair), list(map(str, found))
    return found


def wrong(*chain: Made, key: bytes | None = None, now: datetime = NOW) -> list[str]:
    found = looked_at(*chain, key=key, now=now)
    assert not isinstance(found, Pair)
    for message in found:
        assert str(message).startswith((FILES.cert, FILES.key))  # the file stands at the head of what is told
    return [message.key for message in found]


def test_what_clients_pin_is_the_authority_at_the_top_of_the_file() -> None:
    pair = good(LEAF, BETWEEN, ROOT)
    assert (pair.authority.encode(), pair.warnings) == (ROOT.pem, ())
    assert pair.ends == LEAF.certificate.not_valid_after_utc


def test_where_the_system_knows_the_authority_it_need_not_be_in_the_file() -> None:
    others = authority("Another CA", days=(-4000, 4000))
    pair = good(LEAF, BETWEEN, roots=b"# a bundle\n" + others.pem + ROOT.pem)
    assert (pair.authority.encode(), pair.warnings) == (ROOT.pem, ())


def test_where_the_authority_is_nowhere_the_highest_issuer_is_pinned_and_that_is_doubted() -> None:
    pair = good(LEAF, BETWEEN)
    assert (pair.authority.encode(), [one.key for one in pair.warnings]) == (BETWEEN.pem, ["tls_no_authority"])


def test_one_that_signed_itself_is_its_own_authority_and_that_is_doubted() -> None:
    alone = made("queue", None, ["queue"], now=NOW)
    pair = good(alone)
    assert (pair.authority.encode(), [one.key for one in pair.warnings]) == (alone.pem, ["tls_self_signed"])


@pytest.mark.parametrize("chain", [(LEAF,), (LEAF, ROOT)], ids=["nothing above it", "only the authority"])
def test_a_missing_intermediate_is_named(chain: tuple[Made, ...]) -> None:
    assert wrong(*chain) == ["tls_chain_incomplete"]
    (told,) = looked_at(*chain)  # type: ignore[misc]
    assert (told.args["issuer"], told.args["subject"]) == ("CN=Lab CA 2", "CN=queue")


def test_the_key_of_another_certificate_is_told_with_both_files() -> None:
    assert wrong(LEAF, BETWEEN, ROOT, key=ROOT.key_pem) == ["tls_key_of_another"]
    assert wrong(BETWEEN, LEAF, ROOT, key=LEAF.key_pem) == ["tls_key_of_another", "tls_no_names"]  # in a wrong order


@pytest.mark.parametrize(
    ("days", "key"), [((-400, -1), "tls_ended"), ((-400, 0), "tls_ended"), ((1, 400), "tls_not_begun")]
)
def test_one_that_does_not_hold_now_is_refused(days: tuple[float, float], key: str) -> None:
    assert wrong(made("queue", ROOT, ["queue"], days, now=NOW), ROOT) == [key]


def test_an_issuer_that_has_ended_is_named() -> None:
    ended = made("Old CA", ROOT, days=(-400, -1), now=NOW, is_authority=True)
    (told,) = looked_at(made("queue", ended, ["queue"], now=NOW), ended, ROOT)  # type: ignore[misc]
    assert (told.key, told.args["subject"]) == ("tls_ended", "CN=Old CA")


def test_an_issuer_that_is_no_authority_breaks_the_chain() -> None:
    no_authority = made("queue", ROOT, ["queue"], now=NOW)
    assert wrong(made("other", no_authority, ["queue"], now=NOW), no_authority, ROOT) == ["tls_chain_wrong"]


def test_the_first_in_the_chain_to_end_counts() -> None:
    ends_first = made("Young CA", ROOT, days=(-1, 10), now=NOW, is_authority=True)
    pair = good(made("queue", ends_first, ["queue"], now=NOW), ends_first, ROOT)
    assert (pair.ends, pair.subject) == (ends_first.certificate.not_valid_after_utc, "CN=Young CA")


def test_a_certificate_without_names_or_for_clients_only_is_refused() -> None:
    assert wrong(made("queue", ROOT, now=NOW), ROOT) == ["tls_no_names"]
    assert wrong(made("queue", ROOT, ["queue"], now=NOW, usage=ExtendedKeyUsageOID.CLIENT_AUTH), ROOT) == [
        "tls_not_for_servers"
    ]
    assert good(made("queue", ROOT, ["queue"], now=NOW, usage=None), ROOT).warnings == ()


@pytest.mark.parametrize(
    ("names", "called", "is_ours"),
    [
        (["queue.lab.example"], ("queue",), True),
        (["queue.lab.example"], ("queue.lab.example", "localhost"), True),
        (["QUEUE"], ("queue",), True),
        (["*.lab.example"], ("queue",), True),
        (["*.lab.example"], ("queue.lab.example",), True),
        (["*.lab.example"], ("a.queue.lab.example",), False),
        (["10.0.0.7"], ("queue", "10.0.0.7"), True),
        (["10.0.0.8"], ("queue", "10.0.0.7"), False),
        (["other.example"], ("queue", "10.0.0.7"), False),
        (["localhost"], ("queue", "localhost"), False),
        (["other.example"], ("localhost", "127.0.0.1"), True),
    ],
)
def test_names_that_this_machine_does_not_have_are_doubted(
    names: list[str], called: tuple[str, ...], *, is_ours: bool
) -> None:
    pair = good(made("queue", ROOT, names, now=NOW), ROOT, called=called)
    assert [one.key for one in pair.warnings] == ([] if is_ours else ["tls_other_names"])


@pytest.mark.parametrize(
    ("left", "key", "values"),
    [
        (timedelta(days=TOLD_DAYS, seconds=1), None, {}),
        (timedelta(days=TOLD_DAYS), "tls_ends_soon", {"days": 30}),
        (timedelta(days=1, hours=5), "tls_ends_soon", {"days": 1}),
        (timedelta(0), "tls_ended", {"cert": "cert.pem", "subject": "CN=queue"}),
    ],
    ids=str,
)
def test_thirty_days_before_it_ends_that_is_told(left: timedelta, key: str | None, values: dict[str, Any]) -> None:
    pair = good(LEAF, BETWEEN, ROOT)
    message = pair.ending("cert.pem", pair.ends - left)
    assert (message is None) if key is None else says(message, key, **values)


@pytest.mark.parametrize(
    ("cert", "key", "wanted"),
    [
        (b"nonsense", LEAF.key_pem, "tls_no_certificate"),
        (b"", LEAF.key_pem, "tls_no_certificate"),
        (LEAF.key_pem, LEAF.key_pem, "tls_no_certificate"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", LEAF.key_pem, "tls_no_certificate"),
        (LEAF.pem + BETWEEN.pem + ROOT.pem, b"nonsense", "tls_no_key"),
        (LEAF.pem + BETWEEN.pem + ROOT.pem, b"", "tls_no_key"),
        (LEAF.pem + BETWEEN.pem + ROOT.pem, LEAF.pem, "tls_no_key"),
        (LEAF.pem + BETWEEN.pem + ROOT.pem, LEAF.locked_key_pem, "tls_key_locked"),
    ],
    ids=["nonsense", "empty", "a key", "damaged", "a nonsense key", "an empty key", "a certificate", "a password"],
)
def test_what_is_no_certificate_or_key_is_told_with_its_file(cert: bytes, key: bytes, wanted: str) -> None:
    (told,) = examine(FILES, cert, key, roots=b"", called=CALLED, now=NOW)  # type: ignore[misc]
    assert told.key == wanted
    assert "\n" not in str(told)


def test_a_key_may_lie_in_one_file_with_its_certificates() -> None:
    both = LEAF.pem + LEAF.key_pem + BETWEEN.pem + ROOT.pem
    assert isinstance(examine(FILES, both, both, roots=b"", called=CALLED, now=NOW), Pair)


def test_who_has_pinned_the_authority_believes_every_later_certificate_of_it() -> None:
    other_way = authority("Lab CA 3", ROOT, days=(-4000, 4000))
    later = good(made("queue", other_way, ["queue"], now=NOW), other_way, ROOT)
    assert leads_to(later.chain, ROOT.pem, NOW)
    assert not leads_to(later.chain, BETWEEN.pem, NOW)
    assert leads_to(good(LEAF, BETWEEN).chain, BETWEEN.pem, NOW)
    assert leads_to(good(LEAF, BETWEEN, ROOT).chain, LEAF.pem, NOW)


def test_the_authorities_of_the_system_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lab.crt").write_bytes(ROOT.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "lab.crt"))
    assert good(LEAF, BETWEEN, roots=system_roots()).authority.encode() == ROOT.pem
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none"))
    (tmp_path / "certs").mkdir()
    (tmp_path / "certs" / "0a1b2c3d.0").write_bytes(ROOT.pem)
    (tmp_path / "certs" / "README").write_bytes(b"\xff")
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "certs"))
    assert system_roots() == ROOT.pem
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    assert system_roots() == b""
