"""`muster init`: a conf.json and a registry that work on this machine as they are.

Writes these two files and refuses to touch existing ones; `put`, the way in which it writes, is there for `takeover`
too. It looks at the machine once (how many GPUs `nvidia-smi` lists); what the master later believes is what the
registry says.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from wire.errors import ConflictError
from wire.file_fault import fault
from wire.message import Message
from wire.numbers import whole_number

CONF = "conf.json"
REGISTRY = "gpu_slaver_info.json"
PROBE_TIMEOUT_S = 5.0
PORTS = {"monitor_port": 63004, "data_port": 63005, "train_state_port": 63006}

_QUERY = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")


def init(
    folder: Path, *, force: bool = False, web_port: int | None = None, ports: Mapping[str, int] = PORTS
) -> list[Path]:
    """Write conf.json and the registry into `folder` (made if need be); give the paths written. `web_port`: where the
    console is to listen, None for no console; `ports`: those of `socket_info`.

    Raises ConflictError where one of them exists and `force` is not given, ConfigError where the folder or a file
    cannot be written.
    """
    folder = folder.absolute()
    contents = {folder / REGISTRY: [local_node()], folder / CONF: default_conf(web_port, ports)}
    there = [path for path in contents if os.path.lexists(path)]
    if there and not force:
        raise ConflictError(Message("setup_exists", files=tuple(map(str, there))))
    try:
        folder.mkdir(0o755, parents=True, exist_ok=True)  # whatever the umask, nobody else writes into a new one
    except FileExistsError:
        raise fault(folder, Message("no_folder_here")) from None
    except OSError as error:
        raise fault(folder, Message("file_unwritable", detail=error.strerror)) from None
    put([NewFile(path, as_text(value)) for path, value in contents.items()])
    return list(contents)


class NewFile(NamedTuple):
    """A file to write. `like`: the one whose mode and owner it gets, if that is there (None: those of a new file)."""

    path: Path
    data: bytes
    like: Path | None = None


def put(files: Sequence[NewFile]) -> None:
    """Put these files in their places, durably: all are written beside first, and only then renamed, in their order.

    Raises ConfigError when one cannot be written; none has taken its place then.
    """
    drafts: list[tuple[Path, Path]] = []
    try:
        for file in files:
            drafts.append((_beside(file.path), file.path))
            _write(drafts[-1][0], file)
        for draft, path in drafts:
            draft.replace(path)
        for folder in {path.parent for _, path in drafts}:
            _sync(folder)
    except OSError as error:
        for draft, _ in drafts:
            draft.unlink(missing_ok=True)
        path = next((path for draft, path in drafts if error.filename == str(draft)), files[len(drafts) - 1].path)
        raise fault(path, Message("file_unwritable", detail=error.strerror)) from None


def as_text(value: Any) -> bytes:
    """JSON as people like to edit it."""
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def default_conf(web_port: int | None = None, ports: Mapping[str, int] = PORTS) -> dict[str, Any]:
    """A conf.json with the keys that people most often change; all others have defaults."""
    web = {} if web_port is None else {"web": {"port": web_port}}
    return {
        "visible_folders": [],
        "psw_file": "psw",
        "slaver_file": REGISTRY,
        "train_log_path": "train_logs",
        "server_log_path": "server_log.log",
        "socket_info": {**ports, "buffer": 1 << 20, "listen": 100},
        **web,
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
    return model.strip() or line.strip(), whole_number(memory.strip()) or 0


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}")


def _write(draft: Path, file: NewFile) -> None:
    draft.unlink(missing_ok=True)
    # Nothing is written through links of others: in their own folder they can predict this name.
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    with os.fdopen(fd, "wb") as out:
        if file.like is not None and file.like.exists():
            was = file.like.stat()
            if os.geteuid() == 0:
                os.fchown(out.fileno(), was.st_uid, was.st_gid)
            os.fchmod(out.fileno(), stat.S_IMODE(was.st_mode))
        else:  # any account that may write it decides what `muster up` runs
            os.fchmod(out.fileno(), stat.S_IMODE(os.fstat(out.fileno()).st_mode) & ~0o022)
        out.write(file.data)
        out.flush()
        os.fsync(out.fileno())


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
