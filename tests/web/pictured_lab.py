"""A lab as it is on a working day, for pictures of the console: a real master, nodes of this machine with a stand-in
for `nvidia-smi`, users, a queue, a day of history, folders and environments. Nothing in it is anybody's.

The history is of tasks that really ran here, whose times were then put back in the master's journal.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from client.api import Client, connect
from client.shapes import Node
from master.durable.journal import decode_record, encode_record
from tests.script_head import script_head
from tests.system.lab import Lab, rewrite
from tests.system.test_envs import distribution
from tests.waiting import NeverError, until
from tests.web.console import PASSWORD, Console

MODELS = {"gpu1": ("H100", 8), "gpu2": ("H100", 8), "gpu3": ("A100", 8), "gpu4": ("A100", 8), "gpu5": ("RTX4090", 4)}
FULL_NAMES = {"H100": "NVIDIA H100 80GB HBM3", "A100": "NVIDIA A100-SXM4-80GB", "RTX4090": "NVIDIA GeForce RTX 4090"}
MEMORY_MIB = {"H100": 81_559, "A100": 81_920, "RTX4090": 24_564}
PEOPLE = (
    *(("wang", "admin", "王伟"), ("li", "user", "李娜"), ("zhang", "user", "")),
    *(("ann", "user", ""), ("eve", "viewer", "")),
)
SMI = """{head}
import json, os, sys
pid, name = os.getppid(), ""
while pid > 1 and not name:
    words = open(f"/proc/{{pid}}/cmdline", "rb").read().split(b"\\0")
    if b"--state" in words:
        name = words[words.index(b"--state") + 1].decode().rsplit("-", 1)[-1]
    pid = int(open(f"/proc/{{pid}}/stat").read().rsplit(")", 1)[1].split()[1])
told = json.load(open({figures!r})).get(name, {{"gpus": [], "processes": []}})
fields = next((word.split("=", 1)[1].split(",") for word in sys.argv if word.startswith("--query-gpu=")), None)
if fields is None:
    print("\\n".join(told["processes"]))
else:
    for gpu in told["gpus"]:
        print(", ".join(str(gpu.get(field, "[N/A]")) for field in fields))
"""
TRAINING = """\
echo "loading {data} … 1,281,167 samples"
echo "model: {model}, $MUSTER_TASK_ID"
for epoch in $(seq 1 400); do
  for step in 100 200 300 400 500; do
    loss=$((epoch < 9)).$((9400 / (epoch + 1) + step))
    printf 'epoch %3d  step %4d  loss %s  lr 3.0e-04  %d samples/s\\n' $epoch $step $loss $((48000 + step))
  done
  top1=$((60 + epoch % 30)).$((epoch * 7 % 90 + 10))
  printf '\\033[32mvalidation\\033[0m  top-1 %s  best so far\\n' $top1
  sleep {pause}
done"""
BROKEN = """\
echo "loading /data/coco … 118,287 images"
for step in 100 200 300; do echo "step $step  loss 0.8$step"; done
echo "Traceback (most recent call last):" >&2
echo '  File "train.py", line 214, in <module>' >&2
echo '    main(parse_args())' >&2
echo '  File "train.py", line 187, in main' >&2
echo '    loss = step(model, batch)' >&2
echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has 1.12 GiB free." >&2
exit 1"""
_SWEPT = """\
echo "lr {lr}  weight decay {wd}"
case "{lr} {wd}" in
  "1e-4 "*) echo "final top-1 81.9"; exit 0;;
  "1e-3 0.01") echo "Traceback (most recent call last):"; echo "ValueError: loss is nan at step 1200" ; exit 1;;
  "1e-3 0.05") echo "Traceback (most recent call last):"; echo "ValueError: loss is nan at step 1200" ; exit 1;;
