"""The desktop client shows no password: an address must never be enough to be an admin, nor the account that runs the
master, whatever conf.json says and whoever becomes an admin later."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from master.config.conf_file import DesktopClient as Access
from master.config.config import load_config
from master.desktop.clients import DesktopClients
from master.edited_files.ownership import user_name
from master.people.desktop_names import closed
from master.setup.people.first_admin import add_first_admin
from master.verbs.about import ClosedName
from tests.attack.lab_of_many import ADDRESSES, OWNER, LabOfMany, desktop_peer, lab_of_many
from tests.attack.rules import Caller
from tests.cases import each_case
from tests.desktop.client import form
from tests.master.in_process import run
from tests.system.lab import Lab
from tests.waiting import until
from wire.errors import ConflictError
from wire.message import Message

PC = "10.9.8.7"
"""An address in `desktop_client.users` from which nobody comes in these tests."""


@asynccontextmanager
async def lab_with(
    folder: Path, monkeypatch: pytest.MonkeyPatch, said: dict[str, Any], *, users: bool = True
) -> AsyncIterator[LabOfMany]:
    """A lab whose conf.json says this of the desktop client."""
    async with lab_of_many(folder, monkeypatch, users=users) as lab:
        let_in = Access(networks=("127.0.0.0/8",), **said)
        lab.master.place.config = msgspec.structs.replace(lab.master.place.config, desktop_client=let_in)
        lab.master.port_server.desktop = DesktopClients(lab.master.port_server.dispatcher, let_in)
        yield lab


async def check_not_let_in(lab: LabOfMany, who: str) -> None:
    before = await lab.state()
    with pytest.raises(asyncio.IncompleteReadError):
        async with desktop_peer(lab, who):
            pass
    assert await lab.state() == before


@pytest.mark.parametrize("users", [True, False])
@pytest.mark.parametrize("name", [OWNER, user_name(0)])
def test_the_name_of_who_runs_the_master_and_of_root_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str, *, users: bool
) -> None:
    async def story() -> None:
        async with lab_with(tmp_path, monkeypatch, {"user": name}, users=users) as lab:
            await check_not_let_in(lab, "user")
            assert f"it would be {name} (conf.json: desktop_client), who is an admin" in caplog.text

    run(story())


def test_the_name_of_an_admin_is_closed_also_while_they_are_disabled_and_one_who_becomes_an_admin_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with lab_with(tmp_path, monkeypatch, {"users": ADDRESSES}) as lab:
            await check_not_let_in(lab, "admin")
            await lab.owner.call("user.disable", name="amy")
            [told] = closed(lab.master.place.config.desktop_client, lab.master.core.people)
            assert told.args["name"] == "amy"
            async with desktop_peer(lab, "user") as peer:
                assert (await peer.ask("add_task", form("true")))[0] == "ret_add_task"
                [task] = [one for one in lab.master.core.tasks.values() if one.owner == "ann"]
                # By another way than the verbs: a version before, or the journal of a backup.
                lab.master.engine.event(lambda: lab.master.core.people.edit("ann", role="admin"))
                await peer.ended()
            assert not task.by_admin
            await check_not_let_in(lab, "user")

    run(story())


def test_who_is_to_be_an_admin_must_not_be_as_whom_desktop_clients_come_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with lab_with(tmp_path, monkeypatch, {"user": "desk", "users": {PC: "ann"}}) as lab:
            refused: dict[str, tuple[str, dict[str, Any]]] = {
                "add": ("user.add", {"name": "desk", "role": "admin"}),
                "edit": ("user.edit", {"name": "ann", "changes": {"role": "admin"}}),
            }
            for name, (verb, said) in refused.items():
                before = await lab.state()
                code, why = (await lab.owner.refusal(verb, **said))[:2]
                key = "desktop_client.user" if name == "add" else f"desktop_client.users.{PC}"
                assert code == "conflict"
                assert key in why
                assert await lab.state() == before, name
            await lab.owner.call("user.add", name="desk")
            await lab.owner.call("user.edit", name="ann", changes={"role": "viewer", "display": "安"})

    run(story())


def test_an_owner_only_name_of_the_desktop_client_becomes_no_admin_and_its_tasks_none_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with lab_with(tmp_path, monkeypatch, {"user": "desk"}, users=False) as lab:
            lab.task("desk")
            for name, role in (("amy", "admin"), ("bob", "user")):
                await lab.owner.call("user.add", name=name, role=role)
            people = lab.master.core.people
            assert people.find("desk").is_owner_only
            code, why = (await lab.owner.refusal("user.edit", name="desk", changes={"role": "admin"}))[:2]
            assert (code, "desktop_client.user" in why) == ("conflict", True)
            code, why = (await lab.owner.refusal("user.claim", name="desk", to="amy"))[:2]
            assert (code, "desktop_client.user" in why) == ("conflict", True)
            assert await lab.owner.call("user.claim", name="desk", to="bob") == {"count": 1}

    run(story())


def test_conf_json_from_afar_names_no_admin_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with lab_of_many(tmp_path, monkeypatch) as lab:
            with each_case() as cases:
                for name in ("amy", OWNER, user_name(0)):
                    for said in ({"user": name}, {"users": {PC: name}}):
                        with cases.case(f"{said}"):
                            await check_refused(lab, said)
            read = await lab.owner.call("conf.read", name="conf")
            text = json.dumps({**json.loads(read["text"]), "desktop_client": {"user": "ann"}})
            await lab.owner.call("conf.write", name="conf", text=text, version=read["version"])

    run(story())


async def check_refused(lab: LabOfMany, said: dict[str, Any]) -> None:
    read = await lab.owner.call("conf.read", name="conf")
    text = json.dumps({**json.loads(read["text"]), "desktop_client": said})
    refusal = await lab.owner.refusal("conf.write", name="conf", text=text, version=read["version"])
    assert refusal[0] == "bad_request"
    assert "desktop_client.user" in refusal[1]
    assert await lab.owner.call("conf.read", name="conf") == read


def test_the_first_admin_of_a_new_queue_is_not_as_whom_desktop_clients_come_in(tmp_path: Path) -> None:
    conf = tmp_path / "conf.json"
    ports = {"monitor_port": 1, "data_port": 2, "train_state_port": 3}
    conf.write_text(json.dumps({"socket_info": ports, "desktop_client": {"users": {PC: "ann"}}}), encoding="utf-8")
    with pytest.raises(ConflictError, match=rf"desktop_client\.users\.{PC}"):
        add_first_admin(load_config(conf), "ann", "gull kettle 七 orchard")
    assert not (tmp_path / "task_info" / "journal.jsonl").exists()


@pytest.fixture
def old_lab(tmp_path: Path) -> Iterator[Lab]:
    """A real master that was begun with a conf.json as earlier versions took it."""
    lab = Lab(tmp_path, nodes=1)
    lab.write_conf(desktop_client={"user": user_name(os.geteuid()), "users": {PC: "amy"}})
    lab.start()
    try:
        yield lab
    finally:
        lab.close()


def test_a_master_with_such_a_conf_json_starts_and_status_log_and_doctor_name_the_key(old_lab: Lab) -> None:
    with old_lab.client() as owner:
        [told] = owner.info()["desktop_closed"]
        assert told["args"]["key"] == "desktop_client.user"
        until("the node is there", lambda: owner.nodes()[0]["state"] == "online")
        findings = owner.doctor()[0]["findings"]
        accounts = [one for one in findings if one["told_message"]["key"] == "desktop_name_is_admins"]
        assert ["`desktop_client.user`" in one["cure"] for one in accounts] == [True]
    status = old_lab.muster("status")
    assert f"desktop  {told['text']}" in status.stdout
    assert told["text"] in old_lab.server_log()


def test_only_admins_are_told_which_names_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with lab_of_many(tmp_path, monkeypatch) as lab:
            about = lab.master.place.about()
            why = Message("desktop_name_is_admins", key="desktop_client.user", name="amy")
            told = msgspec.structs.replace(about, desktop_closed=[ClosedName.of(why)])
            monkeypatch.setattr(lab.master.place, "about", lambda: told)
            for who, count in (("admin", 1), ("user", 0), ("viewer", 0)):
                peer = await lab.come_in(Caller("password", who))  # type: ignore[arg-type]
                assert len((await peer.call("server.info"))["desktop_closed"]) == count

    run(story())
