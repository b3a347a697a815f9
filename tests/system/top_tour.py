"""The tour of `muster top`: `python -m tests.system.top_tour` makes the captures in docs/top anew, and docs/top.md.

It starts a lab of nodes of this machine, with a stand-in for `nvidia-smi` that gives each node GPUs and figures, runs
`muster top` in tmux at two sizes, presses keys and keeps what stands on the screen.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.script_head import script_head
from tests.system.lab import ROOT, Lab
from tests.waiting import NeverError, until

FOLDER = ROOT / "docs" / "top"
PAGE = ROOT / "docs" / "top.md"
SAMPLES_S = 3.0
"""After so long every node has sent a sample."""
SIZES = ((80, 24), (200, 50))
SMI = '''{head}
import math, sys, time
def node(pid):
    """The node whose agent asks: it stands in the command of an ancestor."""
    while pid > 1:
        words = open(f"/proc/{{pid}}/cmdline", "rb").read().split(b"\\0")
        if b"--state" in words:
            return words[words.index(b"--state") + 1].decode().rsplit("-", 1)[-1]
        pid = int(open(f"/proc/{{pid}}/stat").read().rsplit(")", 1)[1].split()[1])
    return ""
import os
name = node(os.getppid())
count = {counts!r}.get(name, 0)
fields = next((word.split("=", 1)[1].split(",") for word in sys.argv if word.startswith("--query-gpu=")), None)
uuid = lambda index: f"GPU-{{name}}-{{index}}"
if fields is None:
    if name == "gpu2":
        print(f"{{uuid(5)}}, {pid}, 9216")
    sys.exit()
for index in range(count):
    wave = math.sin(time.time() / 7 + index * 1.7 + len(name)) / 2 + 0.5
    busy = name != "gpu3" and index < 6
    print(", ".join(str({{
        "uuid": uuid(index), "pci.bus_id": f"00000000:{{index + 1:02X}}:00.0",
        "utilization.gpu": round(55 + 45 * wave) if busy else 0,
        "utilization.memory": 20, "memory.total": 81559,
        "memory.used": round(20000 + 55000 * (index % 3) / 2 + 4000 * wave) if busy else 4,
        "temperature.gpu": round(41 + 30 * wave) if busy else 33, "power.draw": round(180 + 420 * wave) if busy else 71,
        "ecc.errors.uncorrected.volatile.total": 2 if (name, index) == ("gpu2", 7) else 0,
        "mig.mode.current": "Disabled", "name": "NVIDIA H100 80GB HBM3",
    }}.get(field, "[N/A]")) for field in fields))
'''
COUNTS = {"gpu1": 8, "gpu2": 8, "gpu3": 4}
TRAINING = (
    "for step in $(seq 1 100000); do "
    "printf '第 %d 步  loss=0.%04d  lr=3e-4  tokens/s=48210\\n' $step $((9000 - step % 8000)); sleep 0.2; done"
)


class Tour:
    """One run of `muster top` in tmux."""

    def __init__(self, lab: Lab, size: tuple[int, int], socket: Path) -> None:
        self._lab, self._size, self._socket = lab, size, socket

    def tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), "-f", "/dev/null", *words], capture_output=True, text=True, check=True
        )
        return done.stdout

    def begin(self) -> None:
        columns, rows = map(str, self._size)
        command = shlex.join([sys.executable, "-m", "muster", "top", "--conf", str(self._lab.conf)])
        self.tmux("new-session", "-d", "-x", columns, "-y", rows, f"cd {shlex.quote(str(ROOT))} && exec {command}")

    def screen(self) -> str:
        return "\n".join(line.rstrip() for line in self.tmux("capture-pane", "-p").rstrip("\n").split("\n")) + "\n"

    def press(self, *keys: str) -> None:
        for key in keys:
            self.tmux("send-keys", *(("-l", key) if len(key) > 1 and key.islower() else (key,)))
            time.sleep(0.15)

    def keep(self, name: str, *awaited: str) -> None:
        """Wait for these words, let the screen settle, and keep it."""
        until(f"{name}: {awaited}", lambda: all(word in self.screen() for word in awaited))
        time.sleep(1.2)
        columns, rows = self._size
        (FOLDER / f"{columns}x{rows}-{name}.txt").write_text(self.screen(), encoding="utf-8")


@contextmanager
def demo_lab(folder: Path) -> Iterator[Lab]:
    """Three nodes and their queue."""
    tools = folder / "bin"
    tools.mkdir(parents=True)
    program = tools / "nvidia-smi"
    program.write_text(SMI.format(head=script_head(), counts=COUNTS, pid=os.getpid()), encoding="utf-8")
    program.chmod(0o755)
    os.environ["PATH"] = f"{tools}:{os.environ['PATH']}"
    lab = Lab(folder / "lab")
    lab.nodes = list(COUNTS)
    entry = {"ip": "127.0.0.1", "driver": "local", "slots": 16}
    models = {name: {"gpu_info": ["H100"] * count} for name, count in COUNTS.items()}
    lab.write_registry([
        {"name": name, **entry, "gpu_count": count, **models[name]} for name, count in COUNTS.items()
    ])  # fmt: skip
    lab.start()
    try:
        fill(lab)
        yield lab
    finally:
        with lab.client() if lab.master else _nothing() as client:
            if client is not None:
                client.cancel(everything=True)
                until("all have ended", lambda: not client.tasks())
        left = lab.close()
        if left:
            raise NeverError(f"had to be killed: {left}")


@contextmanager
def _nothing() -> Iterator[None]:
    yield None


def fill(lab: Lab) -> None:
    """A queue as it is on a working day."""
    with lab.client() as client:
        until("all nodes are online", lambda: all(node["state"] == "online" for node in client.nodes()))
        submit: Callable[..., int] = client.submit
        submit(TRAINING, name="大模型预训练", gpus=6, node="gpu1", project="llm")
        until("the first one runs, and so stands first", lambda: client.tasks(states=["running"]))
        submit("sleep 9999", name="vit-large", gpus=4, node="gpu2", project="vision")
        submit("sleep 9999", name="bert-finetune", gpus=1, node="gpu2")
        submit("sleep 9999", name="数据清洗", node="gpu3")
        until("they run", lambda: len(client.tasks(states=["running"])) == 4)
        for rate in ("1e-4", "3e-4", "1e-3", "3e-3"):
            submit(f"python train.py --lr {rate}", name=f"sweep-lr-{rate}", gpus=8, node="gpu1")
        submit("python eval.py --split test", name="评估", gpus=1, after=[{"id": 1, "on": "ok"}])
        submit("python -m diffusion.train --resume", name="diffusion", gpus=8, urgent=True)
        submit("python export.py", name="export", gpus=2, hold=True)
        client.drain("gpu3", "fan replaced on Friday")
        until("gpu2 tells of its broken GPU", lambda: "ECC" in str(client.node("gpu2")["gpus"][7]["health"]))


def show(lab: Lab, tour: Tour) -> None:
    """The stations. Each ends where it began."""
    tour.begin()
    time.sleep(SAMPLES_S)
    tour.keep("overview", "● live", "diffusion")
    tour.press("Tab", "x", "z")
    tour.keep("gpus", "used by")
    tour.press("x", "x", "z", "Tab", "g", "l")
    tour.keep("log", "log of task", "步")
    tour.press("q")
    tour.press("/", "diffusion", "Enter", "w")
    tour.keep("why", "why (q closes)")
    tour.press("q", "Escape")
    tour.press("/", "sweep", "Enter")
    tour.keep("filter", "/sweep")
    tour.press("Escape", "g", "c")
    tour.keep("cancel", "Cancel task 1")
    tour.press("n", "?")
    tour.keep("help", "cancel it, after a question")
    tour.press("q")
    lab.kill_master()
    tour.keep("no-master", "NO MASTER for 3s")
    lab.start()
    until("it is back", lambda: "● live" in tour.screen())
    tour.press("q")


def write_page() -> None:
    """Put the captures into the page, behind the links to their files."""

    def fenced(found: re.Match[str]) -> str:
        return f"{found[1]}\n\n```text\n{(PAGE.parent / found[2]).read_text(encoding='utf-8')}```\n"

    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(
        re.sub(r"(\[[^\]]*\]\((top/[^)]*\.txt)\))\n\n```text\n.*?```\n", fenced, text, flags=re.DOTALL), "utf-8"
    )


def main() -> None:
    """Make all of it."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, demo_lab(Path(folder)) as lab:
        for size in SIZES:
            socket = Path(folder) / f"tmux-{size[0]}"  # a server that is ending still answers at its own
            try:
                show(lab, Tour(lab, size, socket))
            finally:
                subprocess.run(["tmux", "-S", str(socket), "kill-server"], check=False)
    write_page()


if __name__ == "__main__":
    main()