esac
for epoch in $(seq 1 400); do echo "epoch $epoch  loss 1.$((9000 - epoch))"; sleep 5; done"""
RUNNING: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("wang", "大模型预训练 7B", {"gpus": 8, "node": "gpu1", "project": "llm"}),
    ("li", "vit-large-imagenet", {"gpus": 4, "node": "gpu2", "project": "vision"}),
    ("zhang", "whisper-finetune", {"gpus": 2, "node": "gpu2", "project": "speech"}),
    ("wang", "bert-finetune", {"gpus": 1, "node": "gpu3"}),
    ("li", "点云检测-消融实验", {"gpus": 4, "node": "gpu3", "project": "vision"}),
    ("ann", "clip-retrieval", {"gpus": 2, "node": "gpu3", "project": "vision"}),
    ("zhang", "tts-vocoder", {"gpus": 2, "node": "gpu5", "project": "speech"}),
)
WAITING: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("li", "diffusion-xl", {"gpus": 8, "node": "gpu1", "project": "vision"}),
    ("wang", "大模型指令微调", {"gpus": 8, "node": "gpu2", "project": "llm", "urgent": True}),
    ("ann", "clip-large", {"gpus": 8, "gpu_models": ["H100"], "project": "vision"}),
    ("zhang", "whisper-large", {"gpus": 6, "node": "gpu2", "project": "speech"}),
)
DAY: tuple[tuple[str, str, int, float, float, str], ...] = (
    ("li", "resnet50-baseline", 4, 23.5, 6.0, ""), ("wang", "分词器训练", 8, 22.0, 9.0, ""),
    ("zhang", "wav2vec-probe", 2, 21.0, 3.5, ""), ("ann", "clip-base", 4, 19.5, 5.5, ""),
    ("li", "resnet50-mixup", 8, 16.0, 4.0, ""), ("wang", "评估-ceval", 8, 12.5, 3.0, ""),
    ("zhang", "whisper-small", 4, 12.0, 6.5, ""), ("ann", "blip-captions", 8, 10.0, 5.0, ""),
    ("li", "detr-coco", 4, 8.5, 2.0, BROKEN), ("wang", "大模型预训练 1B", 8, 8.0, 6.8, ""),
    ("li", "swin-tiny", 4, 6.0, 4.0, ""), ("wang", "数据清洗", 0, 4.0, 0.6, ""),
    ("zhang", "tts-baseline", 2, 3.0, 2.0, ""),
)  # fmt: skip
"""Owner, name, GPUs, hours ago that it started, hours that it took, its command."""


ENVS = {
    "pytorch-2.4": {"torch": "2.4.1", "torchvision": "0.19.1", "numpy": "1.26.4", "timm": "1.0.9", "tqdm": "4.66.5"},
    "speech": {"torch": "2.3.0", "torchaudio": "2.3.0", "numpy": "1.26.4", "soundfile": "0.12.1", "tqdm": "4.66.5"},
}
SYSTEMS = "/usr/bin/python3"
"""One that every account may run."""
FIRST_UID = 6301
_INSIDE = 'mount --bind "$1/passwd" /etc/passwd && mount --bind "$1/group" /etc/group && shift && exec "$@"'


@contextmanager
def pictured_lab(folder: Path) -> Iterator[tuple[Lab, Console]]:
    """It, and its console, in which `wang` is an admin; nothing is left of it."""
    tools, figures = folder / "bin", folder / "figures.json"
    tools.mkdir(parents=True)
    figures.write_text("{}", encoding="utf-8")
    program = tools / "nvidia-smi"
    program.write_text(SMI.format(head=script_head("-IS"), figures=str(figures)), encoding="utf-8")
    program.chmod(0o755)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{tools}:{before}"
    folder.chmod(0o755)  # its owners' tasks pass through
    lab = _lab(folder / "lab")
    lab.before = _with_accounts(folder / "accounts")
    tell_gpus(figures, {})
    lab.start()
    try:
        tokens = _people(lab)
        _yesterday(lab, tokens)
        with Console(lab, hosts=["queue.lab.example"]) as console:
            _as_people_write_them(lab)
            _today(lab, tokens)
            with lab.client() as owner:
                tell_gpus(figures, _held(owner))
                until("gpu2 tells of its broken GPU", lambda: "ECC" in str(owner.node("gpu2")["gpus"][7]["health"]))
                until("what is held is at work", lambda: all(map(_is_told, owner.nodes())))
            yield lab, console
    finally:
        os.environ["PATH"] = before
        if lab.master is not None:
            with lab.client() as client:
                client.cancel(everything=True)
                until("all have ended", lambda: not client.tasks())
        left = lab.close()
        if left:
            raise NeverError(f"had to be killed: {left}")


def _with_accounts(folder: Path) -> list[str]:
    """What the master's command line begins with, that everybody has an account where its tasks run."""
    folder.mkdir()
    lines = {name: Path(f"/etc/{name}").read_text(encoding="utf-8") for name in ("passwd", "group")}
    for uid, (name, _, _) in enumerate(PEOPLE, FIRST_UID):
        home = folder / name
        home.mkdir(mode=0o700)
        os.chown(home, uid, uid)
        lines["passwd"] += f"{name}:x:{uid}:{uid}::{home}:/bin/bash\n"
        lines["group"] += f"{name}:x:{uid}:\n"
    for name, text in lines.items():
        (folder / name).write_text(text, encoding="utf-8")
    return ["unshare", "--mount", "sh", "-c", _INSIDE, "sh", str(folder)]


