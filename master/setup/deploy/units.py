"""systemd units: the master, the writer of InfluxDB and the console, for the system and for a user without root.

Owns what a restart may kill (the master alone), what the units wait for, and how much is forbidden to them. Which
mounts there are is `lab`'s.
"""

from __future__ import annotations

from pathlib import Path

from master.setup.deploy.lab import Lab, is_beneath
from master.setup.deploy.quoting import unit_command, unit_paths, unit_text

MASTER = "muster.service"
MONITOR = "muster-monitor.service"
CONSOLE = "muster-web.service"
DESCRIPTORS = 65536
_PRIVILEGED = 1024
_READ_ONLY = (Path("/usr"), Path("/boot"), Path("/efi"), Path("/etc"))
"""The folders that ProtectSystem=full makes read-only."""
_TEMPORARY = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108  (looked for, not written to)
_ROOT_NEEDS = ("CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_CHOWN")
"""By these root reaches files that are not root's."""

_NO_TASKS = """\
# No node of the registry is `local`: this process starts no tasks, and needs little. Run `muster deploy` again before
# you add a `local` node: tasks would inherit all of this (no GPU, a /tmp that goes with the service, no sudo).
"""
_HARDENING = """\
NoNewPrivileges=yes
{private_tmp}PrivateDevices=yes
ProtectSystem=full
{writable}ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
LockPersonality=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
CapabilityBoundingSet={capabilities}
"""
_LEFT_OUT = """\
# Left out: ProtectHome (the lab may lie in a home), ProtectSystem=strict (folders may be added to conf.json),
# MemoryDenyWriteExecute (Python's bindings to OpenSSL), SystemCallFilter (an old systemd does not know openat2).
"""
_WITH_LOCAL = """\
# Nodes of the registry are `local` ({names}): their tasks inherit whatever is forbidden to this process. A private
# /tmp would vanish under them when the service ends, a closed device policy hides the GPUs, NoNewPrivileges breaks
# sudo and containers. So nothing is forbidden here.
# RDMA and pinned memory of NCCL need more locked memory than a service may have by default.
LimitMEMLOCK=infinity
"""
_SURVIVE = """\
# Agents and tasks of `local` nodes live in the control group of this service. `process`: a stop or restart ends the
# master alone, and they are found again. `continue`: a task that runs out of memory dies alone.
KillMode=process
OOMPolicy=continue
# A training may have thousands of threads.
TasksMax=infinity
"""


def system_master(lab: Lab) -> str:
    """muster.service for /etc/systemd/system."""
    return "".join(
        [
            _unit(f"Muster, the queue of the GPU machines ({lab.config.folder})", _waits(lab), endless=True),
            _service(lab, "master", user=True),
            # It answers TERM at once; what takes longer is a disk that does not answer.
            "TimeoutStopSec=30\n",
            _SURVIVE,
            f"# One descriptor for each client and node; the master takes all it may.\nLimitNOFILE={DESCRIPTORS}\n",
            _forbidden(lab),
            "\n[Install]\nWantedBy=multi-user.target\n",
        ]
    )


def user_master(lab: Lab) -> str:
    """muster.service for ~/.config/systemd/user: nothing in it needs root."""
    return "".join(
        [
            _unit(f"Muster, the queue of the GPU machines ({lab.config.folder})", "", endless=True),
            _service(lab, "master", user=False),
            _mount_checks(lab),
            "TimeoutStopSec=30\n",
            _SURVIVE,
            f"LimitNOFILE={DESCRIPTORS}\n",
            "\n[Install]\nWantedBy=default.target\n",
        ]
    )


def system_monitor(lab: Lab) -> str:
    """muster-monitor.service for /etc/systemd/system."""
    own = [lab.config.folder, lab.config.task_info]
    return "".join(
        [
            _unit("Muster's writer to InfluxDB", _waits(lab, own, after=MASTER), endless=True),
            _service(lab, "monitor", user=True),
            _hardening(own, lab.machine.uid),
            "\n[Install]\nWantedBy=multi-user.target\n",
        ]
    )


def user_monitor(lab: Lab) -> str:
    """muster-monitor.service for ~/.config/systemd/user."""
    return "".join(
        [
            _unit("Muster's writer to InfluxDB", f"After={MASTER}\n", endless=True),
            _service(lab, "monitor", user=False),
            "\n[Install]\nWantedBy=default.target\n",
        ]
    )


