"""The demo's lab: one folder with a conf.json, a registry and a shared environment, laid out as a real lab has them.

Nothing is downloaded: the environment borrows the packages of the Python that runs the demo.
"""

from __future__ import annotations

import json
import shutil
import socket
import sys
import sysconfig
import venv
from contextlib import ExitStack
from pathlib import Path

ENV = "digits"

_ACTIVATE = """\
# The shared conda's `activate NAME`, in small: the environment is a folder beneath envs/.
_muster_env="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/envs/$1"
if [ ! -f "$_muster_env/bin/activate" ]; then
    echo "EnvironmentNameNotFound: there is no environment '$1'" >&2
    return 1
fi
source "$_muster_env/bin/activate"
"""


def furnish(folder: Path) -> None:
    """Complete what `muster init` wrote into `folder`: ports that are free here, the environment, the project."""
    conf_path = folder / "conf.json"
    conf = json.loads(conf_path.read_text(encoding="utf-8"))
    *ports, web = _free_ports(4)
    conf["socket_info"].update(zip(("monitor_port", "data_port", "train_state_port"), ports, strict=True))
    conf["web"] = {"port": web}
    # Threads that wait for each other by spinning make so small a training ten times slower where others compute.
    conf["task_env"] = {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    conf_path.write_text(json.dumps(conf, indent=2) + "\n", encoding="utf-8")
    _make_environment(folder / "envs" / "miniconda3")
    project = folder / "project"
    project.mkdir()
    shutil.copy(Path(__file__).with_name("train.py"), project)


def _make_environment(prefix: Path) -> None:
    """A conda prefix in shape: `source PREFIX/bin/activate digits` works, and its python has our packages."""
    home = prefix / "envs" / ENV
    venv.create(home, symlinks=True, with_pip=False)
    packages = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    (prefix / "bin").mkdir()
    (prefix / "bin" / "activate").write_text(_ACTIVATE, encoding="utf-8")


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, so that a master which already runs here is left alone."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
