"""What verbs answer is a contract: every key and value, and their order, as they were recorded.

After a change that is meant: `RECORD_ANSWERS=1 .venv/bin/python -m pytest tests/master/verbs/test_answers.py`, and read
the difference.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from master.config.config import load_config
from master.nodes.driver import CannotConnectError
from master.nodes.registry import NodeConfig
from master.verbs.documents import OPENAPI, ROOT
from master.verbs.openapi import PATH
from master.verbs.table import VERBS
from tests.conftest import LabMaker
from tests.master.in_process import DEADLINE_S
from tests.master.verbs.answers import Answer, as_text, every_answer, info_of_a_whole_master
from tests.waiting import run_story
from wire.message import Message

pytestmark = pytest.mark.usefixtures("unhurried_look")

RECORDED = Path(__file__).parents[2] / "data" / "answers" / "verbs.jsonl"


def _no_way(_config: NodeConfig) -> socket.socket:
    raise CannotConnectError(Message("link_said", said="no route to it"))


@pytest.fixture
def answers(tmp_path: Path, make_lab: LabMaker, monkeypatch: pytest.MonkeyPatch) -> list[Answer]:
    monkeypatch.setattr("master.doctor.node.connect_blocking", _no_way)  # whatever this machine's network has there

    async def story() -> list[Answer]:
        (tmp_path / "small").mkdir()
        found = await every_answer(tmp_path / "small")
        return [*await info_of_a_whole_master(load_config(make_lab(nodes=[]))), *found]

    mask = os.umask(0o022)
    try:
        return run_story(story(), 2 * DEADLINE_S)
    finally:
        os.umask(mask)


def test_every_verb_answers_with_the_keys_and_values_that_were_recorded(answers: list[Answer]) -> None:
    if os.environ.get("RECORD_ANSWERS"):
        RECORDED.write_text(as_text(answers), encoding="utf-8")
    assert {answer.verb for answer in answers} == set(VERBS)
    recorded = [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]
    for found, before in zip(answers, recorded, strict=True):
        # As text: the order of the keys is told, and 1 is not 1.0.
        assert json.dumps(found.told()) == json.dumps(before), found.verb


def test_what_is_asked_and_answered_is_what_the_shipped_document_says(answers: list[Answer]) -> None:
    whole = json.loads((ROOT / OPENAPI).read_text(encoding="utf-8"))
    for answer in answers:
        operation = whole["paths"][PATH + answer.verb]["post"]
        taken = operation["requestBody"]["content"]["application/json"]["schema"]
        given = operation["responses"]["200"]["content"]["application/json"]["schema"]
        for schema, value in ((taken, answer.asked), (given, answer.answered)):
            # What the schema refers to is found beside it.
            Draft202012Validator({**schema, "components": whole["components"]}).validate(value)
