"""What `muster status` and the doctor tell of the console, and what to do about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from client.cli.programs import beside, console_process
from client.cli.programs.console_process import ENDS_SOON_S, problems
from wire.version import VERSION

NOW = 1_800_000_000.0
WELL = {
    "pid": 7,
    "version": VERSION,
    "url": "https://queue.lab:8443/",
    "last_word": "it is at work",
    "certificate_ends": NOW + 2 * ENDS_SOON_S,
    "certificate_fault": None,
}


def test_of_one_that_is_well_nothing_is_told() -> None:
    assert problems(WELL, NOW) == []
    assert problems({**WELL, "certificate_ends": None}, NOW) == []


@pytest.mark.parametrize(
    ("ill", "told", "cure"),
    [
        ({"pid": None}, "does not run (its log ends: it is at work)", "muster up"),
        ({"pid": None, "last_word": ""}, "does not run", "muster up"),
        ({"version": "0.0.1"}, f"is of version 0.0.1, this is {VERSION}", "kill 7"),
        ({"version": None}, "is of a version before this one", "kill 7"),
        ({"certificate_ends": NOW + 60}, "shows a certificate that ends soon", "renew"),
        ({"certificate_ends": NOW - 60}, "shows a certificate that ended", "renew"),
        ({"certificate_fault": "web.pem: gone", "certificate_ends": None}, "an old certificate: web.pem: gone", "hour"),
    ],
)
def test_what_ails_it_is_told_with_its_cure(ill: dict[str, Any], told: str, cure: str) -> None:
    [(what, do)] = problems({**WELL, **ill}, NOW)
    assert told in what
    assert cure in do


def test_what_one_that_ended_left_behind_is_nobodys_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = tmp_path / "conf.json"
    conf.write_text(json.dumps({"task_info": ".", "web": {}}), encoding="ascii")
    (tmp_path / console_process.FILE).write_text(json.dumps(WELL), encoding="ascii")
    assert console_process.told(str(conf)) == {"pid": None, "last_word": ""}
    monkeypatch.setattr(beside.Program, "pid", lambda _self, _conf: 8)
    assert console_process.told(str(conf)) == {"pid": 8, "last_word": ""}
    monkeypatch.setattr(beside.Program, "pid", lambda _self, _conf: 7)
    assert console_process.told(str(conf))["url"] == WELL["url"]
    (tmp_path / console_process.FILE).write_text("[", encoding="ascii")
    assert console_process.told(str(conf)) == {"pid": 7, "last_word": ""}
