"""Every verb of the table with parameters that are wrong: an error with a stable code, and nothing changed."""

from __future__ import annotations

import base64
import os
import socket
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from client.task_list import whole_tasks
from master.verbs.spec import ALL_BYTES, WORD_BYTES
from master.verbs.table import VERBS
from tests.master.in_process import InProcess, Peer, run
from tests.master.shared_master import check_on_shared_masters
from tests.master.verbs.parameters import required
from tests.waiting import settled
from wire.errors import MusterError, from_code
from wire.message import Message

WRONG: tuple[Any, ...] = ({"no": {"such": []}}, [[]], "\0", 1.5, -(2**70), True, None)
CODES = {"bad_request", "not_found", "conflict", "impossible", "limit", "config", "node_unreachable", "unauthenticated"}


class Case(NamedTuple):
    """A verb and one of its parameters."""

    verb: str
    field: str


CASES = [Case(name, field.encode_name) for name, verb in VERBS.items() for field in msgspec.structs.fields(verb.params)]


async def _refused_or_fine(peer: Peer, verb: str, params: dict[str, Any]) -> str | None:
    """Call; the code of the error or None. That the master met a defect is never an answer."""
    message = await peer.answer(peer.ask(verb, **params))
    if "error" not in message:
        return None
    code = message["error"]["data"]["code"]
    # An admin may do everything but submit in another's name, be that a name or not, and call for others.
    is_for_others = message["error"]["data"].get("key") in {"name_for_root", "relay_for_console"}
    assert code in CODES or (code == "forbidden" and is_for_others), message
    assert type(from_code(code, "")) is not MusterError
    assert "\n" not in message["error"]["message"]
    assert "Traceback" not in message["error"]["message"]
    return str(code)


async def one_task(peer: Peer) -> None:
    """The master has a task."""
    await peer.call("task.submit", command="kept", name="kept")


def noun_of(case: Case) -> str:
    return case.verb.partition(".")[0]


async def check_wrong_kinds(_master: InProcess, peer: Peer, case: Case) -> bool:
    params = {**required(case.verb), case.field: WRONG[0]}
    assert await _refused_or_fine(peer, case.verb, params) == "bad_request"
    codes = [await _refused_or_fine(peer, case.verb, {**params, case.field: value}) for value in WRONG[1:]]
    if case.verb != "server.hello":  # nothing more is done for whoever means another lab
        await peer.call("server.info")
    only_looks = VERBS[case.verb].scope == "read" and case.verb != "subscribe"
    return only_looks or set(codes) == {"bad_request"}


@pytest.mark.real
@pytest.mark.parametrize("noun", list(dict.fromkeys(noun_of(case) for case in CASES)))
def test_a_parameter_of_the_wrong_kind_is_refused(tmp_path: Path, noun: str) -> None:
    named = {".".join(case): case for case in CASES if noun_of(case) == noun}
    check_on_shared_masters(tmp_path, named, check_wrong_kinds, one_task)


async def check_nonsense_and_missing(master: InProcess, peer: Peer, verb: str) -> bool:
    code, message = await peer.refusal(verb, **required(verb), nonsense=1)
    assert (code, "nonsense" in message) == ("bad_request", True)
    for name in required(verb):
        params = {key: value for key, value in required(verb).items() if key != name}
        code, message = await peer.refusal(verb, **params)
        assert (code, name in message) == ("bad_request", True)
    assert not master.place.stopped
    assert not master.core.tasks
    return True


def test_a_parameter_that_does_not_exist_or_is_missing_is_named(tmp_path: Path) -> None:
    assert check_on_shared_masters(tmp_path, {verb: verb for verb in VERBS}, check_nonsense_and_missing) == 1


async def check_unknown_ids(_master: InProcess, peer: Peer, verb: str) -> bool:
    for number in (1, 2**40, 2**70):
        code, message = await peer.refusal(verb, **{**required(verb), "id": number})
        assert (code, str(number) in message) == ("not_found", True)
    return True


def test_a_task_that_does_not_exist_is_not_found(tmp_path: Path) -> None:
    named = {verb: verb for verb in VERBS if "id" in required(verb)}
    assert check_on_shared_masters(tmp_path, named, check_unknown_ids) == 1


