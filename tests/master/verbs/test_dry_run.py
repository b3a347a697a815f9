"""What `submit --dry-run` says is what the same submit does, over real connections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.master.in_process import InProcess, run
from tests.master.verbs.test_arrays import online
from tests.waiting import settled


def test_a_dry_run_knows_who_may_pass_what_is_kept_for_another(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            online(master)
            peer = await master.peer()
            gpus = len(master.core.inventory.nodes["a"].spec.gpu_models)
            holder = (await peer.call("task.submit", command="true", gpus=1, time_limit_s=7200))["id"]
            await settled(lambda: master.core.tasks[holder].state == "starting")
            large = (await peer.call("task.submit", command="true", gpus=gpus, urgent=True))["id"]
            await settled(lambda: bool(master.core.reservations))
            wish: dict[str, Any] = {"command": "true", "gpus": 1}
            short = await peer.call("task.submit", **wish, time_limit_s=60, dry_run=True)
            long = await peer.call("task.submit", **wish, dry_run=True)
            assert short["placement"] == {"node": "a", "gpus": [1], "gpu_mib": None}
            assert (long["placement"], long["reason_key"]) == (None, "needs")
            assert f"reserved for task {large}" in long["reason"]
            filed = (await peer.call("task.submit", **wish, time_limit_s=60))["id"]
            await settled(lambda: master.core.tasks[filed].state == "starting")

    run(story())
