"""Findings about a node's GPUs: as many as the registry says, a working driver, none set aside. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from master.core.nodes.gpu_watch import UNSEEN
from master.doctor.finding import GPUS, Finding, fault, heard, ok, skipped, warning
from master.doctor.scripts import complaint
from wire.agent import Probed
from wire.message import Message

SMI = ["nvidia-smi", "-L"]


class Smi(msgspec.Struct, frozen=True):
    """The result of `nvidia-smi`: the number of GPUs, or why it gave none; neither on a node without `nvidia-smi`."""

    count: int | None = None
    error: str = ""


class Books(msgspec.Struct, frozen=True, kw_only=True):
    """The master's knowledge of a node's GPUs. `models`: the registry's; `seen`: how many the samples show; `aside` and
    `kept_back`: why a GPU, by index, gets no tasks; `mismatch`: as `gpu_models` tells it."""

    models: tuple[str, ...]
    declared: bool
    seen: int
    aside: Mapping[int, str]
    kept_back: Mapping[int, str]
    mismatch: Message | None = None


def read_smi(probed: Probed) -> Smi:
    """The answer to SMI."""
    if probed["code"] is None and "No such file" in probed["error"]:
        return Smi()
    if probed["code"] == 0:
        return Smi(sum(line.startswith("GPU ") for line in probed["output"].splitlines()))
    return Smi(error=complaint(probed))


def gpus(name: str, books: Books, smi: Smi) -> list[Finding]:
    """All that is to say of a node's GPUs."""
    if _nothing_is_known(books, smi):
        unseen = Message("doctor_gpus_unseen", count=len(books.models))
        return [warning(GPUS, unseen, _wait(name)), *_closed(name, books, told=True)]
    driver = _driver_and_count(name, books, smi)
    return [driver, *_closed(name, books, told=driver.verdict == "fault")]


def _nothing_is_known(books: Books, smi: Smi) -> bool:
    """Has nobody told of its GPUs since the connection stands, which a change of `gpu_probe` begins anew? That none was
    seen says nothing then."""
    return str(UNSEEN) in books.kept_back.values() and smi == Smi() and not books.declared


def _driver_and_count(name: str, books: Books, smi: Smi) -> Finding:
    count = len(books.models)
    if books.declared:
        return skipped(GPUS, Message("doctor_gpus_declared", count=count))
    if smi.error:
        return fault(GPUS, Message("doctor_smi_fails", said=heard(smi.error)), Message("do_install_driver"))
    shown = max(books.seen, smi.count or 0)
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
    if books.mismatch is not None:
        return warning(GPUS, books.mismatch, Message("do_say_model", name=name))
    return ok(GPUS, Message("doctor_gpus", count=count, models=tuple(dict.fromkeys(books.models))))


def _closed(name: str, books: Books, *, told: bool) -> list[Finding]:
    """Those that get no tasks; GPUs with the same reason (a driver that is gone has one for all) in one finding.
    `told`: that the driver is gone, or some of the GPUs, is another finding."""
    found = []
    for reason, which in _by_reason(books.aside).items():
        do = Message("do_resume_gpus", name=name, gpus=",".join(map(str, which)))
        found.append(warning(GPUS, Message("doctor_gpu_closed", gpus=which, why=heard(reason)), do))
    # Fewer GPUs on the machine are reported already.
    held = {gpu: why for gpu, why in books.kept_back.items() if gpu not in books.aside and "registry counts" not in why}
    for reason, which in _by_reason(held).items():
        if told and len(which) == len(books.models):
            continue
        says = Message("doctor_gpu_closed", gpus=which, why=heard(reason))
        found.append(warning(GPUS, says, _until_it_is_free(name, reason)))
    return found


def _wait(name: str) -> Message:
    return Message("do_wait_or_restart", name=name)


def _until_it_is_free(name: str, reason: str) -> Message:
    if reason == str(UNSEEN):
        return _wait(name)
    return Message("do_wait_for_users") if reason.startswith("used by ") else Message("do_wait_or_aside")


def _by_reason(reasons: Mapping[int, str]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for gpu, reason in sorted(reasons.items()):
        found[reason] = (*found.get(reason, ()), gpu)
    return found
