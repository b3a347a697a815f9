"""README.md of what was written: the steps in their order, with the lab's own names, addresses and paths.

Owns the words and the commands. A step that this lab does not need is named as needless, with the reason, rather than
left out. `concerns` warns of settings that do not fit together.
"""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Mapping
from pathlib import Path

from master.config.conf_file import Influx
from master.setup.deploy import concerns, monitoring, nfs, samba, units
from master.setup.deploy.concerns import named
from master.setup.deploy.lab import Lab, RemoteHost
from master.setup.deploy.quoting import code

_SSH_PORT = 22
_TOKEN_FILE = "file:"  # noqa: S105  (what a token begins with that stands in a file)
_ADMIN = "admin=$USER    # an account that may use sudo on the nodes"
Fstabs = Mapping[str, str]
"""The file of lines for the fstab of each machine, by its address."""


def readme(lab: Lab, where: Path, fstabs: Fstabs) -> str:
    """The whole file. `where`: the folder that it lies in."""
    sections = [
        ("Packages", _packages(lab)),
        ("Folders", _folders(lab)),
        ("NFS: the folders on the nodes", _nfs(lab, fstabs)),
        ("The master as a service", _service(lab)),
        ("The nodes", _nodes(lab)),
        ("Samba: the folders on the PCs", _samba(lab)),
        ("InfluxDB and Grafana", _monitoring(lab)),
        ("Firewall", _firewall(lab)),
        ("The first task", _first_task(lab)),
    ]
    body = "\n\n".join(f"## {number}. {title}\n\n{text.strip()}" for number, (title, text) in enumerate(sections, 1))
    notes = "".join(f"* {text}\n" for text in concerns.warnings(lab))
    return (
        f"# Setting up the system around {lab.config.folder}\n\n"
        "Written by `muster deploy` from conf.json and the registry; nothing has been installed or changed. "
        f"Do the steps in this order, on {code(lab.machine.host)} and in {code(str(where))} unless they say otherwise. "
        "Lines with `sudo` are an admin's, and so are `ssh` and `scp` to the nodes; all others are typed as "
        f"{code(lab.machine.user)}, who needs no such right and finds `muster` after "
        f"{code(f'export PATH={shlex.quote(str(Path(lab.machine.python).parent))}:$PATH')}. "
        "After a change of conf.json or the registry run `muster deploy` again: it renews its own files and keeps "
        "those that you changed. The why of all this: docs/deployment.md.\n\n"
        + (f"**Look at these first**\n\n{notes}\n" if notes else "")
        + f"{_table(lab)}\n\n{body}\n"
    )


def _table(lab: Lab) -> str:
    account = f"{code(lab.machine.user)} ({lab.machine.uid})"
    rows = [f"| {code(lab.machine.host)} | the master, run by {account} | {code(lab.config.bind)} |"]
    rows += [
        f"| {named(remote)} | node, tasks run as {_logins(remote)} | {code(remote.address)} |" for remote in lab.remotes
    ]
    rows += [f"| {code(name)} | node on the master's machine | |" for name in lab.locals]
    return "\n".join(["| machine | what it is | address |", "| --- | --- | --- |", *rows])


def _packages(lab: Lab) -> str:
    wanted = ["chrony"]
    wanted += ["nfs-kernel-server"] if lab.remotes and lab.exported else []
    wanted += ["nfs-common"] if lab.mounted else []
    wanted += ["samba"] if samba.shares(lab) else []
    text = _block(f"sudo apt-get install {' '.join(wanted)}")
    if lab.config.influx is not None:
        text += "\n\nInfluxDB and Grafana run in containers: install Docker with Compose 2.23 or newer."
    return text


