"""conf.json, typed: every path absolute, every default filled in, or one error that names the key.

Owns what the keys are called, what they default to and what each path is relative to. It reads one file and touches
nothing else; `make_folders` is the one place that writes, and says so. The registry of nodes is `registry`'s.
"""

import ipaddress
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec

from master.config import ssh_accounts
from master.config.settings import Caps, Scheduling, Settings
from master.config.ssh_accounts import SshAccount
from master.config.visible_folders import GROUP, USER, check_owned, owned_parts, plain_name
from master.edited_files import json_file
from master.edited_files.ownership import make_folder, make_private, not_ours, user_name
from wire.console import TlsFiles, Web, faults
from wire.errors import ConfigError
from wire.pattern import Pattern

MOST_PORT = 65535
Port = Annotated[int, msgspec.Meta(ge=1, le=MOST_PORT)]
Count = Annotated[int, msgspec.Meta(ge=1)]
Text = Annotated[str, msgspec.Meta(min_length=1)]
Privacy = Literal["open", "own"]
"""The visible part of others' tasks: all but variables, or only that they exist."""
FileOwner = Literal["all", "own", "group"]
"""The owners of the files beneath a folder: everybody, the user that its path names, or the group."""
AccountName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}$")]
Uid = Annotated[int, msgspec.Meta(ge=0, lt=(1 << 32) - 1)]

PORT_KEYS = ("monitor_port", "data_port", "train_state_port")
MISSING_CURE = "`muster init` writes one that works on this machine"
NOT_YET_USED = ("notify",)
"""Keys that are checked and kept, for parts that do not exist yet: the log names those that are set."""
HOOK_EXAMPLE = '["/usr/local/bin/tell", "--channel", "lab"]'
LDAP_PORTS = {True: 636, False: 389}
"""With TLS from the first byte on, and where it is asked for."""

TASK_ENV = {"PYTHONUNBUFFERED": "1", "QT_QPA_PLATFORM": "offscreen"}

