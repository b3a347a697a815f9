"""What is to be found on a node's GPUs: as many as the registry says, the driver alive, none set aside. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from master.core.gpu_watch import UNSEEN
from master.doctor.finding import GPUS, Finding, fault, ok, skipped, warning, word
from master.doctor.scripts import complaint
from wire.agent import Probed

SMI = ["nvidia-smi", "-L"]
_DRIVER = "install the driver that fits its kernel, or reboot; `dmesg | grep -iE 'nvrm|xid'` there says more"


class Smi(msgspec.Struct, frozen=True):
    """What `nvidia-smi` says: how many GPUs, or why it says nothing; neither where there is none."""

    count: int | None = None
    error: str = ""


class Books(msgspec.Struct, frozen=True, kw_only=True):
    """What the master knows. `models`: the registry's; `seen`: how many the samples show; `aside` and `kept_back`:
    why a GPU, by index, gets no tasks; `mismatch`: as `gpu_models` tells it."""

    models: tuple[str, ...]
    declared: bool
    seen: int
    aside: Mapping[int, str]
    kept_back: Mapping[int, str]
    mismatch: str | None = None


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
        told = f"the registry counts {_gpus(len(books.models))}, and no sample has told of them yet"
        return [warning(GPUS, told, _wait(name)), *_closed(name, books, told=True)]
    driver = _driver_and_count(name, books, smi)
    return [driver, *_closed(name, books, told=driver.verdict == "fault")]


def _nothing_is_known(books: Books, smi: Smi) -> bool:
    """Has nobody told of its GPUs since the connection stands, which a change of `gpu_probe` begins anew? That none was
    seen says nothing then."""
    return str(UNSEEN) in books.kept_back.values() and smi == Smi() and not books.declared


def _driver_and_count(name: str, books: Books, smi: Smi) -> Finding:
    count = len(books.models)
    if books.declared:
        told = f"`gpu_probe` is `declared`: the registry is believed, it counts {_gpus(count)}"
        return skipped(GPUS, told)
    if smi.error:
        return fault(GPUS, f"nvidia-smi fails: {smi.error}", _DRIVER)
    shown = max(books.seen, smi.count or 0)
    if shown == count == 0:
        return skipped(GPUS, "the registry counts none, and the machine shows none")
    if shown == 0:
        told = f"the registry counts {_gpus(count)}, and the machine shows none"
        if smi.count is None:
            told += "; nvidia-smi is not there"
        other = f"where they are not NVIDIA's: `muster node edit {word(name)} gpu-probe=declared`"
        return fault(GPUS, told, f"{_DRIVER}; {other}")
    if shown < count:
        cure = f"look for the one that fell off ({_DRIVER}), or `muster node edit {word(name)} gpus={shown}`"
        return fault(GPUS, f"the machine shows {_gpus(shown)}, the registry counts {count}", cure)
    if shown > count:
        cure = f"`muster node edit {word(name)} gpus={shown}` lets tasks use all of them"
        return warning(GPUS, f"the machine shows {_gpus(shown)}, the registry counts {count}", cure)
    if books.mismatch:
        return warning(GPUS, books.mismatch, f"`muster node edit {word(name)} gpu-model=…` says which they are")
    return ok(GPUS, f"{_gpus(count)}, as the registry says: {', '.join(dict.fromkeys(books.models))}")


def _closed(name: str, books: Books, *, told: bool) -> list[Finding]:
    """Those that get no tasks; GPUs with the same reason (a driver that is gone has one for all) in one finding.
    `told`: that the driver is gone, or some of the GPUs, is another finding."""
    found = []
    for reason, which in _by_reason(books.aside).items():
        cure = f"when it is mended: `muster node resume {word(name)} --gpu {','.join(map(str, which))}`"
        found.append(warning(GPUS, f"{_named(which)}: {reason}", cure))
    # That the machine shows fewer is told already.
    held = {gpu: why for gpu, why in books.kept_back.items() if gpu not in books.aside and "registry counts" not in why}
    for reason, which in _by_reason(held).items():
        if told and len(which) == len(books.models):
            continue
        found.append(warning(GPUS, f"{_named(which)}: {reason}", _until_it_is_free(name, reason)))
    return found


def _wait(name: str) -> str:
    return f"wait some seconds, then look again; if it stays so: `muster agents restart {word(name)}`"


def _until_it_is_free(name: str, reason: str) -> str:
    if reason == str(UNSEEN):
        return _wait(name)
    used = reason.startswith("used by ")
    return "tasks get it when they have ended" if used else "wait; it is set aside if that stays so"


def _by_reason(reasons: Mapping[int, str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for gpu, reason in sorted(reasons.items()):
        found.setdefault(reason, []).append(gpu)
    return found


def _named(which: list[int]) -> str:
    numbers = ", ".join(map(str, which))
    return f"GPU {numbers} gets no tasks" if len(which) == 1 else f"GPUs {numbers} get no tasks"


def _gpus(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"
