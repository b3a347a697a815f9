"""The request that names the lab: it costs no round trip, and nothing is believed of who does not answer it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from client.api import connect
from tests.client.fake_master import FakeMaster, Refusal
from tests.faults import refusing
from wire.errors import ConflictError, MusterError, ProtocolError
from wire.lab import path_of, read

ONE, OTHER = "1" * 32, "2" * 32


def lab_at(folder: Path, port: int, identity: str = "") -> str:
    folder.mkdir(exist_ok=True)
    conf = folder / "conf.json"
    ports = dict.fromkeys(("monitor_port", "data_port", "train_state_port"), port)
    conf.write_text(json.dumps({"socket_info": ports}))
    if identity:
        Path(path_of(str(conf))).write_text(json.dumps({"lab": identity, "conf": str(conf)}))
    return str(conf)


@contextmanager
def answers(reply: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> Iterator[tuple[int, list[Any]]]:
    """A server that reads once, and answers what it has read by then."""
    seen: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            there, _ = server.accept()
            with there:
                asked = [json.loads(line) for line in there.recv(1 << 16).splitlines()]
                seen.extend(asked)
                there.sendall(b"".join(json.dumps(one).encode() + b"\n" for one in reply(asked)))

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1], seen
        thread.join()


def test_it_goes_out_together_with_the_first_request(tmp_path: Path) -> None:
    def reply(asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{"id": one["id"], "result": {"lab": ONE, "user": "ada"}} for one in asked]

    with answers(reply) as (port, seen), connect(conf=lab_at(tmp_path / "lab", port, ONE)) as client:
        assert client.info()["user"] == "ada"
    assert [one["method"] for one in seen] == ["server.hello", "server.info"]
    assert seen[0]["params"]["lab"] == ONE


def test_it_goes_before_a_token(tmp_path: Path) -> None:
    refused = {"code": -32002, "message": "no", "data": {"code": "conflict"}}
    with (
        answers(lambda asked: [{"id": one["id"], "error": refused} for one in asked]) as (port, seen),
        refusing(ConflictError, "lab_differs_held", at=f"127.0.0.1:{port}"),
    ):
        connect(conf=lab_at(tmp_path / "lab", port, ONE), token="t")  # noqa: S106  (of nobody)
    assert [one["method"] for one in seen] == ["server.hello", "auth.token"]


@pytest.mark.parametrize("identity", [ONE, ""])
def test_the_answer_is_compared_here_too(tmp_path: Path, identity: str) -> None:
    with FakeMaster({"server.hello": lambda _: {"lab": OTHER}, "server.info": lambda _: {}}) as master:
        conf = lab_at(tmp_path / "lab", master.port, identity)
        with connect(conf=conf) as client:
            if identity:
                with refusing(ConflictError, "lab_differs_held", ours=str(Path(conf).resolve())):
                    client.info()
            else:
                assert client.info() == {}, "then the master compares the conf.json"
    ((_, said), *_) = master.calls
    assert said["conf"] == str(Path(conf).resolve())


def test_who_answers_the_call_and_not_which_lab_it_is_is_no_master(tmp_path: Path) -> None:
    with (
        answers(lambda asked: [{"id": asked[-1]["id"], "result": {}}]) as (port, _),
        connect(conf=lab_at(tmp_path / "lab", port, ONE)) as client,
        pytest.raises(ProtocolError),
    ):
        client.info()


@pytest.mark.parametrize(("code", "is_accepted"), [("unknown_method", True), ("limit", False), ("internal", False)])
def test_only_a_master_that_does_not_know_it_is_accepted(tmp_path: Path, code: str, *, is_accepted: bool) -> None:
    def refuse(_params: dict[str, Any]) -> Any:
        raise Refusal(code, "no")

    with FakeMaster({"server.hello": refuse, "server.info": lambda _: {"user": "ada"}}) as master:
        noted: list[str] = []
        with connect(conf=lab_at(tmp_path / "lab", master.port, ONE)) as client:
            client.session.on_unnamed = lambda: noted.append("unnamed")
            if is_accepted:
                assert client.info()["user"] == "ada"
            else:
                with pytest.raises(MusterError):
                    client.info()
    assert len(noted) == is_accepted


def test_a_lab_named_by_its_address_is_not_compared() -> None:
    with FakeMaster({"server.info": lambda _: {}}) as master, connect(master=f"127.0.0.1:{master.port}") as client:
        master.verbs["server.hello"] = lambda _: {"lab": OTHER}
        client.info()
    assert [name for name, _ in master.calls] == ["server.info"]


def test_the_first_start_in_a_moved_folder_may_give_it_another_identity(tmp_path: Path) -> None:
    """`up` has read the one before."""
    with FakeMaster({"server.hello": lambda _: {"lab": OTHER}, "server.info": lambda _: {}}) as master:
        conf = lab_at(tmp_path / "lab", master.port)
        Path(path_of(conf)).write_text(json.dumps({"lab": ONE, "conf": str(tmp_path / "before" / "conf.json")}))
        with connect(conf=conf) as client:
            assert client.info() == {}
    assert master.calls[0][1]["lab"] == ""


def test_a_copy_is_known_for_one_while_the_lab_that_it_was_made_of_is_there(tmp_path: Path) -> None:
    first = lab_at(tmp_path / "first", 7, ONE)
    (tmp_path / "second").mkdir()
    second = tmp_path / "second" / "conf.json"
    for end in ("", ".lab"):
        second.with_name(f"conf.json{end}").write_bytes(Path(first + end).read_bytes())
    (tmp_path / "link").symlink_to(tmp_path / "first")
    assert (read(first).identity, read(str(tmp_path / "link" / "conf.json")).identity) == (ONE, ONE)
    assert (read(str(second)).identity, read(str(second)).copied_from) == ("", first)
    Path(first).rename(tmp_path / "first" / "gone")
    assert (read(str(second)).identity, read(str(second)).copied_from) == (ONE, ""), "it was moved"
