"""Every list and text of a task has an end: whoever lists tasks is sent it, and the master keeps it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cases import each_case
from tests.master.in_process import InProcess, run

MANY = 20_000
TOO_LONG: dict[str, Any] = {
    "after": [{"id": 1}] * MANY,
    "retry_on": ["fail"] * MANY,
    "gpu_ids": [0] * MANY,
    "gpus_on": {"node0": [0] * MANY},
    "log": "x" * MANY,
    "cwd": "x" * MANY,
    "env": "/" + "x" * MANY,
    "exclude": ["node0"] * MANY,
    "request_id": "x" * MANY,
    "snapshot": {"of": "/x", "digest": "x" * MANY, "files": 1, "bytes": 1},
}
NOT_EDITED = {"request_id"}


def code_of(answer: dict[str, Any]) -> str | None:
    code: str | None = answer.get("error", {}).get("data", {}).get("code")
    return code


def test_none_is_longer_than_it_may_be(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            owner = await master.peer()
            number = (await owner.call("task.submit", command="true", hold=True))["id"]
            with each_case() as cases:
                for field, value in TOO_LONG.items():
                    params = {field: value, **({"max_retries": 1} if field == "retry_on" else {})}
                    with cases.case(f"submit {field}"):
                        answer = await owner.answer(owner.ask("task.submit", command="true", hold=True, **params))
                        assert code_of(answer) == "bad_request"
                    with cases.case(f"edit {field}"):
                        if field not in NOT_EDITED:
                            answer = await owner.answer(owner.ask("task.edit", id=number, changes=params))
                            assert code_of(answer) == "bad_request"
            assert master.core.next_id == number + 1, "nothing was filed"

    run(story())