_LDAP_URL = Pattern(
    r"(?P<scheme>ldaps?)://(?:\[(?P<bare>[0-9a-f:.]+)\]|(?P<host>[^\s:/?#@\[\]]+))(?::(?P<port>[0-9]+))?/?",
    re.IGNORECASE,
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Ports(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`socket_info`. `buffer`: bytes asked of the kernel for a read. `listen`: length of the queue of connections."""

    monitor_port: Port
    data_port: Port
    train_state_port: Port
    buffer: Annotated[int, msgspec.Meta(ge=4096)] = 1 << 20
    listen: Count = 100

    @property
    def all(self) -> dict[str, int]:
        """The three ports by the name of their key."""
        return {name: getattr(self, name) for name in PORT_KEYS}


class DesktopPorts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ports that the desktop client has to itself."""

    monitor_port: Port
    data_port: Port
    train_state_port: Port

    @property
    def all(self) -> dict[str, int]:
        """The three ports by the name of their key."""
        return {name: getattr(self, name) for name in PORT_KEYS}


class DesktopClient(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Access with the desktop client's dialect: `user` is the user as which clients act; `users` names other users by
    address. `local_nodes`: whether clients of other machines are allowed although tasks of some nodes run as the
    master's own account. `ports`: where they connect, if not on all three ports. `silent_s`: a peer at a client's
    address that says nothing for so long on a port that pushes is a desktop client."""

    networks: tuple[str, ...] = ("127.0.0.0/8", "::1/128")
    user: Text = "desktop"
    users: dict[str, Text] = {}
    local_nodes: Literal["refuse", "allow"] = "refuse"
    ports: DesktopPorts | None = None
    silent_s: Annotated[float, msgspec.Meta(ge=0.1)] = 1.5


class Ldap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The lab's directory, which can check passwords. `url`: `ldaps://HOST[:PORT]`, or `ldap://`, which begins with
    StartTLS; `bind`: the name of `{user}` there; `ca`: the authorities to trust, PEM; the system's if it is not
    given."""

    url: Text
    bind: Text
    ca: Text | None = None

    @property
    def place(self) -> tuple[str, int, bool]:
        """Host, port, and whether TLS is spoken from the first byte on. Raises ValueError for another kind of url."""
        found = _LDAP_URL.fullmatch(self.url)
        if found is None:
            raise ValueError("its host, its port if that is another than usual, and no more")
        is_tls = found["scheme"].lower() == "ldaps"
        port = int(found["port"] or LDAP_PORTS[is_tls])
        if not 1 <= port <= MOST_PORT:
            raise ValueError(f"a port is a number from 1 to {MOST_PORT}")
        return found["bare"] or found["host"], port, is_tls


class Scheduler(Scheduling, frozen=True, forbid_unknown_fields=True):
    """Policy. All but this can change while the master runs. `report_stale_s`: a node whose agent dials in is
    unreachable when nothing was heard of it for so long."""

    report_stale_s: Annotated[float, msgspec.Meta(gt=0)] = 180.0


class Limits(Caps, frozen=True, forbid_unknown_fields=True):
    """Caps against mistakes and floods; sizes in bytes, rates per minute and user. Those of `Caps` can change while the
    master runs, the others are read when it starts."""

    frame_bytes: Annotated[int, msgspec.Meta(ge=4096)] = 16 << 20
    frame_bytes_unidentified: Annotated[int, msgspec.Meta(ge=1024)] = 64 << 10
    outbox_bytes: Annotated[int, msgspec.Meta(ge=64 << 10)] = 4 << 20
    handshake_s: Annotated[float, msgspec.Meta(gt=0)] = 10.0
    connections: Count = 4096
    connections_unidentified: Count = 64
    connections_per_address: Count = 128
    connections_per_user: Count = 512
    held_bytes: Annotated[int, msgspec.Meta(ge=1 << 20)] = 64 << 20
    upload_bytes: Annotated[int, msgspec.Meta(ge=0)] = 16 << 30
    failed_logins_per_minute: Count = 5
    auth_requests_per_minute: Count = 60
    env_requests_per_minute: Count = 60


class Influx(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where samples go."""

    url: Text
    version: Literal[1, 2] = 2
    token: str = ""
    org: str = ""
    bucket: str = "muster"


class Notify(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """apprise URLs, and the events that are sent to them."""

    urls: tuple[str, ...] = ()
    events: tuple[str, ...] = ()


class Hooks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The lab's own commands, by event: the path of a program and its arguments. `gpus_free`: GPUs have become free;
    `task_started`, `task_ended`: tasks have."""

    gpus_free: tuple[str, ...] | str | None = None
    task_started: tuple[str, ...] | str | None = None
    task_ended: tuple[str, ...] | str | None = None

    @property
    def commands(self) -> dict[str, tuple[str, ...]]:
        """Return the words of the commands that are set, by event. Of what was checked, each is a list."""
        return {event: words for event, words in msgspec.structs.asdict(self).items() if isinstance(words, tuple)}


class ConfFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file as it is written: its keys, and where a key is left out, its default."""

    socket_info: Ports
    visible_folders: tuple[Text, ...] = ()
    root: Text = "."
    psw_file: Text = "psw"
    slaver_file: Text = "gpu_slaver_info.json"
    train_log_path: Text = "train_logs"
    server_log_path: Text = "server_log.log"
    bind: Text = "127.0.0.1"
    task_info: Text = "task_info"
    log_group: Text | None = None
    conda: Text = "envs/miniconda3"
    task_env: dict[str, str] = msgspec.field(default_factory=lambda: dict(TASK_ENV))
    run_as_allowed: tuple[AccountName | Uid, ...] = ()
    accounts: dict[str, SshAccount] = {}
    desktop_client: DesktopClient = DesktopClient()
    local_users: Literal["same name"] | None = None
    local_admin: Literal["owner", "root"] = "owner"
    privacy: Privacy = "open"
    tls: Literal["auto", "off"] | TlsFiles = "auto"
    scheduler: Scheduler = Scheduler()
    limits: Limits = Limits()
    licences: dict[Text, Count] = {}
    files: dict[str, Any] = {}
    influx: Influx | None = None
    notify: Notify | None = None
    hooks: Hooks = Hooks()
    ldap: Ldap | None = None
    web: Web | None = None


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of a master. Every path is absolute; `root` is the home of tasks and of the desktop client."""

    path: Path
    root: Path
    task_info: Path
    train_logs: Path
    server_log: Path
    log_group: str | None
    registry: Path
    psw: Path
    conda: Path
    visible_folders: tuple[str, ...]
    licences: dict[str, int]
    files: dict[str, FileOwner]
    bind: str
    ports: Ports
    task_env: dict[str, str]
    run_as_allowed: tuple[str | int, ...]
    accounts: dict[str, SshAccount] = {}
    scheduler: Scheduler
    limits: Limits
    desktop_client: DesktopClient
    local_users: Literal["same name"] | None = None
    local_admin: Literal["owner", "root"] = "owner"
    privacy: Privacy = "open"
    tls: Literal["auto", "off"] | TlsFiles
    influx: Influx | None
    notify: Notify | None
    hooks: Hooks
    ldap: Ldap | None
    web: Web | None = None
    not_yet_used: tuple[str, ...] = ()
    said: frozenset[str] = frozenset()
    """The keys that the file says; `a.b` is b in the object a."""

    @property
    def settings(self) -> Settings:
        """Return the settings of the file that can change while the master runs."""
        return Settings(self.scheduler, self.limits)

    @property
    def folder(self) -> Path:
        """Where conf.json lies."""
        return self.path.parent

    @property
    def all_ports(self) -> tuple[int, ...]:
        """Every port that the master listens on."""
        own = self.desktop_client.ports
        return (*self.ports.all.values(), *(own.all.values() if own is not None else ()))

    @property
    def shared_folders(self) -> tuple[str, ...]:
        """Return the folders that every machine must see at the same path, as far as the lab has them."""
        shown = (self.root / name for name in self.visible_folders)
        return tuple(dict.fromkeys(map(str, (self.root, self.train_logs, self.conda, *shown))))


def load_config(path: Path) -> Config:
    """Read conf.json. Raises ConfigError."""
    path = path.absolute()
    return config_of(json_file.read(path, cure=MISSING_CURE), path)


def config_of(value: Any, path: Path) -> Config:
    """Return the configuration of a conf.json's `value`; `path` is absolute. Raises ConfigError."""
    conf, said = typed(value, path), _said(value)
    folder, places = path.parent, Places(path, conf)
    root = places.beneath(folder, "root")
    if not root.is_dir():
        raise json_file.wrong(path, "root", conf.root, "a folder that exists (tasks run in it)")
    return Config(
        path=path,
        root=root,
        task_info=places.beneath(folder, "task_info"),
        train_logs=places.beneath(root, "train_log_path"),
        server_log=places.beneath(folder, "server_log_path"),
        log_group=conf.log_group,
        registry=places.beneath(folder, "slaver_file"),
        psw=places.beneath(folder, "psw_file"),
        conda=places.beneath(root, "conda"),
        visible_folders=conf.visible_folders,
        licences=conf.licences,
        files=conf.files,
        bind=conf.bind,
        ports=conf.socket_info,
        task_env=conf.task_env,
        run_as_allowed=conf.run_as_allowed,
        accounts=ssh_accounts.typed(conf.accounts, path, "accounts"),
        scheduler=conf.scheduler,
        limits=conf.limits,
        desktop_client=conf.desktop_client,
        local_users=conf.local_users,
        local_admin=conf.local_admin,
        privacy=conf.privacy,
        tls=conf.tls,
        influx=conf.influx,
        notify=conf.notify,
        hooks=conf.hooks,
        ldap=conf.ldap,
        web=conf.web,
        not_yet_used=tuple(key for key in NOT_YET_USED if key in said),
        said=said,
    )


def typed(value: Any, path: Path) -> ConfFile:
    """The keys of a conf.json, each checked by itself; `path` is for the messages. Raises ConfigError."""
    conf = json_file.convert(value, ConfFile, path)
    _check_ports(conf, path)
    _check_variables(conf.task_env, path)
    _check_networks(conf.desktop_client.networks, path)
    _check_addresses(conf.desktop_client.users, path)
    if "desktop_client.silent_s" in _said(value):
        _check_silence(conf, path)
    _check_visible(conf.visible_folders, path)
    if conf.ldap is not None:
        _check_ldap(conf.ldap, path)
    _check_files(conf, path)
    _check_hooks(conf.hooks, path)
    if conf.web is not None:
        for key, found, allowed in faults(conf.web):
            raise json_file.wrong(path, key, found, allowed)
    return conf


def make_folders(config: Config) -> None:
    """Make the folders that the master writes into. Raises ConfigError with the key of one that cannot be made, or that
    is somebody else's."""
    wanted = {
        "task_info": config.task_info,
        "train_log_path": config.train_logs,
        "server_log_path": config.server_log.parent,
    }
    for key, folder in wanted.items():
        try:
            if key == "task_info":
                make_private(folder)
            else:
                private = config.privacy == "own" and key == "train_log_path"
                make_folder(folder, 0o751 if private else 0o777)
        except OSError as error:
            raise ConfigError(f"{config.path}: {key}: the folder {folder} cannot be made: {error.strerror}") from None
    # The owner of conf.json decides what runs anyway.
    if strange := not_ours(config.task_info, {0, os.geteuid(), config.path.stat().st_uid}):
        whose = user_name(strange[1])
        raise ConfigError(
            f"{config.path}: task_info: {strange[0]} belongs to {whose}, who could let commands run as "
            f"{user_name(os.geteuid())}. Move it away, or if that is meant: chown {user_name(os.geteuid())} it"
        )


class Places:
    """Turns the paths of one conf.json into absolute ones. `conf` is what the file says."""

    def __init__(self, path: Path, conf: ConfFile) -> None:
        self._path = path
        self._conf = conf

    def beneath(self, base: Path, key: str) -> Path:
        """The path that `key` holds: a relative one lies beneath `base`, `~` is the home. Raises ConfigError."""
        value = getattr(self._conf, key)
        if "\0" in value:
            raise json_file.wrong(self._path, key, value, "a path without NUL")
        try:
            return base / Path(value).expanduser()
        except RuntimeError:
            raise json_file.wrong(self._path, key, value, "a path; there is no such user") from None


def _check_ports(conf: ConfFile, path: Path) -> None:
    ports = {f"socket_info.{name}": port for name, port in conf.socket_info.all.items()}
    if conf.desktop_client.ports is not None:
        ports |= {f"desktop_client.ports.{name}": port for name, port in conf.desktop_client.ports.all.items()}
    if conf.web is not None:
        ports["web.port"] = conf.web.port
    seen: dict[int, str] = {}
    for key, port in ports.items():
        if port in seen:
            raise json_file.wrong(path, key, port, f"ports that all differ ({seen[port]} is {port} already)")
        seen[port] = key


def _check_variables(variables: Mapping[str, str], path: Path) -> None:
    for name, value in variables.items():
        if not _VARIABLE.fullmatch(name):
            raise json_file.wrong(path, "task_env", name, "names of letters, digits and _, not beginning with a digit")
        if "\0" in value:
            raise json_file.wrong(path, f"task_env.{name}", value, "a text without NUL")


def _check_networks(networks: tuple[str, ...], path: Path) -> None:
    for index, network in enumerate(networks):
        try:
            ipaddress.ip_network(network)
        except ValueError as error:
            allowed = f"a network like 192.168.36.0/24 or an address ({error})"
            raise json_file.wrong(path, f"desktop_client.networks[{index}]", network, allowed) from None


def _check_addresses(users: Mapping[str, str], path: Path) -> None:
    for address in users:
        try:
            ipaddress.ip_address(address)
        except ValueError as error:
            raise json_file.wrong(path, "desktop_client.users", address, f"an address ({error})") from None


def _check_silence(conf: ConfFile, path: Path) -> None:
    silent_s, most = conf.desktop_client.silent_s, conf.limits.handshake_s
    if silent_s >= most:  # who is silent for that long is cut off
        allowed = f"less than the {most:g} s of limits.handshake_s"
        raise json_file.wrong(path, "desktop_client.silent_s", silent_s, allowed)


def _check_visible(names: tuple[str, ...], path: Path) -> None:
    for index, name in enumerate(names):
        try:
            plain_name(name)
        except ValueError:
            allowed = 'a folder in `root`, like "data" (for one elsewhere make a link to it in `root`)'
            raise json_file.wrong(path, f"visible_folders[{index}]", name, allowed) from None


def _check_ldap(ldap: Ldap, path: Path) -> None:
    try:
        host, _, _ = ldap.place
        host.encode("idna")
    except ValueError as error:
        allowed = f"`ldaps://HOST`, or `ldap://HOST`, which is asked for TLS before it hears anything: {error}"
        raise json_file.wrong(path, "ldap.url", ldap.url.rpartition("@")[2], allowed) from None
    if ldap.bind.count("{user}") != 1 or set("{}") & set(ldap.bind.replace("{user}", "")) or ldap.bind == "{user}":
        allowed = 'the name of a user there, with {user} in its place once, like "uid={user},ou=people,dc=lab"'
        raise json_file.wrong(path, "ldap.bind", ldap.bind, allowed)
    if ldap.ca is not None and "\0" in ldap.ca:
        raise json_file.wrong(path, "ldap.ca", ldap.ca, "a path without NUL")


def _check_files(conf: ConfFile, path: Path) -> None:
    seen: dict[str, str] = {}
    for prefix, kind in conf.files.items():
        if kind not in get_args(FileOwner):
            raise json_file.wrong(path, f"files.{prefix}", kind, " or ".join(f'"{one}"' for one in get_args(FileOwner)))
        try:
            check_owned(prefix, kind, conf.visible_folders)
        except ValueError as error:
            raise json_file.wrong(path, f"files.{prefix}", prefix, str(error)) from None
        same = "/".join(owned_parts(prefix)).replace(GROUP, USER)
        if same in seen:
            allowed = f"paths of which each means other folders ({seen[same]} means these already)"
            raise json_file.wrong(path, f"files.{prefix}", prefix, allowed)
        seen[same] = prefix


def _check_hooks(hooks: Hooks, path: Path) -> None:
    for key, words in msgspec.structs.asdict(hooks).items():
        if words is None:
            continue
        if isinstance(words, str) or not words or not words[0].startswith("/") or any("\0" in word for word in words):
            allowed = f"the absolute path of a program and its arguments, like {HOOK_EXAMPLE} (no shell reads it)"
            raise json_file.wrong(path, f"hooks.{key}", words, allowed)


def _said(value: Any) -> frozenset[str]:
    """The keys that the file says; `a.b` is b in the object a."""
    inner = (f"{key}.{inner}" for key in value if isinstance(value[key], dict) for inner in value[key])
    return frozenset((*value, *inner))
