"""Which files a lab needs, under which names, and what `muster deploy` says about them. Pure but for reading."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from master.config.config import Config
from master.nodes.registry import load_registry
from master.setup.deploy import concerns, folder, monitoring, nfs, samba, steps, units
from master.setup.deploy.folder import Content
from master.setup.deploy.lab import Lab, RemoteHost, gather
from master.setup.deploy.machine import Machine, look
from wire.errors import ConflictError
from wire.message import Message

README = "README.md"
LONGEST_NAME = 200
"""Bytes of a file's name; file systems allow 255."""


def deploy(config: Config, where: Path, *, force: bool = False, machine: Machine | None = None) -> dict[str, Any]:
    """Write the files into the folder `where`; what became of each, as JSON. Raises ConfigError."""
    owned = (config.task_info, config.path)
    lab = gather(config, load_registry(config.registry), machine or look(owned))
    where = where.absolute()
    outcomes = folder.write(where, files_of(lab, where), force=force)
    return {
        "dir": str(where),
        "files": [{"path": path, "state": state, "goes_to": goes_to} for path, state, goes_to in outcomes],
        "warnings": concerns.warnings(lab),
    }


def check_kept(said: dict[str, Any]) -> None:
    """Raises ConflictError where files were kept because somebody changed them."""
    kept = tuple(file["path"] for file in said["files"] if file["state"] == "kept")
    if kept:
        raise ConflictError(Message("changed_files_kept", folder=said["dir"], files=kept))


def lines(said: dict[str, Any]) -> list[str]:
    """The same for people."""
    files = [f"{file['state']:<8} {file['path']}" for file in said["files"]]
    return [*files, *(f"note: {text}" for text in said["warnings"]), f"The steps: {Path(said['dir']) / README}"]


def files_of(lab: Lab, where: Path) -> dict[str, Content]:
    """Every file, README first; `where` is the folder that they go to."""
    fstabs = {remote.address: fstab_name(remote) for remote in lab.remotes}
    text = steps.readme(lab, where, fstabs)
    return {README: _text(text), **_units(lab), **_nfs(lab), **_samba(lab), **_monitoring(lab)}


def fstab_name(remote: RemoteHost) -> str:
    """Return the name of the file with a node's lines for fstab."""
    name = remote.name
    if len(name.encode()) > LONGEST_NAME:
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        name = f"{name.encode()[: LONGEST_NAME - 20].decode(errors='ignore')}-{digest}"
    return f"nodes/{name}.fstab"


def _units(lab: Lab) -> dict[str, Content]:
    system, user = "/etc/systemd/system/", f"{lab.machine.home}/.config/systemd/user/"
    files = {
        f"systemd/system/{units.MASTER}": _text(units.system_master(lab), system + units.MASTER),
        f"systemd/user/{units.MASTER}": _text(units.user_master(lab), user + units.MASTER),
    }
    if lab.config.influx is not None:
        files[f"systemd/system/{units.MONITOR}"] = _text(units.system_monitor(lab), system + units.MONITOR)
        files[f"systemd/user/{units.MONITOR}"] = _text(units.user_monitor(lab), user + units.MONITOR)
    if lab.config.web is not None:
        files[f"systemd/system/{units.CONSOLE}"] = _text(units.system_console(lab), system + units.CONSOLE)
        files[f"systemd/user/{units.CONSOLE}"] = _text(units.user_console(lab), user + units.CONSOLE)
    return files


def _nfs(lab: Lab) -> dict[str, Content]:
    if not nfs.needed(lab):
        return {}
    files = {}
    if lab.exported:
        files["nfs/muster.exports"] = _text(nfs.exports(lab), "/etc/exports.d/muster.exports")
    if nfs.targets(lab):
        files["nodes/mount.sh"] = Content(nfs.mount_script(lab).encode(), mode=0o755)
        files |= {
            fstab_name(remote): _text(nfs.fstab(lab, remote), f"{remote.name}:/etc/fstab") for remote in lab.remotes
        }
    return files


def _samba(lab: Lab) -> dict[str, Content]:
    return {"samba/smb.conf": _text(samba.smb_conf(lab), "/etc/samba/smb.conf")} if samba.shares(lab) else {}


def _monitoring(lab: Lab) -> dict[str, Content]:
    influx = lab.config.influx
    if influx is None:
        return {}
    return {
        "monitoring/compose.yaml": _text(monitoring.compose(lab, influx)),
        "monitoring/env.example": Content(monitoring.env_template(influx).encode(), "monitoring/.env", 0o600),
        **{f"monitoring/{path}": Content(data) for path, data in monitoring.provisioning(lab).items()},
    }


def _text(text: str, goes_to: str = "") -> Content:
    return Content(text.encode(), goes_to)
