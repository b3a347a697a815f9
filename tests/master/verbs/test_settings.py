"""`setting.*` over real connections: who may change what, what is answered, kept and told."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from master.core.people.people import Role
from master.ports import port_server
from master.verbs.access import Caller
from tests.master.in_process import InProcess, comes_as, run

NAME = "scheduler.reserve_after"
OTHER = "scheduler.grace_s"


def test_who_may_look_sees_what_holds_and_only_admins_change_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            with comes_as("ann", master.core, "viewer"):
                ann = await master.peer()
                [seen] = await ann.call("setting.list", name=NAME)
                assert (seen["value"], seen["default"], seen["by"], seen["at"]) == (21600.0, 21600.0, None, None)
                for verb, params in (("setting.set", {"value": 1}), ("setting.reset", {})):
                    assert (await ann.refusal(verb, name=NAME, **params))[0] == "forbidden"
            with comes_as("chen", master.core, "admin"):
                chen = await master.peer()
                await chen.call("setting.set", name=NAME, value=7200)
            with comes_as("ann", master.core, "viewer"):
                [seen] = await (await master.peer()).call("setting.list", name=NAME)
            assert (seen["value"], seen["default"], seen["in_conf"], seen["by"]) == (7200.0, 21600.0, False, "chen")
            master.place.audit.flush()

    run(story())
    told = "".join(path.read_text(encoding="utf-8") for path in sorted((tmp_path / "task_info/audit").iterdir()))
    assert f'"target":"{NAME} = 7200.0","result":"ok"' in told
    assert '"verb":"setting.set","target":"scheduler.reserve_after","result":"forbidden"' in told


def test_admins_are_told_of_what_was_set_in_place_of_another_value_in_conf_json(tmp_path: Path) -> None:
    async def outranked(master: InProcess, role: Role) -> list[str]:
        with comes_as(f"the-{role}", master.core, role):
            info = await (await master.peer()).call("server.info")
        return [f"{one['name']} {one['value']} {one['default']} {one['by']}" for one in info["conf_outranked"]]

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            owner = await master.peer()
            await owner.call("setting.set", name=NAME, value=7200)
            assert await outranked(master, "admin") == [], "conf.json says nothing of it"
            master.place.config = msgspec.structs.replace(master.place.config, said=frozenset({NAME, OTHER}))
            [told] = await outranked(master, "admin")
            assert told.startswith(f"{NAME} 7200.0 21600.0 ")
            assert await outranked(master, "viewer") == []
            await owner.call("setting.set", name=NAME, value=21600)
            assert await outranked(master, "admin") == [], "both say the same"

    run(story())


def test_what_was_set_holds_after_a_restart(tmp_path: Path) -> None:
    async def begin() -> None:
        async with InProcess(tmp_path) as master:
            owner = await master.peer()
            await owner.call("setting.set", name=NAME, value=7200)
            await owner.call("setting.set", name="scheduler.reservations", value=1)
            await owner.call("setting.reset", name="scheduler.reservations")

    async def again() -> None:
        async with InProcess(tmp_path) as master:
            found = {one["name"]: one for one in await (await master.peer()).call("setting.list")}
            assert (found[NAME]["value"], found["scheduler.reservations"]["value"]) == (7200.0, 4)
            assert found["scheduler.reservations"]["by"] is None

    run(begin())
    run(again())


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("limits.buffer", "no_setting"),
        ("scheduler.policy", "no_setting"),
        ("limits.__class__", "no_setting"),
        ("bind.x", "no_setting"),
    ],
)
def test_what_is_no_setting_is_refused_with_where_it_is_said(name: str, key: str, tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            owner = await master.peer()
            for verb, params in (("setting.set", {"value": 1}), ("setting.reset", {}), ("setting.list", {})):
                _, why = await owner.told(verb, name=name, **params)
                assert (why.key, why.args["name"]) == (key, name)

    run(story())


def test_an_admin_of_the_desktop_client_or_of_a_confined_token_sets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            caller = Caller("127.0.0.1", "ann", "admin", frozenset({"read", "submit"}), "token")
            monkeypatch.setattr(port_server, "by_kernel", lambda *_args, **_keys: lambda _people, _now: caller)
            peer = await master.peer()
            assert (await peer.refusal("setting.set", name=NAME, value=1))[0] == "forbidden"
            assert await peer.call("setting.list", name=NAME)

    run(story())


def test_a_user_may_raise_what_is_his_as_far_as_the_setting_says(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            with comes_as("ann", master.core):
                ann = await master.peer()
                assert (await ann.refusal("task.submit", command="true", priority=3))[0] == "forbidden"
                master.core.tuning.set("scheduler.user_priority_max", 3, "chen", 1.0)
                number = (await ann.call("task.submit", command="true", priority=3))["id"]
                assert (await ann.refusal("task.edit", id=number, changes={"priority": 4}))[0] == "forbidden"
                await ann.call("task.edit", id=number, changes={"priority": -1})
                await ann.call("task.edit", id=number, changes={"priority": 2})

    run(story())