def _lab(folder: Path) -> Lab:
    lab = Lab(folder)
    lab.nodes = list(MODELS)
    entry = {"ip": "127.0.0.1", "driver": "local", "slots": 16}
    lab.write_registry([
        {"name": name, **entry, "gpu_count": count, "gpu_info": [model] * count}
        for name, (model, count) in MODELS.items()
    ])  # fmt: skip
    _folders(lab.folder / "data")
    for name, packages in ENVS.items():
        home = lab.folder / "envs" / "miniconda3" / "envs" / name
        python = SYSTEMS if Path(SYSTEMS).exists() else sys.executable
        subprocess.run([python, "-m", "venv", "--without-pip", str(home)], check=True)
        for package, version in packages.items():
            distribution(home, package, version)
    lab.write_conf(root=str(lab.folder), visible_folders=["data"])
    return lab


def _folders(data: Path) -> None:
    """What people see beneath their folder."""
    for name in ("checkpoints", "coco", "项目"):
        (data / name).mkdir(parents=True)
    for epoch in (10, 20, 30, 40):
        (data / "checkpoints" / f"epoch-{epoch:03}.pt").write_bytes(b"\0" * (epoch << 16))
    texts = {
        "config.yaml": "model: vit-large\nlr: 3.0e-4\nbatch: 256\nepochs: 300\naugment:\n  mixup: 0.8\n  cutmix: 1.0\n",
        "实验记录.md": "# 消融实验\n\n| lr | top-1 |\n| --- | --- |\n| 1e-4 | 81.2 |\n| 3e-4 | 82.7 |\n",
        "train.py": "import torch\n\n\ndef main() -> None:\n    ...\n",
    }
    for name, text in texts.items():
        (data / name).write_text(text, encoding="utf-8")
    (data / "loss.png").write_bytes(curve(640, 320))