def _folders(lab: Lab) -> str:
    owner = shlex.quote(lab.machine.user)
    paths = list(dict.fromkeys([*lab.visible, lab.config.train_logs]))
    commands = [f"sudo install -d -o {owner} {shlex.quote(str(path))}" for path in paths if not path.is_dir()]
    text = "Those that are not there yet:\n\n" + _block(*commands) if commands else "All of them are there."
    if lab.conda_missing:
        text += (
            f"\n\nThe shared conda goes to {code(str(lab.config.conda))}, seen by every node at the same path. As "
            f"{code(lab.machine.user)}:\n\n"
            + _block(
                "curl -LO https://repo.anaconda.com/miniconda/Miniconda3-latest-Linux-x86_64.sh",
                f"bash Miniconda3-latest-Linux-x86_64.sh -b -p {shlex.quote(str(lab.config.conda))}",
            )
            + "\n\nThen run `muster deploy` again if it lies in no folder that is shared already."
        )
    return text


def _nfs(lab: Lab, fstabs: Fstabs) -> str:
    if not lab.remotes:
        return (
            "Not needed: every node of the registry is this machine (driver `local`), which has the folders. When you "
            "add a node elsewhere, run `muster deploy` again."
        )
    text = ""
    if lab.exported:
        text += "This machine gives these folders to the nodes, and to nobody else:\n\n"
        text += "".join(f"* {code(str(one.path))}\n" for one in lab.exported)
        text += "\n" + _block(
            "sudo install -D -m 644 nfs/muster.exports /etc/exports.d/muster.exports",
            "sudo systemctl enable --now nfs-server",
            "sudo exportfs -ra && sudo exportfs -v",
        )
        text += "\n\n"
    if lab.barred:
        text += "NFS comes to them as nobody, who must be able to pass (not to list) the folders above:\n\n"
        text += _block(*(f"sudo chmod o+x {shlex.quote(str(folder))}" for folder in lab.barred)) + "\n\n"
    if lab.mounted:
        text += "From another NFS server, as here; it must let the nodes in too:\n\n"
        text += "".join(f"* {code(str(mount.point))} from {code(mount.source)}\n" for mount in lab.mounted) + "\n"
    if nfs.targets(lab):
        text += "Then, once for each node (the account must be there, with the number that the script asks for):\n\n"
        commands = [line for remote in lab.remotes for line in _mount_commands(remote, fstabs[remote.address])]
        text += _block(_ADMIN, *commands)
    return text


def _logins(remote: RemoteHost) -> str:
    return ", ".join(map(code, remote.logins)) or "?"


def _mount_commands(remote: RemoteHost, fstab: str) -> list[str]:
    port = f" -P {remote.port}" if remote.port != _SSH_PORT else ""
    bracketed = f"[{remote.address}]" if ":" in remote.address else remote.address
    script, lines = shlex.quote(f"{bracketed}:mount.sh"), shlex.quote(f"{bracketed}:muster.fstab")
    account = f" {shlex.quote(remote.logins[0])}" if remote.logins else ""
    return [
        f"# {', '.join(remote.names)}",
        f'scp{port} nodes/mount.sh "$admin"@{script}',
        f'scp{port} {shlex.quote(fstab)} "$admin"@{lines}',
        _as_admin(remote, f"sh mount.sh muster.fstab{account}"),
    ]


def _as_admin(remote: RemoteHost, command: str) -> str:
    """A line for this machine's shell. ssh gives the words that follow to the node's shell, joined by blanks: so the
    command, whose words are quoted for that one, is one word here."""
    port = f" -p {remote.port}" if remote.port != _SSH_PORT else ""
    return f'ssh{port} -t "$admin"@{shlex.quote(remote.address)} {shlex.quote("sudo " + command)}'


