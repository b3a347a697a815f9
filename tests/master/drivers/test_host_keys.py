"""Host keys: OpenSSH's own files are understood as OpenSSH does, and what an admin decided is kept."""

from __future__ import annotations

import base64
import errno
import os
import stat
import subprocess
from functools import partial
from pathlib import Path

import pytest

from master.drivers.host_keys import HostKeys, offered
from master.nodes.driver import OfferedKey
from tests.faults import refused
from tests.master.drivers.real_sshd import make_key
from wire.message import Message


def key(path: Path, kind: str = "ed25519") -> OfferedKey:
    text = make_key(path, kind).with_suffix(".pub").read_text(encoding="ascii")
    return offered(base64.b64decode(text.split()[1]))


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, OfferedKey]:
    folder = tmp_path_factory.mktemp("keys")
    return {name: key(folder / name, name.rstrip("2")) for name in ("ed25519", "ed255192", "rsa", "ecdsa")}


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return tmp_path / "task_info" / "known_hosts"


@pytest.fixture
def other(tmp_path: Path) -> Path:
    return tmp_path / "ssh_known_hosts"


def line(host: str, key: OfferedKey, marker: str = "") -> str:
    return f"{marker}{host} {key.type} {key.base64} a comment\n"


def test_fingerprints_are_those_of_ssh_keygen(tmp_path: Path) -> None:
    for kind in ("ed25519", "rsa", "ecdsa"):
        made = key(tmp_path / kind, kind)
        listed = subprocess.run(["ssh-keygen", "-lf", tmp_path / kind], capture_output=True, text=True, check=True)
        assert made.fingerprint == listed.stdout.split()[1]


def test_what_is_pinned_is_known_and_replaces_what_was(own: Path, keys: dict[str, OfferedKey]) -> None:
    store = HostKeys(own)
    assert store.lookup("10.0.0.1", 22).fingerprint is None
    store.pin("10.0.0.1", 22, keys["ed25519"])
    store.pin("10.0.0.2", 2222, keys["rsa"])
    known = store.lookup("10.0.0.1", 22)
    assert known.accepts(keys["ed25519"])
    assert not known.accepts(keys["ed255192"])
    assert (known.types, known.fingerprint) == (("ssh-ed25519",), keys["ed25519"].fingerprint)
    store.pin("10.0.0.1", 22, keys["ecdsa"])
    known = HostKeys(own).lookup("10.0.0.1", 22)
    assert known.accepts(keys["ecdsa"])
    assert not known.accepts(keys["ed25519"])
    assert HostKeys(own).lookup("10.0.0.2", 2222).accepts(keys["rsa"])
    assert HostKeys(own).lookup("10.0.0.2", 22).fingerprint is None
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    assert os.listdir(own.parent) == ["known_hosts"]  # noqa: PTH208


def test_openssh_finds_what_we_pinned_and_we_find_what_it_hashed(own: Path, keys: dict[str, OfferedKey]) -> None:
    store = HostKeys(own)
    store.pin("gpu1.lab", 22, keys["ed25519"])
    store.pin("10.0.0.9", 2022, keys["rsa"])
    for name in ("gpu1.lab", "[10.0.0.9]:2022"):
        subprocess.run(["ssh-keygen", "-F", name, "-f", own], check=True, capture_output=True)
    subprocess.run(["ssh-keygen", "-H", "-f", own], check=True, capture_output=True)
    assert "gpu1.lab" not in own.read_text(encoding="ascii")
    assert store.lookup("gpu1.lab", 22).accepts(keys["ed25519"])
    assert store.lookup("10.0.0.9", 2022).accepts(keys["rsa"])
    assert store.lookup("gpu2.lab", 22).fingerprint is None
    store.pin("gpu1.lab", 22, keys["ecdsa"])
    assert not store.lookup("gpu1.lab", 22).accepts(keys["ed25519"])
    assert store.lookup("10.0.0.9", 2022).accepts(keys["rsa"])


def test_pinning_leaves_everything_else_in_the_file(own: Path, keys: dict[str, OfferedKey]) -> None:
    own.parent.mkdir()
    kept = ["# a comment\n", "\n", "garbage\n", line("a", keys["rsa"], "@revoked "), line("*.lab", keys["rsa"])]
    own.write_text("".join(kept) + line("a,b", keys["ed25519"]) + line("a", keys["rsa"]), encoding="utf-8")
    HostKeys(own).pin("a", 22, keys["ecdsa"])
    text = own.read_text(encoding="utf-8")
    for old in kept:
        assert old.strip() in text
    assert line("b", keys["ed25519"]) in text
    assert HostKeys(own).lookup("a", 22).types == ("ecdsa-sha2-nistp256",)
    assert HostKeys(own).lookup("b", 22).accepts(keys["ed25519"])


