"""conf.json and the registry are changed whole from afar: looked at first, over nobody's words, the one before kept."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.faults import says
from tests.master.in_process import Peer, run
from tests.master.verbs.lab import A, Lab
from tests.master.verbs.test_people import PASSWORD, People
from wire.message import Message

TOKEN = "influx-secret"  # noqa: S105
CONF: dict[str, Any] = {
    "socket_info": {"monitor_port": 1, "data_port": 2, "train_state_port": 3},
    "influx": {"url": "http://lab:8086", "org": "lab", "bucket": "gpus", "token": TOKEN},
}


def put(lab: Lab) -> Path:
    """A conf.json on the disk, which only its owner may read: it holds a secret."""
    path = lab.place.config.path
    path.write_text(json.dumps(CONF, indent=2), encoding="utf-8")
    path.chmod(0o600)
    return path


async def change(peer: Peer, old: str, new: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `conf.write` is to be given for a change of the text; and what was read."""
    read = await peer.call("conf.read", name="conf")
    assert old in read["text"]
    return {"name": "conf", "text": read["text"].replace(old, new), "version": read["version"]}, read


def check_kept(path: Path, kept: Path) -> None:
    assert json.loads(kept.read_text(encoding="utf-8")) == CONF
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path, kept, kept.parent)] == [0o600, 0o600, 0o700]


def test_a_change_is_looked_at_then_made_and_the_file_before_is_kept(tmp_path: Path) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            path, owner = put(lab), await lab.peer()
            asked, _ = await change(owner, '"gpus"', '"显卡"')
            looked = await owner.call("conf.write", **asked, dry_run=True)
            assert [line for line in looked["diff"] if line[0] in "+-"][2:] == [
                '-    "bucket": "gpus",', '+    "bucket": "显卡",'
            ]  # fmt: skip
            assert (looked["changed"], looked["counts"], looked["kept"]) == (["influx"], "start", None)
            assert json.loads(path.read_text(encoding="utf-8")) == CONF
            made = await owner.call("conf.write", **asked)
            assert json.loads(path.read_text(encoding="utf-8"))["influx"]["bucket"] == "显卡"
            check_kept(path, Path(made["kept"]))
            assert (await owner.call("conf.read", name="conf"))["version"] == made["version"]

    run(story())


def test_a_change_of_conf_says_which_keys_wait_for_a_start(tmp_path: Path) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            put(lab)
            owner = await lab.peer()
            asked, _ = await change(owner, '"socket_info"', '"scheduler": {"grace_s": 3}, "socket_info"')
            looked = await owner.call("conf.write", **asked, dry_run=True)
            assert (looked["changed"], looked["counts"], looked["at_start"]) == (["scheduler"], "now", [])
            asked, _ = await change(
                owner, '"socket_info"', '"limits": {"frame_bytes": 8192}, "privacy": "own", "socket_info"'
            )
            looked = await owner.call("conf.write", **asked, dry_run=True)
            assert (looked["counts"], looked["at_start"]) == ("start", ["privacy"])

    run(story())


def test_a_secret_is_never_told_and_stays_where_it_was(tmp_path: Path) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            path, owner = put(lab), await lab.peer()
            asked, read = await change(owner, "http://lab:8086", "http://lab:8087")
            assert TOKEN not in read["text"]
            assert '"token": "******** 1"' in read["text"]
            told = await owner.call("conf.write", **asked)
            assert TOKEN not in json.dumps(told)
            assert json.loads(path.read_text(encoding="utf-8"))["influx"]["token"] == TOKEN
            for old, new in (('"org": "lab"', '"org": "lab", "url": "******** 1"'), ("******** 1", "******** 2")):
                asked, _ = await change(owner, old, new)
                asked["text"] = asked["text"].replace('    "url": "http://lab:8087",\n', "")
                assert (await owner.refusal("conf.write", **asked))[0] == "bad_request"
            assert TOKEN in path.read_text(encoding="utf-8")

    run(story())


def test_what_another_wrote_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            path, owner = put(lab), await lab.peer()
            asked, _ = await change(owner, '"gpus"', '"mine"')
            path.write_text(path.read_text(encoding="utf-8").replace('"gpus"', '"theirs"'), encoding="utf-8")
            for more in ({"dry_run": True}, {}):
                assert (await owner.refusal("conf.write", **asked, **more))[0] == "conflict"
            assert json.loads(path.read_text(encoding="utf-8"))["influx"]["bucket"] == "theirs"

    run(story())


