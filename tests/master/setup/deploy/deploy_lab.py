"""A lab of one master and three nodes, with every odd name that a lab may have, for the tests of `muster deploy`.

`python -m tests.master.setup.deploy.deploy_lab` writes the golden files anew; look at the difference before you commit.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from master.config.config import load_config
from master.nodes.registry import load_registry
from master.setup.deploy import units
from master.setup.deploy.lab import Lab, gather
from master.setup.deploy.machine import Machine, Mount
from master.setup.deploy.plan import files_of
from tests.conftest import declared_node

GOLDEN = Path(__file__).parents[3] / "data" / "deploy"
VISIBLE = ["实验 数据", "envs", 'data #1 "raw"', "50%Umsatz", "it's"]
SECRET = "do-not-tell"  # noqa: S105  (to be looked for, everywhere)
NODES: list[dict[str, Any]] = [
    {"name": "Slaver 1", "ip": "192.168.36.130", "user_name": "lab", "gpu_count": 2},
    {"name": "节点二", "ip": "fd00::12", "user_name": "lab2", "port": 2222, "gpu_count": 1},
    {
        "name": "100%'s",
        "ip": "gpu3.lab",
        "user_name": "lab",
        "gpu_count": 0,
        "proxy": f"socks5://u:{SECRET}@10.0.0.1:1080",
    },
]
PORTS = {"monitor_port": 63004, "data_port": 63005, "train_state_port": 63006}
INFLUX = {"url": "http://192.168.36.10:8086", "org": "the $lab", "bucket": "muster", "token": SECRET}
ADDRESSES = {"192.168.36.130": "192.168.36.10", "fd00::12": "fd00::10", "192.168.36.10": "192.168.36.10"}
LOCAL = [declared_node("local", gpus=1)]


def write_lab(folder: Path, nodes: list[dict[str, Any]] | None = None, **keys: Any) -> Path:
    """Write the lab beneath `folder`; gives conf.json's path. `keys`: of conf.json, None leaves one out."""
    home = folder / "mas ter 100%"
    for name in ("envs/miniconda3", "实验 数据"):
        (home / name).mkdir(parents=True, exist_ok=True)
    conf = {
        "visible_folders": VISIBLE,
        "train_log_path": "实验 数据/logs",
        "bind": "192.168.36.10",
        "socket_info": PORTS,
        "desktop_client": {"networks": ["127.0.0.0/8", "192.168.36.0/24"]},
        "influx": INFLUX,
        **keys,
    }
    text = json.dumps({key: value for key, value in conf.items() if value is not None}, ensure_ascii=False)
    (home / "conf.json").write_text(text, encoding="utf-8")
    (home / "psw").write_text(SECRET, encoding="utf-8")
    registry = json.dumps(NODES if nodes is None else nodes, ensure_ascii=False)
    (home / "gpu_slaver_info.json").write_text(registry, encoding="utf-8")
    return home / "conf.json"


def machine(*mounts: Mount, **changes: Any) -> Machine:
    """The master's machine: always the same one, wherever the tests run."""
    code = Path(__file__).parents[4]
    here = Machine(
        host="boss",
        user="lab",
        uid=1000,
        home=Path("/home/lab"),
        python="/opt/muster/.venv/bin/python",
        code=Path("/opt/muster"),
        grafana=code / "monitor" / "grafana",
        mounts=(Mount(Path("/"), "ext4", "/dev/sda1"), *mounts),
        towards=ADDRESSES.get,
        closed=lambda _: False,
    )
    return here._replace(**changes)


def lab_at(conf: Path, here: Machine | None = None) -> Lab:
    """The lab of this conf.json."""
    config = load_config(conf)
    return gather(config, load_registry(config.registry), here or machine())


def texts(lab: Lab) -> dict[str, str]:
    """What is written for it, but for what is copied from `monitor`."""
    files = files_of(lab, Path("/srv/setup"))
    return {name: content.data.decode() for name, content in files.items() if "/grafana/" not in name}


def golden_texts(folder: Path) -> dict[str, str]:
    """The lab's files as they would be if it lay beneath /srv."""
    with mock.patch.object(units, "_TEMPORARY", ()):  # wherever the tests have their folders
        written = texts(lab_at(write_lab(folder)))
    return {name: text.replace(str(folder), "/srv") for name, text in written.items()}


def main() -> None:
    """Write the golden files anew."""
    shutil.rmtree(GOLDEN, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in golden_texts(Path(folder)).items():
            (GOLDEN / name).parent.mkdir(parents=True, exist_ok=True)
            (GOLDEN / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
