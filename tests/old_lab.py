"""The folder of a lab that runs the old system, frozen in `tests/data/old_lab`, laid out where a test may change it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

FROZEN = Path(__file__).parent / "data" / "old_lab"
HOME = "/home/gpulab"
"""What the frozen conf.json calls home."""
PORTS = ("monitor_port", "data_port", "train_state_port")


def lay_out(root: Path, ports: Sequence[int]) -> Path:
    """Copy it to `root`, with this place and these ports in its conf.json; the folder of its conf.json.

    Git keeps no modes: the password file is made as open as the old system's manual leaves it.
    """
    shutil.copytree(FROZEN, root)
    conf = root / "master" / "conf.json"
    text = conf.read_text(encoding="utf-8").replace(HOME, str(root))
    for number, port in zip(range(63004, 63007), ports, strict=True):
        text = text.replace(str(number), str(port))
    conf.write_text(text, encoding="utf-8")
    (root / "master" / "psw").chmod(0o644)
    return root / "master"


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Mode and content of every file beneath, to see that nothing was changed."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mode, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def edit_json(path: Path, **changes: object) -> None:
    """Change keys of a JSON object; None takes one out."""
    value = {**json.loads(path.read_text(encoding="utf-8")), **changes}
    kept = {key: item for key, item in value.items() if item is not None}
    path.write_text(json.dumps(kept, ensure_ascii=False), encoding="utf-8")