def test_ours_is_believed_before_the_others_and_the_registry_before_ours(
    own: Path, other: Path, keys: dict[str, OfferedKey]
) -> None:
    other.write_text(line("a", keys["rsa"]) + line("a", keys["ecdsa"]), encoding="utf-8")
    store = HostKeys(own, (other, own.parent / "missing"))
    assert store.lookup("a", 22).types == ("ssh-rsa", "ecdsa-sha2-nistp256")
    store.pin("a", 22, keys["ed25519"])
    assert store.lookup("a", 22).types == ("ssh-ed25519",)
    text = f"{keys['rsa'].type} {keys['rsa'].base64}"
    for pinned in (text, f"{text} comment", keys["rsa"].fingerprint):
        known = store.lookup("a", 22, pinned)
        assert known.accepts(keys["rsa"])
        assert not known.accepts(keys["ed25519"])
        assert known.fingerprint == keys["rsa"].fingerprint
    for wrong in ("ssh-rsa", "AAAA", f"ssh-rsa {keys['ed25519'].base64}", "ssh-ed25519 AAAA", "MD5:00:11"):
        assert refused(partial(store.lookup, "a", 22, wrong)) == Message("host_key_wrong", found=wrong)


NAMES = [
    ("a,b", "b", 22, True),
    ("A.Lab", "a.lab", 22, True),
    ("*.lab", "x.lab", 22, True),
    ("*.lab,!y.lab", "y.lab", 22, False),
    ("10.0.0.?", "10.0.0.7", 22, True),
    ("10.0.0.?", "10.0.0.77", 22, False),
    ("[a]:2222", "a", 2222, True),
    ("[a]:2222", "a", 22, False),
    ("a", "a", 2222, False),
    ("[::1]:2222", "::1", 2222, True),
    ("::1", "::1", 22, True),
    ("|1|broken", "a", 22, False),
    ("|1|####|####", "a", 22, False),
]


@pytest.mark.parametrize("case", NAMES, ids=str)
def test_a_line_names_hosts_as_openssh_reads_it(
    case: tuple[str, str, int, bool], own: Path, other: Path, keys: dict[str, OfferedKey]
) -> None:
    hosts, host, port, found = case
    other.write_text(line(hosts, keys["rsa"]), encoding="utf-8")
    assert HostKeys(own, (other,)).lookup(host, port).accepts(keys["rsa"]) is found


def test_a_revoked_key_is_refused_wherever_else_it_stands(own: Path, other: Path, keys: dict[str, OfferedKey]) -> None:
    store = HostKeys(own, (other,))
    store.pin("a", 22, keys["rsa"])
    other.write_text(line("*", keys["rsa"], "@revoked "), encoding="utf-8")
    assert not store.lookup("a", 22).accepts(keys["rsa"])


def test_lines_that_make_no_sense_are_passed_over(own: Path, other: Path, keys: dict[str, OfferedKey]) -> None:
    good = line("a", keys["rsa"])
    bad = [
        "a",
        "a ssh-rsa",
        "a ssh-rsa !!!",
        "a ssh-rsa AAAA",
        "a ssh-dss AAAA",
        "@cert-authority " + good,
        "# " + good,
    ]
    for text in bad:
        other.write_bytes(text.encode() + b"\n\xff\xfe\n")
        assert HostKeys(own, (other,)).lookup("a", 22).fingerprint is None, text
        other.write_text(f"{text}\n{good}", encoding="utf-8")
        assert HostKeys(own, (other,)).lookup("a", 22).accepts(keys["rsa"]), text


def test_a_file_that_cannot_be_read_is_an_error_and_not_an_empty_one(own: Path) -> None:
    own.mkdir(parents=True)
    said = Message("host_keys_unreadable", path=str(own), detail=os.strerror(errno.EISDIR))
    assert refused(lambda: HostKeys(own).lookup("a", 22)) == said


def test_what_is_no_key_is_no_key() -> None:
    for blob in (b"", b"\0\0\0\1", b"\0\0\0\0rest", b"\xff\xff\xff\xffssh-rsa", b"\0\0\0\2\xc3\xa4rest"):
        with pytest.raises(ValueError, match=r"key|type|ascii"):
            offered(blob)
