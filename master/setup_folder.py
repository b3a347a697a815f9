"""`muster init`: a conf.json and a registry that work on this machine as they are.

Writes these two files and refuses to touch existing ones. It looks at the machine once (how many GPUs `nvidia-smi`
lists); what the master later believes is what the registry says.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from wire.errors import ConfigError, ConflictError

CONF = "conf.json"
REGISTRY = "gpu_slaver_info.json"
PROBE_TIMEOUT_S = 5.0
PORTS = {"monitor_port": 63004, "data_port": 63005, "train_state_port": 63006}

_QUERY = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")


def init(folder: Path, *, force: bool = False) -> list[Path]:
    """Write conf.json and the registry into `folder` (made if need be); give the paths written.

    Raises ConflictError where one of them exists and `force` is not given, ConfigError where the folder or a file
    cannot be written.
    """
    folder = folder.absolute()
    contents = {folder / REGISTRY: [local_node()], folder / CONF: default_conf()}
    there = [path for path in contents if path.exists()]
    if there and not force:
        names = " and ".join(str(path) for path in there)
        raise ConflictError(f"{names} exists already and is left as it is; --force writes it anew")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, value in contents.items():
            _replace(path, value)
    except OSError as error:
        raise ConfigError(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
    return list(contents)


def default_conf() -> dict[str, Any]:
    """A conf.json with the keys that people most often change; all others have defaults."""
    return {
        "visible_folders": [],
        "psw_file": "psw",
        "slaver_file": REGISTRY,
        "train_log_path": "train_logs",
        "server_log_path": "server_log.log",
        "socket_info": {**PORTS, "buffer": 1 << 20, "listen": 100},
    }


def local_node() -> dict[str, Any]:
    """This machine as node `local`, with the GPUs that it has now."""
    gpus = probe_gpus()
    node: dict[str, Any] = {
        "name": "local",
        "ip": "127.0.0.1",
        "driver": "local",
        "gpu_probe": "auto" if gpus else "declared",
        "gpu_count": len(gpus),
        "gpu_info": [model for model, _ in gpus],
    }
    if gpus and all(memory for _, memory in gpus):
        node["gpu_memory"] = [memory for _, memory in gpus]
    return node


def probe_gpus(timeout_s: float = PROBE_TIMEOUT_S) -> list[tuple[str, int]]:
    """Model and memory (MiB, 0 where the driver does not say) of each GPU; nothing where nvidia-smi is not there,
    fails, or is silent for `timeout_s` seconds.
    """
    try:
        done = subprocess.run(
            _QUERY, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [] if done.returncode else [_gpu(line) for line in done.stdout.splitlines() if line.strip()]


def _gpu(line: str) -> tuple[str, int]:
    model, _, memory = line.rpartition(",")
    return model.strip() or line.strip(), int(memory) if memory.strip().isdigit() else 0


def _replace(path: Path, value: Any) -> None:
    """Write beside it, then rename: a file that is there is never seen half written."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