@pytest.mark.parametrize(
    ("old", "new", "code", "wanted"),
    [
        ('"org"', '"organisation"', "bad_request", Message("unknown_key", key="organisation")),
        ("{", "[", "bad_request", Message("not_json_at")),
        ('"data_port": 2', '"data_port": 1', "bad_request", Message("ports_that_differ", port=1)),
        ('"socket_info"', '"tls": "off", "socket_info"', "forbidden", Message("conf_key_fixed", key="tls")),
        (
            '"socket_info"',
            '"hooks": {"gpus_free": ["/bin/sh"]}, "socket_info"',
            "forbidden",
            Message("conf_key_fixed", key="hooks"),
        ),
        (
            '"socket_info"',
            '"run_as_allowed": ["root"], "socket_info"',
            "forbidden",
            Message("conf_key_fixed", key="run_as_allowed"),
        ),
        (
            '"socket_info"',
            '"task_info": "data", "socket_info"',
            "forbidden",
            Message("conf_key_fixed", key="task_info"),
        ),
    ],
)
def test_what_no_start_would_take_or_decides_who_is_who_is_refused(
    tmp_path: Path, old: str, new: str, code: str, wanted: Message
) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            path, owner = put(lab), await lab.peer()
            asked, _ = await change(owner, old, new)
            refused, why = await owner.told("conf.write", **asked)
            assert refused == code
            assert says(why, wanted.key, **wanted.args), repr(why)
            assert json.loads(path.read_text(encoding="utf-8")) == CONF

    run(story())


def test_a_registry_that_was_replaced_is_followed_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            owner = await lab.peer()
            read = await owner.call("conf.read", name="registry")
            text = json.dumps([{**A, "gpu_count": 4}, {**A, "name": "b"}])
            made = await owner.call("conf.write", name="registry", text=text, version=read["version"])
            assert (made["changed"], made["counts"]) == (["a", "b"], "now")
            await owner.call("node.list")
            assert lab.in_queue() == lab.in_file() == ["a", "b"]
            broken = {"name": "registry", "text": text.replace("gpu_count", "gpus"), "version": made["version"]}
            assert (await owner.refusal("conf.write", **broken))[0] == "bad_request"

    run(story())


def test_who_has_a_password_shows_it_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            put(lab)
            owner = await lab.peer()
            admin = await People(lab, owner, monkeypatch).user("chen", "admin")
            asked, _ = await change(admin, '"gpus"', '"mine"')
            await admin.call("conf.write", **asked, dry_run=True)
            assert (await admin.refusal("conf.write", **asked))[0] == "forbidden"
            assert (await admin.refusal("conf.write", **asked, password=f"not {PASSWORD}"))[0] == "unauthenticated"
            assert (await admin.call("conf.write", **asked, password=PASSWORD))["kept"]

    run(story())


def test_an_earlier_version_is_put_back_with_its_secrets_and_what_stood_there_is_kept_in_its_turn(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            path, owner = put(lab), await lab.peer()
            assert await owner.call("conf.kept", name="conf") == []
            asked, _ = await change(owner, '"******** 1"', '"another"')
            made = await owner.call("conf.write", **asked)
            [before] = await owner.call("conf.kept", name="conf")
            assert before["name"] == Path(made["kept"]).name
            assert await owner.call("conf.kept", name="registry") == []
            back = {"name": "conf", "kept": before["name"], "version": made["version"]}
            looked = await owner.call("conf.write", **back, dry_run=True)
            assert looked["changed"] == ["influx"]
            assert TOKEN not in json.dumps(looked)
            assert "another" not in json.dumps(looked)
            await owner.call("conf.write", **back)
            assert json.loads(path.read_text(encoding="utf-8")) == CONF
            assert len(await owner.call("conf.kept", name="conf")) == 2

    run(story())


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({}, "bad_request"),
        ({"text": "{}", "kept": "x"}, "bad_request"),
        ({"kept": "../../conf.json"}, "not_found"),
        ({"kept": "conf.json"}, "not_found"),
        ({"kept": "gpu_slaver_info.json.20260101T000000Z-01234567"}, "not_found"),
    ],
)
def test_what_is_no_earlier_version_of_this_file_is_put_nowhere(
    tmp_path: Path, more: dict[str, str], code: str
) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            path, owner = put(lab), await lab.peer()
            kept = lab.place.config.task_info / "before-edits"
            kept.mkdir(mode=0o700)
            (kept / "gpu_slaver_info.json.20260101T000000Z-01234567").write_text("{}")
            version = (await owner.call("conf.read", name="conf"))["version"]
            assert (await owner.refusal("conf.write", name="conf", version=version, **more))[0] == code
            assert json.loads(path.read_text(encoding="utf-8")) == CONF

    run(story())


def test_an_earlier_version_decides_no_more_than_a_text_may(tmp_path: Path) -> None:
    async def story() -> None:
        async with Lab(tmp_path) as lab:
            path, owner = put(lab), await lab.peer()
            kept = lab.place.config.task_info / "before-edits"
            kept.mkdir(mode=0o700)
            name = f"{path.name}.20260101T000000Z-01234567"
            (kept / name).write_text(json.dumps({**CONF, "tls": "off"}))
            version = (await owner.call("conf.read", name="conf"))["version"]
            refusal = await owner.refusal("conf.write", name="conf", version=version, kept=name)
            assert refusal[0] == "forbidden"
            assert json.loads(path.read_text(encoding="utf-8")) == CONF

    run(story())