def _service(lab: Lab) -> str:
    names = [units.MASTER, *([units.MONITOR] if lab.config.influx is not None else [])]
    names += [units.CONSOLE] if lab.config.web is not None else []
    user, conf = shlex.quote(lab.machine.user), shlex.quote(str(lab.config.path))
    stop = (
        f"A master that was started by hand is stopped first: {code(f'muster down --conf {conf}')} (tasks run on).\n\n"
    )
    patience = "`muster-monitor` has nowhere to write to before step 7: it tries again every 5 s.\n\n"
    patience = patience if units.MONITOR in names else ""
    system = _block(
        f"sudo install -m 644 {' '.join(f'systemd/system/{name}' for name in names)} /etc/systemd/system/",
        f"sudo systemctl daemon-reload && sudo systemctl enable --now {' '.join(names)}",
        f"systemctl status {' '.join(names)}",
    )
    own = _block(
        f"loginctl enable-linger {user}    # may ask an admin once: it runs on when nobody is logged in",
        "mkdir -p ~/.config/systemd/user",
        f"cp {' '.join(f'systemd/user/{name}' for name in names)} ~/.config/systemd/user/",
        f"systemctl --user daemon-reload && systemctl --user enable --now {' '.join(names)}",
    )
    return (
        f"{stop}With root, as a service of the system:\n\n{system}\n\n"
        f"Or without root, as {code(lab.machine.user)} (one of the two, never both):\n\n{own}\n\n"
        f"{patience}A restart of the service ends the master alone; tasks run on and are found again. Its log: "
        f"`journalctl -u muster` (`--user -u muster`), and {code(str(lab.config.server_log))}."
    )


def _nodes(lab: Lab) -> str:
    conf = shlex.quote(str(lab.config.path))
    if not lab.remotes:
        return _block(f"muster nodes --conf {conf}")
    text = "Nothing of Muster is installed on a node; it needs sshd and Python 3.8 or newer, and for GPUs their driver."
    commands = [f"muster node trust --all --conf {conf}    # compare the fingerprints", f"muster nodes --conf {conf}"]
    accounts = [(remote, shlex.quote(login)) for remote in lab.remotes for login in remote.logins]
    lingering = [_as_admin(remote, f"loginctl enable-linger {account}") for remote, account in accounts]
    text += "\n\n" + _block(*commands)
    if lingering:
        text += (
            "\n\nWhere a log-out ends everything of a user (`KillUserProcesses=yes` in /etc/systemd/logind.conf; not "
            "the default of Debian and Ubuntu), agents and tasks need this on each node; it never does harm:\n\n"
            + _block(_ADMIN, *lingering)
        )
    return text


def _samba(lab: Lab) -> str:
    shares = samba.shares(lab)
    if not shares:
        return "Not needed: `visible_folders` of conf.json names no folder that could be shared."
    user = shlex.quote(lab.machine.user)
    host = f"\\\\{_called(lab)}\\"
    listed = "".join(f"* {code(host + share.name)}: {code(str(share.path))}\n" for share in shares)
    return (
        f"{listed}\n"
        + _block(
            "sudo cp -p /etc/samba/smb.conf /etc/samba/smb.conf.before-muster",
            "testparm -s samba/smb.conf",
            "sudo install -m 644 samba/smb.conf /etc/samba/smb.conf",
            f"sudo smbpasswd -a {user}    # a password of its own for the network drives",
            "sudo systemctl enable --now smbd && sudo systemctl restart smbd",
        )
        + "\n\nIf /etc/samba/smb.conf shares other things already, copy the sections of the folders into it instead."
    )