def test_a_verb_that_does_not_exist_is_told_from_those_that_do(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            code, message = await peer.refusal("task.sumbit", command="true")
            assert code == "unknown_method"
            assert "task.submit" in message

    run(story())


SPECS: list[tuple[dict[str, Any], str | Message]] = [
    ({"command": ""}, "command"),
    ({"command": []}, "command"),
    ({"command": [" ", "\t"]}, "command"),
    ({"command": "a\0b"}, "command"),
    ({"command": ["a", 1]}, "command"),
    ({"command": "x" * (WORD_BYTES + 1)}, "command"),
    ({"command": ["中" * (WORD_BYTES // 3)] * (ALL_BYTES // WORD_BYTES + 2)}, "command"),
    ({"command": "true", "setup": "x" * WORD_BYTES}, "command"),
    ({"gpus": 9}, "GPU"),
    ({"gpus": -1}, "gpus"),
    ({"gpus": True}, "gpus"),
    ({"gpus": "1"}, "gpus"),
    ({"gpu_ids": []}, "gpu_ids"),
    ({"gpu_ids": [1, 1]}, "gpu_ids"),
    ({"gpu_ids": [8]}, "GPU 8"),
    ({"gpu_ids": [1], "gpus": 2}, "gpu_ids"),
    ({"cpus": 0}, "cpus"),
    ({"share": True}, Message("needs_gpus", field="share")),
    ({"gpu_models": ["A100"]}, Message("needs_gpus", field="gpu_models")),
    ({"gpus": 3, "gpus_max": 2}, Message("bad_gpus_max", most=2, least=3)),
    ({"gpus": 1, "gpu_memory_mib": 0}, "gpu_memory_mib"),
    ({"licences": {"x": 0}}, "licences"),
    ({"node": "nowhere"}, "nowhere"),
    ({"after": [{"id": 99}]}, "99"),
    ({"after": [{"id": 1, "on": "maybe"}]}, "after"),
    ({"after": [1]}, "after"),
    ({"priority": 10**9}, "priority"),
    ({"time_limit_s": 0}, "time_limit_s"),
    ({"time_limit_s": 1e300}, "time_limit_s"),
    ({"begin_at": -1}, "begin_at"),
    ({"begin_at": 1e300}, "begin_at"),
    ({"begin_at": "22:00"}, "begin_at"),
    ({"on_timeout": "again"}, "on_timeout"),
    ({"on_timeout": "requeue"}, "give time_limit_s"),
    ({"max_retries": -1}, "max_retries"),
    ({"max_retries": 1001}, "max_retries"),
    ({"max_retries": True}, "max_retries"),
    ({"retry_on": ["fail"]}, Message("retries_not_counted")),
    ({"max_retries": 1, "retry_on": ["failed"]}, "retry_on"),
    ({"max_retries": 1, "retry_on": "fail"}, "retry_on"),
    ({"signal": {"name": "USR1", "before_s": 5}}, Message("signal_without_limit", name="USR1")),
    (
        {"signal": {"name": "USR1", "before_s": 60}, "time_limit_s": 60},
        Message("signal_before_start", name="USR1", early=60.0, limit=60.0),
    ),
    ({"signal": {"name": "KILL", "before_s": 5}, "time_limit_s": 60}, 'expected "ABRT" or "ALRM"'),
    ({"signal": {"name": "USR1", "before_s": 0}, "time_limit_s": 60}, "signal.before_s"),
    ({"signal": {"name": "USR1"}, "time_limit_s": 60}, "before_s"),
    ({"env": "a; rm -rf /"}, "env"),
    ({"env": "$(id)"}, "env"),
    ({"cwd": "/\0"}, "cwd"),
    ({"log": "\0"}, "log"),
    ({"name": "x" * 201}, "name"),
    ({"variables": {"1A": "x"}}, "variables"),
    ({"variables": {"A;B": "x"}}, "variables"),
    ({"variables": {"A": "\0"}}, "variables"),
    ({"variables": {"A": 1}}, "variables"),
    ({"variables": {"CUDA_VISIBLE_DEVICES": "0"}}, "CUDA_VISIBLE_DEVICES"),
    ({"variables": {"MUSTER_LAUNCH_ID": "x"}}, "MUSTER_LAUNCH_ID"),
    ({"variables": {"A": "x" * (WORD_BYTES + 1)}}, "variables"),
]
"""What a task cannot be, and its refusal, or what that names."""


async def check_spec(master: InProcess, peer: Peer, case: tuple[dict[str, Any], str | Message]) -> bool:
    spec, why = case
    for verb in ("task.submit", "task.submit_batch"):
        params = {"command": "true", **spec}
        if verb == "task.submit_batch":
            params["commands"] = [params.pop("command")]
        code, told = await peer.told(verb, **params)
        assert code in {"bad_request", "not_found", "impossible"}
        is_told = why in str(told) if isinstance(why, str) else told == why
        assert is_told or verb == "task.submit_batch", repr(told)
    assert master.core.next_id == 2
    await peer.refusal("task.edit", id=1, changes=spec)
    task = await peer.call("task.show", id=1)
    assert (task["command"], task["gpus"], task["state"]) == ("kept", 0, "waiting")
    return True


def test_a_task_that_cannot_be_is_refused_whether_submitted_or_edited(tmp_path: Path) -> None:
    named = {f"{number}: {str(case)[:100]}": case for number, case in enumerate(SPECS)}
    assert check_on_shared_masters(tmp_path, named, check_spec, one_task) == 1


def test_a_batch_with_one_bad_command_files_none(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            assert (await peer.refusal("task.submit_batch", commands=["true", " "]))[0] == "bad_request"
            assert (await peer.refusal("task.submit_batch", commands=[]))[0] == "bad_request"
            assert (await peer.refusal("task.submit_batch", commands=["true"], log="x"))[0] == "bad_request"
            assert not master.core.tasks

    run(story())


def test_chinese_names_and_every_quote_come_back_as_they_went(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            command = ["训练 \"a\" 'b' `c` $d \\ \n😀"]
            sent = {"command": command, "name": "名字", "project": "项目", "variables": {"A": "“值”"}, "cwd": "数据 1"}
            await peer.call("task.submit", **sent)
            task = await peer.call("task.show", id=1)
            assert {key: task[key] for key in ("command", "name", "project", "variables")} == {
                key: sent[key] for key in ("command", "name", "project", "variables")
            }
            assert task["cwd"] == str(tmp_path / "数据 1")
            assert (await peer.call("task.list", search="名字"))["total"] == 1
        async with InProcess(tmp_path) as master:
            assert master.core.tasks[1].command == command

    run(story())


def test_a_preview_files_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            waits = await peer.call("task.submit", command="true", gpus=1, dry_run=True)
            assert (waits["placement"], waits["possible"]) == (None, True)
            master.online()
            fits = await peer.call("task.submit", command="true", gpus=1, dry_run=True)
            no_reason = {"reason": None, "reason_key": None, "reason_args": None}
            there = {"node": "a", "gpus": [0], "gpu_mib": None}
            assert fits == {"possible": True, "placement": there, "placements": [there], **no_reason}
            never = await peer.call("task.submit", command="true", gpus=9, dry_run=True)
            assert never["reason"].startswith("can never start")
            assert (never["reason_key"], never["reason_args"]["why"]["key"]) == ("never", "asks_beyond")
            assert never["possible"] is False
            assert not master.core.tasks

    run(story())


def test_cancel_tells_apart_what_it_did(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            master.online()
            for gpus in (8, 8, 8):
                await peer.call("task.submit", command="true", gpus=gpus)
            await settled(lambda: master.effects)
            answer = await peer.call("task.cancel", ids=[1, 2, 2, 99])
            assert (answer["cancelled"], answer["signalled"], list(answer["refused"])) == ([2], [1], ["99"])
            assert (await peer.refusal("task.cancel"))[0] == "bad_request"
            assert (await peer.call("task.cancel", mine=True))["cancelled"] == [3]

    run(story())


def test_lists_are_paged_filtered_and_counted(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            await peer.call("task.submit_batch", commands=[f"echo {number}" for number in range(10)])
            await peer.call("task.cancel", ids=[1, 2])
            page = await peer.call("task.list", limit=3, offset=2)
            assert ([task["id"] for task in page["tasks"]], page["total"]) == ([5, 6, 7], 8)
            ended = await peer.call("task.list", active=False, ended=True)
            assert [task["id"] for task in ended["tasks"]] == [2, 1]
            assert (await peer.call("task.list", states=["cancelled"], search="ECHO 1"))["total"] == 1
            assert (await peer.call("task.list", user="nobody else"))["total"] == 0
            assert (await peer.call("task.list", user=""))["total"] == 0
            assert (await peer.call("task.list", ids=[1, 5]))["total"] == 2
            assert (await peer.refusal("task.list", states=["done"]))[0] == "bad_request"

    run(story())


# -- logs -----------------------------------------------------------------------------------------------------------


def test_a_log_may_be_named_by_the_id_of_the_task(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            await peer.call("task.submit", command="true", log="out-{id}.log", hold=True)
            assert master.core.find(1).log_path == str(tmp_path / "out-1.log")
            await peer.call("task.edit", id=1, changes={"log": "{id}/{id}"})
            assert master.core.find(1).log_path == str(tmp_path / "1/1")

    run(story())


def test_a_log_is_read_in_ranges_from_either_end(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            await peer.call("task.submit", command="true", log="out.log")
            assert (await peer.call("log.read", id=1))["size"] == 0
            (tmp_path / "out.log").write_bytes(bytes(range(256)) * 10)
            for offset, limit, expected in ((0, 4, b"\0\1\2\3"), (-2, 9, b"\xfe\xff"), (-(1 << 60), 1, b"\0")):
                piece = await peer.call("log.read", id=1, offset=offset, limit=limit)
                assert base64.b64decode(piece["data"]) == expected
            beyond = await peer.call("log.read", id=1, offset=1 << 62)
            assert (beyond["data"], beyond["ended"]) == ("", False)
            for params in ({"offset": 1 << 63}, {"offset": -(1 << 70)}, {"limit": (1 << 20) + 1}, {"limit": -1}):
                assert (await peer.refusal("log.read", id=1, **params))[0] == "bad_request"
            assert (await peer.refusal("log.read"))[0] == "bad_request"

    run(story())


@pytest.mark.parametrize("kind", ["folder", "pipe", "socket", "loop", "long"])
def test_a_log_that_is_no_file_is_refused_and_blocks_nobody(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ("x" * 300 if kind == "long" else "log")
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(f"/proc/self/fd/{(folder := os.open(tmp_path, os.O_PATH))}/log")
            os.close(folder)
    elif kind == "loop":
        path.symlink_to(path)

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            await peer.call("task.submit", command="true", log=path.name)
            code, message = await peer.refusal("log.read", id=1)
            assert (code, str(path) in message) == ("conflict", True)

    run(story())


def test_the_masters_own_log_can_be_read(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            (tmp_path / "server.log").write_text("hello", encoding="utf-8")
            peer = await master.peer()
            assert base64.b64decode((await peer.call("log.read", server=True))["data"]) == b"hello"

    run(story())


def test_the_answer_to_stop_leaves_before_the_end(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            assert await peer.call("server.stop") == {}
            assert master.place.stopped

    run(story())


def test_nodes_are_shown_by_name(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            node = await peer.call("node.show", name="a")
            assert (len(node["gpus"]), node["state"]) == (8, "connecting")
            code, message = await peer.refusal("node.show", name="b")
            assert (code, "a" in message) == ("not_found", True)

    run(story())


def test_every_part_of_the_list_is_the_part_that_the_whole_one_has_there(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            master.online()
            for _ in range(3):
                await peer.call("task.submit", command="true", gpus=1)
            await settled(lambda: len(master.core.active()) == 3)
            await peer.call("task.submit_batch", commands=["true"] * 4, hold=True)
            await peer.call("task.submit", command="true", gpus=1, hold=True, priority=5)
            whole = (await peer.call("task.list", search="true"))["tasks"]  # which looks at each of them
            assert len(whole) == 8
            for offset in range(10):
                for limit in (None, *range(10)):
                    part = await peer.call("task.list", offset=offset, limit=limit)
                    end = None if limit is None else offset + limit
                    assert [task["id"] for task in part["tasks"]] == [task["id"] for task in whole[offset:end]]
                    assert part["total"] == 8

    run(story())


def test_a_sparse_list_says_the_same_as_a_whole_one_in_fewer_words(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            await peer.call("task.submit_batch", commands=["true"] * 20, gpus=1)
            held = await peer.call("task.submit", command="true", hold=True)
            await peer.call("task.submit", command="true", after=[{"id": held["id"], "on": "any"}])
            await peer.call("task.cancel", ids=[3])
            whole = await peer.call("task.list", ended=True)
            sparse = await peer.call("task.list", ended=True, sparse=True)
            assert whole_tasks(sparse) == whole["tasks"]
            assert sparse["total"] == whole["total"] == 22
            assert len(str(sparse)) < len(str(whole)) / 2

    run(story())


def test_an_error_says_by_key_and_values_what_its_sentence_says(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            await peer.call("task.submit", command="true", hold=True)
            asked: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
                ("task.show", {"id": 7}, "no_task", {"id": 7}),
                ("task.retry", {"id": 1}, "cannot_retry", {"id": 1, "state": "held"}),
                ("task.hold", {}, "missing_key", {"where": "", "key": "id"}),
                ("task.submit", {"command": ""}, "no_command", {}),
                ("node.drain", {"name": "b"}, "unknown_node", {"node": "b", "nodes": one_name("a")}),
                ("file.list", {"path": "x/y"}, "not_visible", {"path": "x/y", "folders": ["data"]}),
            ]
            for verb, params, key, args in asked:
                error = (await peer.answer(peer.ask(verb, **params)))["error"]
                assert (error["data"]["key"], error["data"]["args"]) == (key, args)
            done = await peer.call("task.cancel", ids=[9])
            assert done["messages"] == {"9": {"key": "no_task", "args": {"id": 9}}}

    run(story())


def one_name(name: str) -> dict[str, object]:
    return {"parts": [name], "count": 1, "more": 0}
