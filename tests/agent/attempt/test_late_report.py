"""An exit whose report does not come is found in its record, but not before the report had its time."""

from __future__ import annotations

import os
import select
from pathlib import Path
from typing import Any

from monitor.agent.attempt import record
from monitor.agent.attempt.attempt import Attempt
from monitor.agent.attempt.keeper import LOOK_EVERY_S, Keeper
from monitor.agent.folder import Folder
from monitor.agent.probe.logins import Logins
from tests.agent.small_master import known
from wire.account import Door


def test_the_last_line_of_a_log_has_until_the_second_look_to_be_written(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "state"))
    folder.make()
    folder.state_id()
    listener = folder.listen()
    folder.remember()
    reports, shims = os.pipe()
    os.set_blocking(reports, False)
    told: list[dict[str, Any]] = []
    logins = Logins(select.poll(), Door(), print)
    keeper = Keeper(folder, "boot", reports, {}, logins=logins, emit=told.append, flush=lambda: None, complain=print)
    attempt = keeper.attempts[known("t1")] = Attempt(known("t1"))
    attempt.ours = True
    try:
        shim = record.claim(folder, known("t1"))
        record.append(shim, record.encode(record.exit_line(4, "exited", "", 1.0)))
        keeper.look(100.0)
        assert told == []
        keeper.look(100.0 + LOOK_EVERY_S / 2)
        assert told == []
        keeper.look(100.0 + LOOK_EVERY_S)
        assert [(message["op"], message["code"]) for message in told] == [("exit", 4)]
        keeper.look(100.0 + 3 * LOOK_EVERY_S)
        assert len(told) == 1
    finally:
        listener.close()
        for fd in (shim, reports, shims):
            os.close(fd)