def curve(width: int, height: int) -> bytes:
    """A PNG of a curve that falls."""
    heights = [height * 0.85 * 2.7 ** (-4 * x / width) + height * 0.1 for x in range(width)]
    rows = (b"\0" + bytes(0 if abs(height - y - heights[x]) < 2 else 1 for x in range(width)) for y in range(height))
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", bytes((37, 99, 235, 255, 255, 255))),
        (b"IDAT", zlib.compress(b"".join(rows), 9)),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def tell_gpus(figures: Path, held: dict[str, set[int]]) -> None:
    """Write what `nvidia-smi` says: those that are held work; one of gpu2 is broken, another is used by somebody from
    outside the queue (by this process)."""
    told: dict[str, Any] = {}
    for name, (model, count) in MODELS.items():
        gpus = [_gpu(name, model, index, is_held=index in held.get(name, ())) for index in range(count)]
        told[name] = {"gpus": gpus, "processes": []}
        if name == "gpu2":
            gpus[7]["ecc.errors.uncorrected.volatile.total"] = 2
            gpus[6].update({"utilization.gpu": 34, "memory.used": 9216})
            told[name]["processes"] = [f"{gpus[6]['uuid']}, {os.getpid()}, 9216"]
    draft = figures.with_suffix(".draft")
    draft.write_text(json.dumps(told), encoding="utf-8")
    draft.replace(figures)


def _gpu(node: str, model: str, index: int, *, is_held: bool) -> dict[str, Any]:
    spread = (index * 37 + len(node) * 11 + ord(node[-1])) % 17
    total = MEMORY_MIB[model]
    return {
        "uuid": f"GPU-{node}-{index}", "pci.bus_id": f"00000000:{index + 1:02X}:00.0", "name": FULL_NAMES[model],
        "utilization.gpu": 82 + spread if is_held else 0, "utilization.memory": 20, "memory.total": total,
        "memory.used": int(total * (0.55 + spread / 45)) if is_held else 4,
        "temperature.gpu": 58 + spread if is_held else 31, "power.draw": 410 + 9 * spread if is_held else 68,
        "ecc.errors.uncorrected.volatile.total": 0, "mig.mode.current": "Disabled",
    }  # fmt: skip


def _people(lab: Lab) -> dict[str, str]:
    """Users and their groups; a token of each."""
    with lab.client() as owner:
        for name, role, display in PEOPLE:
            owner.people.add(name, role=role, display=display, password=PASSWORD)
        submitters = [name for name, role, _ in PEOPLE if role != "viewer"]
        return {name: owner.people.new_token(name, label="jupyter")["token"] for name in submitters}


@contextmanager
def _as(lab: Lab, tokens: dict[str, str], name: str) -> Iterator[Client]:
    with connect(conf=str(lab.conf), token=tokens[name]) as client:
        yield client


def _submit(lab: Lab, tokens: dict[str, str], owner: str, command: str, **spec: Any) -> int:
    with _as(lab, tokens, owner) as client:
        return client.submit(command, cwd=str(lab.folder / "data"), **spec)


def _yesterday(lab: Lab, tokens: dict[str, str]) -> None:
    """What ran in the last 24 hours: it runs now, and its times are written back by so much."""
    ran: dict[int, tuple[float, float]] = {}
    for owner, name, gpus, ago, took, command in DAY:
        ran[_submit(lab, tokens, owner, command or "echo 'final top-1 82.7'", name=name, gpus=gpus)] = (ago, took)
    with lab.client() as client:
        until("they ended", lambda: not client.tasks())
    lab.stop_master()
    journal = lab.task_info / "journal.jsonl"
    lines = journal.read_bytes().splitlines()
    journal.write_bytes(b"".join(_put_back(line, ran) for line in lines))
    lab.start()


def _put_back(line: bytes, ran: dict[int, tuple[float, float]]) -> bytes:
    """A record of the journal in which tasks of `ran` ended, with the times that are given there."""
    record = decode_record(line)
    if record is None:
        raise NeverError("the journal is damaged")
    told = json.loads(record.body)
    for task in told.get("tasks", []):
        if "ended_at" in task and task["id"] in ran:
            ago, took = ran[task["id"]]
            began = time.time() - 3600 * ago
            task |= {"submitted_at": began - 240, "started_at": began, "ended_at": began + 3600 * took}
    return encode_record(record.seq, record.synced, json.dumps(told, ensure_ascii=False).encode())


