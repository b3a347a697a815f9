"""The lab's directory: a real OpenLDAP server says whose a password is, and what answers otherwise is not believed."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.config.conf_file import Ldap
from master.people import ldap
from master.people.directory import THREADS, WAITING, Directory
from master.people.ldap import LdapError, escaped, result_of
from tests.certificates import Made, authority, made
from tests.faults import refused, refusing, said
from tests.master.people.slapd import BIND, Slapd
from tests.waiting import run_story, settled
from wire.errors import DirectoryError, LimitError
from wire.message import Message

PEOPLE: dict[str, str | None] = {"wang_wei": "otter-kettle-purple", "li_na": "纸船 and a lighthouse", "guest": None,
          r"o\22hara\2cou\3dothers": "seven wooden spoons"}  # fmt: skip
HERE = ["127.0.0.1"]


class Lab(NamedTuple):
    """A directory that runs, and the authority of its certificate."""

    slapd: Slapd
    ca: Made


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    ca = authority()
    slapd = Slapd(tmp_path_factory.mktemp("slapd"), PEOPLE, made("directory", ca, HERE), ca, takes_empty=True)
    slapd.start()
    try:
        yield Lab(slapd, ca)
    finally:
        slapd.stop()


def asked(url: str, ca: Path, bind: str = BIND, answer_s: float = 30.0) -> Directory:
    return Directory(Ldap(url, bind), ca, Path("conf.json"), answer_s=answer_s)


def says(directory: Directory, name: str, password: str) -> bool:
    async def story() -> bool:
        return await directory.check(name, password)

    return run_story(story())


def trouble(directory: Directory, caplog: pytest.LogCaptureFixture) -> str:
    """What the log says of a directory that cannot be asked."""
    caplog.clear()
    with caplog.at_level(logging.INFO, "muster.people"), pytest.raises(DirectoryError) as caught:
        says(directory, "wang_wei", "otter-kettle-purple")
    assert said(caught.value).key == "directory_silent"
    [line] = caplog.messages
    return line


# -- with a real server ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["ldaps", "ldap"])
def test_the_right_password_is_right_and_any_other_is_wrong(lab: Lab, way: str) -> None:
    directory = asked(getattr(lab.slapd, way), lab.slapd.ca)
    assert says(directory, "wang_wei", "otter-kettle-purple")
    assert says(directory, "li_na", "纸船 and a lighthouse")
    assert not says(directory, "wang_wei", "纸船 and a lighthouse")
    assert not says(directory, "nobody", "otter-kettle-purple")
    assert not says(directory, "guest", "otter-kettle-purple")


def test_an_empty_password_is_wrong_although_the_server_takes_it(lab: Lab) -> None:
    line = socket.create_connection(("127.0.0.1", lab.slapd.plain_port), 30)
    dn, nothing = BIND.replace("{user}", "wang_wei").encode(), b""
    with line:
        who = ldap._element(2, b"\3") + ldap._element(4, dn) + ldap._element(0x80, nothing)
        line.sendall(ldap._message(1, ldap._element(0x60, who)))
        answer = line.recv(100)
    assert result_of(answer[2:], 1, 0x61) == 0
    directory = asked(lab.slapd.ldaps, lab.slapd.ca)
    assert not says(directory, "wang_wei", "")
    with pytest.raises(ValueError, match="one of nobody"):
        ldap.bind(directory._server, dn.decode(), nothing, 30)


def test_a_name_is_a_name_whatever_it_looks_like(lab: Lab) -> None:
    directory = asked(lab.slapd.ldaps, lab.slapd.ca)
    assert says(directory, 'o"hara,ou=others', "seven wooden spoons")
    inside = asked(lab.slapd.ldaps, lab.slapd.ca, "uid={user},dc=lab")
    assert not says(inside, "wang_wei,ou=people", "otter-kettle-purple")
    assert not says(directory, "", "otter-kettle-purple")
    assert not says(directory, "\ud800", "otter-kettle-purple")


@pytest.mark.parametrize("way", ["ldaps", "ldap"])
def test_a_certificate_of_another_authority_is_not_believed(
    lab: Lab, way: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(authority("Another CA").pem)
    said = trouble(asked(getattr(lab.slapd, way), other), caplog)
    assert "its certificate is not believed: " in said


def test_the_system_believes_no_authority_of_ours(lab: Lab) -> None:
    directory = Directory(Ldap(lab.slapd.ldaps, BIND), None, Path("conf.json"))
    with pytest.raises(DirectoryError):
        says(directory, "wang_wei", "otter-kettle-purple")


@pytest.mark.parametrize(
    ("names", "days", "why"),
    [(["ldap.lab"], (-1, 365), "IP address mismatch"), (HERE, (-2, -1), "certificate has expired")],
    ids=["another name", "ended"],
)
def test_a_certificate_must_be_this_servers_and_hold(
    names: list[str], days: tuple[float, float], why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ca = authority()
    slapd = Slapd(tmp_path / "slapd", {}, made("directory", ca, names, days), ca)
    slapd.start()
    try:
        assert why in trouble(asked(slapd.ldaps, slapd.ca), caplog)
    finally:
        slapd.stop()


def test_a_server_without_tls_hears_no_password(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    slapd = Slapd(tmp_path / "slapd", PEOPLE, None)
    slapd.start()
    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority().pem)
    try:
        assert "it refuses StartTLS (result " in trouble(asked(slapd.ldap, ca), caplog)
    finally:
        slapd.stop()


def test_a_server_that_went_away_is_no_wrong_password_and_comes_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ca = authority()
    slapd = Slapd(tmp_path / "slapd", PEOPLE, made("directory", ca, HERE), ca)
    directory = asked(slapd.ldaps, slapd.ca)
    assert "Connection refused" in trouble(directory, caplog)
    slapd.start()
    try:
        with caplog.at_level(logging.INFO, "muster.people"):
            assert says(directory, "wang_wei", "otter-kettle-purple")
    finally:
        slapd.stop()
    assert caplog.messages[-1].endswith("answers again")
    assert "otter-kettle" not in caplog.text


def test_a_bind_name_that_is_none_is_the_labs_mistake_and_no_wrong_password(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    said = trouble(asked(lab.slapd.ldaps, lab.slapd.ca, "{user} of the lab"), caplog)
    assert "it answers with result 34" in said


# -- with servers that do wrong -------------------------------------------------------------------------------


@contextmanager
def server(conversation: Callable[[socket.socket], None]) -> Iterator[str]:
    """Something that listens and has its own idea of LDAP; gives its host and port."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

        def serve() -> None:
            try:
                line = listener.accept()[0]
            except OSError:
                return  # the test is over, and nobody came
            with line, suppress(OSError):  # who asked may leave when he likes
                conversation(line)

        thread = threading.Thread(target=serve)
        thread.start()
        stack.callback(thread.join)
        stack.callback(listener.shutdown, socket.SHUT_RDWR)
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    path = tmp_path / "some-ca.pem"
    path.write_bytes(authority().pem)
    return path


