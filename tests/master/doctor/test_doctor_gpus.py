"""GPUs: what the doctor makes of them, and setting one aside and returning it by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from master.core.nodes.gpu_watch import RETURNED, UNSEEN, GpuReport
from master.doctor.finding import heard, warning
from master.doctor.gpus import KnownGpus, Smi, gpus, read_smi
from tests.master.in_process import InProcess, run
from tests.waiting import settled
from wire.agent import Probed
from wire.message import Message

LISTED = "GPU 0: NVIDIA H100 (UUID: GPU-1)\n  MIG 1g.5gb Device 0: (UUID: MIG-1)\nGPU 1: NVIDIA H100 (UUID: GPU-2)\n"


def known(**more: Any) -> KnownGpus:
    return KnownGpus(**{"models": ("A", "A"), "declared": False, "seen": 2, "aside": {}, "kept_back": {}, **more})


def probed(output: str = "", code: int | None = 0, error: str = "") -> Probed:
    return Probed(op="probed", probe_id="q1", code=code, output=output, truncated=False, error=error)


@pytest.mark.parametrize(
    ("answer", "smi"),
    [
        (probed(LISTED), Smi(2)),
        (probed("No devices were found\n"), Smi(0)),
        (probed(code=None, error="nvidia-smi: No such file or directory"), Smi()),
        (probed(code=None, error="timed out after 8 s"), Smi(error="timed out after 8 s")),
        (probed("NVIDIA-SMI has failed because …\n", 9), Smi(error="NVIDIA-SMI has failed because …")),
    ],
)
def test_nvidia_smi_counts_is_not_there_or_fails(answer: Probed, smi: Smi) -> None:
    assert read_smi(answer) == smi


def differ(shown: int, count: int) -> Message:
    return Message("doctor_gpus_differ", shown=shown, count=count)


OTHER = Message("gpu_other_model", gpus=(0,), real="H100", model="A")
TWO = Message("doctor_gpus", count=2, models=("A",))


@pytest.mark.parametrize(
    ("has", "smi", "verdict", "says", "cure"),
    [
        (known(), Smi(2), "ok", TWO, ""),
        (known(), Smi(), "ok", TWO, ""),
        (known(seen=0), Smi(2), "ok", TWO, ""),
        (known(declared=True, seen=0), Smi(), "skipped", Message("doctor_gpus_declared", count=2), ""),
        (known(models=(), seen=0), Smi(), "skipped", Message("doctor_no_gpus"), ""),
        (known(models=(), seen=0), Smi(1), "warning", differ(1, 0), "do_use_all_gpus"),
        (known(seen=4), Smi(4), "warning", differ(4, 2), "do_use_all_gpus"),
        (known(mismatch=OTHER), Smi(2), "warning", OTHER, "do_say_model"),
        (known(seen=1), Smi(1), "fault", differ(1, 2), "do_find_lost_gpu"),
        (
            known(seen=0),
            Smi(),
            "fault",
            Message("doctor_gpus_gone_no_smi", count=2),
            "do_install_driver_or_declare",
        ),
        (known(seen=0), Smi(0), "fault", Message("doctor_gpus_gone", count=2), "do_install_driver_or_declare"),
        (
            known(),
            Smi(error="it hangs"),
            "fault",
            Message("doctor_smi_fails", said=heard("it hangs")),
            "do_install_driver",
        ),
    ],
)
def test_the_driver_and_the_count(has: KnownGpus, smi: Smi, verdict: str, says: Message, cure: str) -> None:
    (found,) = gpus("n", has, smi)
    assert (found.verdict, found.says) == (verdict, says)
    assert ("" if found.do is None else found.do.key) == cure


def test_a_driver_that_fails_is_told_once_and_what_ails_one_gpu_beside_it() -> None:
    why = Message("gpu_fault", said="its GPU driver cannot be asked: it hangs")
    bobs = Message("gpu_used", users=("bob (pid 7)",), more=0)
    (found,) = gpus("n", known(kept_back={0: why, 1: why}), Smi(error="timed out after 8 s"))
    assert found.says.key == "doctor_smi_fails"
    assert len(gpus("n", known(kept_back={1: bobs}), Smi(error="timed out after 8 s"))) == 2
    assert len(gpus("n", known(kept_back={0: why, 1: why}), Smi(2))) == 2


def test_before_the_first_sample_of_a_connection_nobody_is_sent_to_the_driver() -> None:
    unseen = dict.fromkeys(range(2), UNSEEN)
    (found,) = gpus("n", known(seen=0, kept_back=unseen), Smi())
    assert (found.verdict, found.says) == ("warning", Message("doctor_gpus_unseen", count=2))
    assert found.do == Message("do_wait_or_restart", name="n")
    counted, waits = gpus("n", known(seen=0, kept_back=unseen), Smi(2))
    assert (counted.verdict, waits.do) == ("ok", found.do)
    hangs = gpus("n", known(seen=0, kept_back=unseen), Smi(error="it hangs"))[0]
    assert hangs.says == Message("doctor_smi_fails", said=heard("it hangs"))


def test_gpus_that_get_no_tasks_are_told_by_their_reason() -> None:
    aside = {0: "fell off the bus", 2: "fell off the bus"}
    bobs, anns = (Message("gpu_used", users=(who,), more=0) for who in ("bob (pid 7)", "ann (pid 8)"))
    kept = {1: bobs, 0: anns, 3: Message("gpu_missing", shown=3, count=4)}
    first, *closed = gpus("n", known(models=("A",) * 4, seen=4, aside=aside, kept_back=kept), Smi(4))
    assert first.verdict == "ok"
    assert closed == [
        warning(
            "gpus",
            Message("doctor_gpu_closed", gpus=(0, 2), why=heard("fell off the bus")),
            Message("do_resume_gpus", name="n", gpus="0,2"),
        ),
        warning(
            "gpus",
            Message("doctor_gpu_closed", gpus=(1,), why=bobs),
            Message("do_wait_for_users"),
        ),
    ]


# -- by hand ----------------------------------------------------------------------------------------------------


def health(node: dict[str, Any]) -> dict[int, str]:
    return {gpu["index"]: gpu["health"] for gpu in node["gpus"] if gpu["health"] != "ok"}


def test_a_gpu_is_set_aside_by_hand_its_task_runs_on_and_it_is_returned(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            master.online()
            peer = await master.peer()
            await peer.call("task.submit", command="true", gpu_ids=[1])
            await settled(lambda: master.core.inventory.nodes["a"].active)
            node = await peer.call("node.drain", name="a", gpus=[1, 3, 1], reason="too\nhot")
            who = master.core.notes["a"].aside[1]
            assert health(node) == {1: who, 3: who}
            assert who.startswith("set aside by ")
            assert who.endswith(": too hot")
            assert (node["drained"], node["schedulable"], node["gpus"][1]["held_by"]) == (None, True, [1])
            await peer.call("task.submit", command="true", gpu_ids=[3])
            assert (await peer.call("task.show", id=2))["state"] == "waiting"
            node = await peer.call("node.resume", name="a", gpus=[3])
            assert health(node) == {1: who}
            await settled(lambda: len(master.core.inventory.nodes["a"].active) == 2)

    run(story())


@pytest.mark.parametrize(
    ("verb", "gpus", "code"),
    [
        ("node.drain", [0, 8], "not_found"),
        ("node.drain", [], "bad_request"),
        ("node.drain", [-1], "bad_request"),
        ("node.resume", [1, 2], "conflict"),
        ("node.resume", [1, 9], "not_found"),
        ("node.resume", [], "bad_request"),
    ],
)
def test_a_mistake_changes_nothing(tmp_path: Path, verb: str, gpus: list[int], code: str) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            await peer.call("node.drain", name="a", gpus=[1])
            before = dict(master.core.notes)
            assert (await peer.refusal(verb, name="a", gpus=gpus))[0] == code
            assert master.core.notes == before

    run(story())


def test_what_is_still_broken_is_set_aside_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with InProcess(tmp_path) as master:
            peer = await master.peer()
            reports = [GpuReport(index=index, fault="Xid 79" if index == 2 else "") for index in range(8)]
            for _ in range(2):
                master.engine.event(lambda: master.core.gpus_seen("a", reports, 1.0))
                assert health(await peer.call("node.show", name="a")) == {2: "Xid 79"}
                assert health(await peer.call("node.resume", name="a", gpus=[2])) == {2: str(RETURNED)}
            well = [GpuReport(index=index) for index in range(8)]
            master.engine.event(lambda: master.core.gpus_seen("a", well, 2.0))
            assert health(await peer.call("node.show", name="a")) == {}

    run(story())