def _today(lab: Lab, tokens: dict[str, str]) -> None:
    """What runs and waits now, a sweep that is halfway, and a node that is being drained."""
    sweep = {"lr": ["1e-4", "3e-4", "1e-3"], "wd": ["0.01", "0.05", "0.1", "0.2"]}
    with _as(lab, tokens, "li") as client:
        spec: dict[str, Any] = {
            "name": "vit-lr{lr}-wd{wd}",
            "gpus": 1,
            "node": "gpu4",
            "cwd": str(lab.folder / "data"),
            "cap": 5,
        }
        client.submit_array(_SWEPT, sweep=sweep, **spec)
    with lab.client() as client:
        until("the sweep is halfway", lambda: len(client.tasks(states=["running"])) == 5 and len(client.tasks()) == 6)
    for at, (owner, name, spec) in enumerate(RUNNING):
        command = TRAINING.format(data="/data/imagenet", model=name, pause=3 + at)
        _submit(lab, tokens, owner, command, name=name, **spec)
    with lab.client() as client:
        until("all run", lambda: len(client.tasks(states=["running"])) == len(RUNNING) + 5)
    for owner, name, spec in WAITING:
        _submit(lab, tokens, owner, f"python train.py --config {name}.yaml", name=name, **spec)
    first = _submit(lab, tokens, "wang", "python export.py", name="导出权重", gpus=1, hold=True)
    _submit(lab, tokens, "wang", "python eval.py --split test", name="评估", gpus=1, after=[{"id": first, "on": "ok"}])
    with _as(lab, tokens, "wang") as client:
        client.drain("gpu5", "fan replaced on Friday")


def _is_told(node: Node) -> bool:
    """Do the samples of a node tell of use where tasks hold GPUs?"""
    return all(gpu["utilization"] for gpu in node["gpus"] if gpu["held_by"])


def _as_people_write_them(lab: Lab) -> None:
    """conf.json and the registry, which pictures show, in lines."""
    rewrite(lab.conf, json.dumps(lab.keys, indent=2))
    entries = json.loads(lab.registry.read_text(encoding="utf-8"))
    lines = [f"  {json.dumps(entry)}".replace('"gpu_info"', '\n   "gpu_info"') for entry in entries]
    rewrite(lab.registry, "[\n" + ",\n".join(lines) + "\n]\n")


@contextmanager
def records_lost(lab: Lab) -> Iterator[None]:
    """Meanwhile two tasks of `gpu4` run on, of which the master's folder knows nothing: it was restored from a copy
    that is older than they are."""
    journal = lab.task_info / "journal.jsonl"
    with lab.client() as client:
        before = journal.read_bytes()
        for name in ("bert-large-wwm", "目标检测-基线"):
            number = client.submit("sleep 9999", name=name, gpus=1, node="gpu4")
            until("it runs", lambda number=number: client.show(number)["state"] == "running")  # type: ignore[misc]
    lab.kill_master()
    journal.write_bytes(before)
    lab.start_past_damage()
    with lab.client() as client:
        found = until("they are found", lambda: _unknown(client))
        yield
        for launch in found:
            client.call("node.end_attempt", {"name": "gpu4", "launch_id": launch})
        until("they are gone", lambda: client.call("node.attempts", {"name": "gpu4"}) == [])


def _unknown(client: Client) -> list[str] | None:
    """The launch ids of both, once both are known."""
    found = [one["launch_id"] for one in client.call("node.attempts", {"name": "gpu4"})]
    return found if len(found) == 2 else None


def _held(client: Client) -> dict[str, set[int]]:
    """Which GPUs of each node tasks hold."""
    held: dict[str, set[int]] = {}
    for task in client.tasks(states=["running"]):
        for part in task["allocation"]:
            held.setdefault(part["node"], set()).update(part["gpus"])
    return held
