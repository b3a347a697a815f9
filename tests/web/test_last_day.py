"""The last 24 hours: which finished tasks the console knows."""

from __future__ import annotations

import pytest

from client.api import Client
from tests.system.lab import Lab
from tests.waiting import until
from tests.web.browser import Visit

THERE = 'document.querySelector("script").src.replace("start.js", "")'


@pytest.fixture(scope="module", autouse=True)
def ended(lab: Lab) -> tuple[int, int]:
    """Two tasks that have ended, one after the other."""
    with lab.client() as client:
        first, last = (_run(client) for _ in range(2))
    return first, last


def _run(client: Client) -> int:
    number = client.submit(["true"], gpus=1)
    until("it ended", lambda: client.show(number)["state"] == "succeeded")
    return number


def test_of_the_finished_tasks_the_newest_are_asked_for(seen: Visit, ended: tuple[int, int]) -> None:
    seen.go("me")
    known = seen.page.evaluate(
        f"""async () => {{
          const {{ store }} = await import({THERE} + "core/context.js");
          await store.askEnded({{ limit: 1, offset: 0 }});
          return [...store.cluster.ended.keys()];
        }}"""
    )
    assert known == [ended[1]]
