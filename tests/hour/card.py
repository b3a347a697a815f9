# ruff: noqa: PTH105, PTH108, PTH110, PTH123, PTH208, T201
# It is started with every sample, so it imports little; and what it prints is for whoever started it.
"""GPUs that are not there, on one host: processes declare how much memory they use of which card, and `nvidia-smi`
reports that. A process gets no more than the card has left, as from a driver.

    card.py --query-gpu=FIELDS --format=…, card.py --query-compute-apps=…     as nvidia-smi
    card.py train KIND PEAK GROW RUN [CARD]     a training: PEAK MiB within GROW seconds, for RUN seconds; of the cards
                                                that CUDA_VISIBLE_DEVICES names, or of CARD without asking anybody

It is laid out on the hosts, where none of our code is: it imports only the standard library.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

FOLDER = os.environ.get("CARDS_FOLDER", "/var/tmp/cards")  # noqa: S108  (each host has one of its own)
"""A file for each process, by its pid: its task, and a line `CARD MIB` for each card."""
TOTAL_MIB, DRIVER_MIB, CONTEXT_MIB = 24_564, 300, 450
"""Of a card; of that what the driver takes for itself; what each process takes at its start."""
STEP_S = 1.0
MODEL = "NVIDIA GeForce RTX 4090"


def declared() -> dict[int, tuple[str, dict[int, int]]]:
    """What the living processes declare: by pid their task, and MiB by card."""
    found = {}
    for name in os.listdir(FOLDER):
        if not name.isdigit() or not os.path.exists(f"/proc/{name}"):
            continue
        with suppress(FileNotFoundError), open(f"{FOLDER}/{name}", encoding="ascii") as file:
            task, *lines = file.read().splitlines()
            found[int(name)] = (task, {int(line.split()[0]): int(line.split()[1]) for line in lines})
    return found


# -- a training ------------------------------------------------------------------------------------------------


@contextmanager
def alone() -> Iterator[None]:
    """Nobody else allocates meanwhile."""
    fd = os.open(f"{FOLDER}/lock", os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def allocate(cards: list[int], mib: int) -> str:
    """Have so much of each of these cards; what the driver says where there is not so much."""
    with alone():
        others = [used for pid, (_, used) in declared().items() if pid != os.getpid()]
        for card in cards:
            free = TOTAL_MIB - DRIVER_MIB - sum(used.get(card, 0) for used in others)
            if mib > free:
                said = f"CUDA out of memory. Tried to allocate {mib} MiB. GPU {card} has {free} MiB free."
                return f"torch.OutOfMemoryError: {said}"
        draft = f"{FOLDER}/.{os.getpid()}"
        with open(draft, "w", encoding="ascii") as file:
            file.write(os.environ.get("MUSTER_TASK_ID", "") + "\n" + "".join(f"{card} {mib}\n" for card in cards))
        os.replace(draft, f"{FOLDER}/{os.getpid()}")
    return ""


def train(peak: int, grow_s: float, run_s: float, cards: list[int]) -> int:
    """Use memory of the cards: what a process has at its start, then more until it has `peak` MiB."""
    began, had = time.monotonic(), 0
    while (passed := time.monotonic() - began) < run_s:
        mib = max(CONTEXT_MIB, min(peak, round(peak * passed / grow_s) if grow_s else peak))
        if cards and mib > had:
            refused = allocate(cards, mib)
            if refused:
                print(f"Traceback (most recent call last):\n{refused}", flush=True)
                return 1
            had = mib
            print(f"{passed:6.1f} s  {mib} MiB of GPU {','.join(map(str, cards))}", flush=True)
        time.sleep(min(STEP_S, run_s))
    print("final accuracy 0.97", flush=True)
    return 0


# -- nvidia-smi ------------------------------------------------------------------------------------------------


def figures(card: int, used: int, *, busy: bool) -> dict[str, str]:
    """A card, as nvidia-smi names what it shows."""
    return {
        "uuid": uuid(card),
        "pci.bus_id": f"00000000:{0x3B + card:02X}:00.0",
        "utilization.gpu": "83" if busy else "0",
        "utilization.memory": "40" if busy else "0",
        "memory.total": str(TOTAL_MIB),
        "memory.used": str(DRIVER_MIB + used),
        "temperature.gpu": "66" if busy else "34",
        "power.draw": "310.00" if busy else "24.00",
        "ecc.errors.uncorrected.volatile.total": "0",
        "mig.mode.current": "Disabled",
        "name": MODEL,
    }


def uuid(card: int) -> str:
    """Of this host's card."""
    return f"GPU-{sum(os.uname().nodename.encode()):08d}-0000-0000-0000-{card:012d}"


def show(query: str, cards: int) -> None:
    """Answer as nvidia-smi does."""
    found = declared()
    what, _, fields = query.partition("=")
    if what == "--query-compute-apps":
        for pid, (_, used) in found.items():
            for card, mib in used.items():
                print(f"{uuid(card)}, {pid}, {mib}")
        return
    for card in range(cards):
        on_card = [mib for _, of in found.values() for number, mib in of.items() if number == card]
        shown = figures(card, sum(on_card), busy=bool(on_card))
        print(", ".join(shown.get(field, "[N/A]") for field in fields.split(",")))


def main(words: list[str]) -> int:
    """Do what the first word says."""
    if words[0] != "train":
        with open(f"{FOLDER}/cards", encoding="ascii") as file:
            show(words[0], int(file.read()))
        return 0
    _, _kind, peak, grow_s, run_s, *card = words
    given = card or [word for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word.isdigit()]
    try:
        return train(int(peak), float(grow_s), float(run_s), [int(word) for word in given])
    finally:
        with suppress(FileNotFoundError):
            os.unlink(f"{FOLDER}/{os.getpid()}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
