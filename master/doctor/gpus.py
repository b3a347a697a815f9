"""Findings about a node's GPUs: as many as the registry says, a working driver, none set aside. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from operator import itemgetter
from typing import TypeVar

import msgspec

from master.core.nodes.gpu_watch import UNSEEN
from master.doctor.finding import GPUS, Finding, fault, heard, ok, skipped, warning
from master.doctor.scripts import complaint
from wire.agent import Probed
from wire.message import Message

SMI = ["nvidia-smi", "-L"]
Reason = TypeVar("Reason", bound=Hashable)
_USED = frozenset({"gpu_strays", "gpu_used", "gpu_used_by_others"})
"""The keys of the reasons that end when the programs do."""


class Smi(msgspec.Struct, frozen=True):
    """The result of `nvidia-smi`: the number of GPUs, or why it gave none; neither on a node without `nvidia-smi`."""

    count: int | None = None
    error: str = ""


class KnownGpus(msgspec.Struct, frozen=True, kw_only=True):
    """The master's knowledge of a node's GPUs. `models`: the registry's; `seen`: how many the samples show; `aside` and
    `kept_back`: why a GPU, by index, gets no tasks; `mismatch`: as `gpu_models` tells it."""

    models: tuple[str, ...]
    declared: bool
    seen: int
    aside: Mapping[int, str]
    kept_back: Mapping[int, Message]
    mismatch: Message | None = None


def read_smi(probed: Probed) -> Smi:
    """The answer to SMI."""
    if probed["code"] is None and "No such file" in probed["error"]:
        return Smi()
    if probed["code"] == 0:
        return Smi(sum(line.startswith("GPU ") for line in probed["output"].splitlines()))
    return Smi(error=complaint(probed))


def gpus(name: str, known: KnownGpus, smi: Smi) -> list[Finding]:
    """All that is to say of a node's GPUs."""
    if _nothing_is_known(known, smi):
        unseen = Message("doctor_gpus_unseen", count=len(known.models))
        return [warning(GPUS, unseen, _wait(name)), *_closed(name, known, told=True)]
    driver = _driver_and_count(name, known, smi)
    return [driver, *_closed(name, known, told=driver.verdict == "fault")]


def _nothing_is_known(known: KnownGpus, smi: Smi) -> bool:
    """Has nobody told of its GPUs since the connection stands, which a change of `gpu_probe` begins anew? That none was
    seen says nothing then."""
    return UNSEEN in known.kept_back.values() and smi == Smi() and not known.declared


def _driver_and_count(name: str, known: KnownGpus, smi: Smi) -> Finding:
    count = len(known.models)
    if known.declared:
        return skipped(GPUS, Message("doctor_gpus_declared", count=count))
    if smi.error:
        return fault(GPUS, Message("doctor_smi_fails", said=heard(smi.error)), Message("do_install_driver"))
    shown = max(known.seen, smi.count or 0)
    if shown == count == 0:
        return skipped(GPUS, Message("doctor_no_gpus"))
    if shown == 0:
        gone = Message("doctor_gpus_gone", count=count)
        if smi.count is None:
            gone = Message("doctor_gpus_gone_no_smi", count=count)
        return fault(GPUS, gone, Message("do_install_driver_or_declare", name=name))
    if shown != count:
        differ = Message("doctor_gpus_differ", shown=shown, count=count)
        if shown < count:
            return fault(GPUS, differ, Message("do_find_lost_gpu", name=name, shown=shown))
        return warning(GPUS, differ, Message("do_use_all_gpus", name=name, shown=shown))
    if known.mismatch is not None:
        return warning(GPUS, known.mismatch, Message("do_say_model", name=name))
    return ok(GPUS, Message("doctor_gpus", count=count, models=tuple(dict.fromkeys(known.models))))


def _closed(name: str, known: KnownGpus, *, told: bool) -> list[Finding]:
    """Those that get no tasks; GPUs with the same reason (a driver that is gone has one for all) in one finding.
    `told`: that the driver is gone, or some of the GPUs, is another finding."""
    found = []
    for reason, which in _by_reason(known.aside).items():
        do = Message("do_resume_gpus", name=name, gpus=",".join(map(str, which)))
        found.append(warning(GPUS, Message("doctor_gpu_closed", gpus=which, why=heard(reason)), do))
    # Fewer GPUs on the machine are reported already.
    held = {gpu: why for gpu, why in known.kept_back.items() if gpu not in known.aside and why.key != "gpu_missing"}
    for why, which in _by_reason(held).items():
        if told and len(which) == len(known.models):
            continue
        says = Message("doctor_gpu_closed", gpus=which, why=why)
        found.append(warning(GPUS, says, _until_it_is_free(name, why)))
    return found


def _wait(name: str) -> Message:
    return Message("do_wait_or_restart", name=name)


def _until_it_is_free(name: str, why: Message) -> Message:
    if why == UNSEEN:
        return _wait(name)
    return Message("do_wait_for_users") if why.key in _USED else Message("do_wait_or_aside")


def _by_reason(reasons: Mapping[int, Reason]) -> dict[Reason, tuple[int, ...]]:
    found: dict[Reason, tuple[int, ...]] = {}
    for gpu, reason in sorted(reasons.items(), key=itemgetter(0)):
        found[reason] = (*found.get(reason, ()), gpu)
    return found