def _monitoring(lab: Lab) -> str:
    influx = lab.config.influx
    if influx is None:
        example = '"influx": {"url": "http://127.0.0.1:8086", "version": 2, "org": "lab", "token": "file:influx_token"}'
        return (
            "conf.json has no `influx`, so there is nothing to set up. If you want curves over time, add "
            f"{code(example)} and run `muster deploy` again."
        )
    elsewhere = monitoring.is_elsewhere(lab, influx)
    where = f" The URL names {code(elsewhere)}: copy the folder `monitoring` there first." if elsewhere else ""
    tls = (
        " The containers speak plain HTTP: for https put a proxy with your certificate in front."
        if influx.url.startswith("https:")
        else ""
    )
    return (
        f"For {code(influx.url)}, bucket {code(influx.bucket)}.{where}{tls}\n\n"
        + _block(
            "cd monitoring",
            "cp -p env.example .env    # mode 0600; fill it in: what is secret stands there and nowhere else here",
            "${EDITOR:-nano} .env",
            "sudo docker compose up --detach",
            *_token_commands(lab, influx),
            "cd ..",
        )
        + "\n\nThe token of the master's writer is `influx.token` of conf.json; `file:PATH` there names a file of mode "
        f"0600, {code(lab.machine.user)}'s, that holds it. `muster status` says whether points are written. Grafana "
        f"answers on {code(f'http://{_called(lab)}:{monitoring.GRAFANA_PORT}')} (`admin`, and the password from .env), "
        "with the dashboards in the folder Muster."
    )


def _token_commands(lab: Lab, influx: Influx) -> list[str]:
    """The writer's token file, where conf.json names one, filled from .env."""
    if not influx.token.startswith(_TOKEN_FILE):
        return []
    path = lab.config.folder / Path(influx.token.removeprefix(_TOKEN_FILE)).expanduser()
    secret = "$MUSTER_INFLUX_SECRET" if influx.version != 1 else "$MUSTER_INFLUX_USER:$MUSTER_INFLUX_SECRET"
    return [f'(umask 077; . ./.env; echo "{secret}" >{shlex.quote(str(path))})']


def _called(lab: Lab) -> str:
    """Return the address of this machine for a PC; its name only if the address is unknown, as names need a name
    server."""
    bind = lab.config.bind
    return bind if monitoring.is_one_address(bind) else lab.machine.host


def _firewall(lab: Lab) -> str:
    rules = _rules(lab)
    text = "Nothing has to be opened here."
    if rules:
        text = (
            "With ufw (the ports of docker are not behind it: they are on the addresses that compose.yaml names). SSH "
            "comes first: without that rule `ufw enable` shuts you out, and desktop clients, which use it, too:\n\n"
        )
        text += _block("sudo ufw allow 22/tcp    # or the port that sshd here listens on", *rules)
    if lab.remotes:
        servers = ", ".join(sorted({code(remote.server) for remote in lab.remotes}))
        text += f"\n\nOn the nodes: SSH from {servers}. They need no other way in."
    return text


def _rules(lab: Lab) -> list[str]:
    ports = ",".join(str(port) for port in sorted((lab.config.desktop_client.ports or lab.config.ports).all.values()))
    rules = []
    for network in lab.config.desktop_client.networks:
        if not ipaddress.ip_network(network).is_loopback:
            rules.append(_rule(network, ports, "desktop clients"))
            rules += [_rule(network, "445", "network drives")] if samba.shares(lab) else []
    if lab.exported:
        rules += [_rule(remote.address, "2049", f"NFS, {', '.join(remote.names)}") for remote in lab.remotes]
    return rules


def _rule(origin: str, ports: str, why: str) -> str:
    return f"sudo ufw allow from {origin} to any port {ports} proto tcp    # {why}"


def _first_task(lab: Lab) -> str:
    conf = shlex.quote(str(lab.config.path))
    # The folder of these files is the master's alone: a task that was submitted from it could not start on a node.
    folder = shlex.quote(str(next(iter(lab.visible), lab.config.root)))
    look = f"--cwd {folder} -- sh -c 'hostname; nvidia-smi -L; ls'"
    return _block(
        f"export MUSTER_CONF={conf}",
        "muster status",
        *(f"muster run --node {shlex.quote(remote.name)} {look}" for remote in lab.remotes),
        *(f"muster run --node {shlex.quote(name)} -- hostname" for name in lab.locals[:1]),
    )


def _block(*commands: str) -> str:
    return "\n".join(["```console", *commands, "```"])
