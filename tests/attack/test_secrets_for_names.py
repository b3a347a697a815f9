"""A password, or a token, that somebody typed where a name belongs: it is in no log of the master's."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from master.people.audit_file import NAME
from master.verbs import auth
from master.verbs.access import Caller
from tests.master.in_process import InProcess, Peer, run
from tests.master.verbs.parameters import required
from tests.master.verbs.test_audited import ann, peer_as, told

PASSWORD = "hunter2"  # noqa: S105  (that is what must not be found)
TOKEN = "mst_7f3a_" + "s" * 43
OF_PEOPLE = (
    "auth.login", "auth.token", "auth.redeem", "auth.session", "user.add", "user.edit", "user.disable", "user.enable",
    "user.remove", "user.password", "user.link", "user.claim", "token.new", "token.list", "token.revoke",
)  # fmt: skip


def with_secret(params: dict[str, Any], secret: str) -> list[dict[str, Any]]:
    """The parameters with the secret in the place of each text, and of each of a list."""
    found = []
    for key, value in {**params, "name": "", "names": [], "tokens": [], "to": ""}.items():
        if isinstance(value, str):
            found += [{**params, key: secret}, {**params, "name": "ann", key: secret}]
        elif isinstance(value, list):
            found.append({**params, key: [secret]})
    return found


async def say_all(peer: Peer) -> None:
    for verb in OF_PEOPLE:
        for secret in (PASSWORD, TOKEN):
            for params in with_secret(required(verb), secret):
                await peer.answer(peer.ask(verb, **params))


def logs_of(master: InProcess) -> str:
    master.place.audit.flush()
    path = master.folder / "task_info" / "audit" / NAME
    return path.read_text(encoding="utf-8") if path.exists() else ""


@pytest.mark.parametrize("who", ["nobody", "a user", "an admin"])
def test_no_log_has_what_was_typed_in_the_place_of_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, who: str
) -> None:
    caplog.set_level(logging.DEBUG)

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            master.engine.event(lambda: master.core.people.add("ann", at=1.0))
            caller = Caller("127.0.0.1") if who == "nobody" else ann("user" if who == "a user" else "admin")
            await say_all(await peer_as(master, caller, monkeypatch))
            assert who == "nobody" or told(master), "something is written"
            for secret in (PASSWORD, TOKEN.rpartition("_")[2]):
                lines = [
                    line for line in logs_of(master).splitlines() if secret in line and '"result":"ok"' not in line
                ]
                assert lines == [], "a user of that name is the admin's doing"
                assert secret not in caplog.text

    run(story())


def test_a_defect_met_while_somebody_logs_in_writes_no_name_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(*_: object) -> Callable[[], None]:
        raise RuntimeError("a defect")

    monkeypatch.setattr(auth, "_whence", breaks)

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            assert (await peer.refusal("auth.login", name=PASSWORD, password="other"))[0] == "internal"  # noqa: S106
            assert "a defect" in caplog.text
            assert PASSWORD not in caplog.text
            assert PASSWORD not in logs_of(master)

    run(story())