def system_console(lab: Lab) -> str:
    """muster-web.service for /etc/systemd/system."""
    own = [lab.config.folder, lab.config.task_info]
    low = lab.config.web is not None and lab.config.web.port < _PRIVILEGED
    return "".join(
        [
            _unit("Muster's console", _waits(lab, own, after=MASTER), endless=True),
            _service(lab, "web", user=True),
            f"LimitNOFILE={DESCRIPTORS}\n",
            _hardening(own, lab.machine.uid, low_ports=low),
            "\n[Install]\nWantedBy=multi-user.target\n",
        ]
    )


def user_console(lab: Lab) -> str:
    """muster-web.service for ~/.config/systemd/user."""
    return "".join(
        [
            _unit("Muster's console", f"After={MASTER}\n", endless=True),
            _service(lab, "web", user=False),
            f"LimitNOFILE={DESCRIPTORS}\n",
            "\n[Install]\nWantedBy=default.target\n",
        ]
    )


def _unit(description: str, waits: str, *, endless: bool) -> str:
    limit = (
        "# It is tried again for ever, every 5 s: a disk that was full is not full for ever.\nStartLimitIntervalSec=0\n"
    )
    return f"[Unit]\nDescription={unit_text(description)}\n{waits}{limit if endless else ''}\n"


def _waits(lab: Lab, paths: list[Path] | None = None, after: str = "") -> str:
    """Ordering: the network, for addresses and names; the clock, for what is shown; the mounts, for everything."""
    order = " ".join(
        ["network-online.target", "nss-user-lookup.target", "time-sync.target", *([after] if after else [])]
    )
    needed = dict.fromkeys(str(path) for path in [lab.machine.code, *(_needed(lab) if paths is None else paths)])
    return (
        f"Wants=network-online.target\nAfter={order}\n"
        "# Every file system that one of these lies on is mounted first, also where `nofail` lets the boot go on.\n"
        f"RequiresMountsFor={unit_paths(list(needed))}\n"
    )


def _needed(lab: Lab) -> list[Path]:
    config = lab.config
    files = [config.path, config.registry, config.server_log]
    return [*(path.parent for path in files), config.task_info, config.root, config.train_logs, *lab.visible]


def _service(lab: Lab, module: str, *, user: bool) -> str:
    machine = lab.machine
    return "".join(
        [
            "[Service]\nType=exec\n",
            f"User={machine.user}\n" if user else "",
            "# `-m` looks in the current folder first, and a lab's folder may hold a `master` of its own.\n",
            f"WorkingDirectory={unit_text(str(machine.code))}\n",
            f"ExecStart={unit_command([machine.python, '-m', module, '--conf', str(lab.config.path)])}\n",
            "Restart=on-failure\nRestartSec=5\n",
        ]
    )


def _mount_checks(lab: Lab) -> str:
    """A user's systemd neither knows fstab nor may mount: so it looks, and tries again."""
    checks = [unit_command(["/usr/bin/mountpoint", "-q", str(point)]) for point in lab.network_folders]
    return "".join(f"ExecStartPre={check}\n" for check in checks)


def _forbidden(lab: Lab) -> str:
    if lab.locals:
        return _WITH_LOCAL.format(names=unit_text(", ".join(lab.locals)))
    config = lab.config
    written = [config.registry.parent, config.task_info, config.server_log.parent, config.root, config.train_logs]
    paths = [*written, *lab.visible]
    low = any(port < _PRIVILEGED for port in config.all_ports)
    return _NO_TASKS + _hardening(paths, lab.machine.uid, low_ports=low) + _LEFT_OUT


def _hardening(paths: list[Path], uid: int, *, low_ports: bool = False) -> str:
    """Return the restrictions of a process that works on `paths` and starts no tasks."""
    # A private /tmp would hide a lab that lies there.
    private_tmp = not any(is_beneath(path, top) for path in paths for top in _TEMPORARY)
    capabilities = list(_ROOT_NEEDS if uid == 0 else ()) + (["CAP_NET_BIND_SERVICE"] if low_ports else [])
    text = _HARDENING.format(
        private_tmp="PrivateTmp=yes\n" if private_tmp else "",
        writable=_writable(paths),
        capabilities=" ".join(capabilities),
    )
    return text + ("AmbientCapabilities=CAP_NET_BIND_SERVICE\n" if low_ports else "")


def _writable(paths: list[Path]) -> str:
    """Folders of ours that ProtectSystem would close; `-`: one that is not there yet stops nothing."""
    closed = [f"-{path}" for path in dict.fromkeys(paths) if any(is_beneath(path, top) for top in _READ_ONLY)]
    return f"ReadWritePaths={unit_paths(closed)}\n" if closed else ""