YES = ldap._message(1, ldap._element(0x78, ldap._element(10, b"\0") + ldap._element(4, b"") * 2))
LET_IN = ldap._message(2, ldap._element(0x61, ldap._element(10, b"\0") + ldap._element(4, b"") * 2))


def test_what_is_slipped_in_before_tls_begins_is_not_heard_behind_it(
    ca: Path, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[bytes] = []

    def conversation(line: socket.socket) -> None:
        line.recv(1000)
        line.sendall(YES + LET_IN)
        while piece := line.recv(1000):
            heard.append(piece)

    with server(conversation) as place:
        assert "cannot say who somebody is" in trouble(asked(f"ldap://{place}", ca), caplog)
    assert b"otter" not in b"".join(heard)


LONG_CODE = ldap._message(1, ldap._element(0x78, ldap._element(10, b"\x7f" * 2000) + ldap._element(4, b"") * 2))
"""More digits than Python writes."""
OTHER = ldap._message(1, ldap._element(0x61, ldap._element(10, b"\0") + ldap._element(4, b"") * 2))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "it closed the connection"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "what answers speaks no LDAP"),
        (b"0\x84\xff\xff\xff\xff", "its answer is too long"),
        (b"0\x85\0\0\0\0\1", "its answer is too long"),
        (b"0\x80\0\0", "its answer cannot be read"),
        (YES[:-1], "it closed the connection"),
        (YES.replace(b"\2\1\1", b"\2\1\2"), "it answers something else than was asked"),
        (OTHER, "it answers something else than was asked"),
        (LONG_CODE, "its answer cannot be read"),
    ],
    ids=["nothing", "HTTP", "endless", "a length of five bytes", "no length", "cut off", "another one's", "of a bind",
         "a long code"],
)  # fmt: skip
def test_what_is_no_answer_is_told_as_the_directorys_trouble(
    answer: bytes, why: str, ca: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def conversation(line: socket.socket) -> None:
        line.recv(1000)
        line.sendall(answer)

    with server(conversation) as place:
        assert trouble(asked(f"ldap://{place}", ca), caplog).endswith(f"cannot say who somebody is: {why}")


def test_a_server_that_says_nothing_is_not_waited_for(ca: Path, caplog: pytest.LogCaptureFixture) -> None:
    done = threading.Event()

    def conversation(_: socket.socket) -> None:
        done.wait(60)

    with server(conversation) as place:
        said = trouble(asked(f"ldaps://{place}", ca, answer_s=0.05), caplog)
        done.set()
    assert "it did not answer within 0.05 s" in said


def test_a_name_server_that_hangs_holds_nobody_up(
    ca: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    back = threading.Event()

    def hang(*_: object) -> socket.socket:
        back.wait(60)
        raise OSError

    monkeypatch.setattr(socket, "create_connection", hang)
    said = trouble(asked("ldaps://directory.lab", ca, answer_s=0.05), caplog)
    back.set()
    assert "it did not answer within 0.05 s" in said


def test_no_more_ask_at_once_than_there_is_room_for(ca: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    back, asking = threading.Event(), []

    def hang(*_: object) -> bool:
        asking.append(1)
        back.wait(60)
        return True

    monkeypatch.setattr(ldap, "bind", hang)

    async def story() -> None:
        directory = asked("ldaps://directory.lab", ca)
        calls = [asyncio.create_task(directory.check("wang_wei", "x")) for _ in range(THREADS + WAITING)]
        await settled(lambda: len(asking) == THREADS)
        with refusing(LimitError, "log_ins_busy", seconds=60):
            await directory.check("wang_wei", "x")
        back.set()
        assert await asyncio.gather(*calls) == [True] * (THREADS + WAITING)
        assert await directory.check("wang_wei", "x")

    run_story(story())


def test_the_same_trouble_is_told_once(ca: Path, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    directory = asked(f"ldaps://127.0.0.1:{port}", ca)
    assert "Connection refused" in trouble(directory, caplog)
    with pytest.raises(DirectoryError):
        says(directory, "wang_wei", "x")
    assert len(caplog.messages) == 1


# -- its parts ------------------------------------------------------------------------------------------------


@given(st.binary(max_size=60))
def test_an_answer_of_any_bytes_is_a_result_or_an_error_of_ours(data: bytes) -> None:
    with suppress(LdapError):
        assert result_of(data, 1, 0x61) >= 0


@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_a_name_in_a_dn_can_be_read_back_and_ends_where_it_ends(name: str) -> None:
    text = escaped(name)
    bare, back, at = b"", text.encode(), 0
    while at < len(back):
        is_escape = back[at : at + 1] == b"\\"
        if not is_escape:
            assert back[at : at + 1] not in (b'"', b"+", b",", b";", b"<", b">", b"=", b"\0")
        bare += bytes.fromhex(back[at + 1 : at + 3].decode()) if is_escape else back[at : at + 1]
        at += 3 if is_escape else 1
    assert bare.decode() == name
    assert not text.startswith((" ", "#"))
    assert not text.endswith(" ")


def test_a_file_of_authorities_that_is_none_is_told_with_its_key(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    missing = Message("file_missing", cure=Message("named_as_ldap_ca", path="conf.json"))
    assert refused(lambda: asked("ldaps://directory.lab", path)) == Message("in_file", path=str(path), fault=missing)
    for text in ("", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"):
        path.write_text(text, encoding="utf-8")
        empty = Message("ldap_ca_without_certificate", path=str(path))
        assert refused(lambda: asked("ldaps://directory.lab", path)) == Message(
            "in_file", path="conf.json", fault=empty
        )


def test_only_those_authorities_are_believed_and_only_for_the_hosts_name(ca: Path) -> None:
    context = asked("ldaps://directory.lab", ca)._server.context
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert len(context.get_ca_certs()) == 1
