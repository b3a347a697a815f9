"""The keys of conf.json: what they are called, their types, bounds and defaults. Pure."""

import re
from typing import Annotated, Any, Literal

import msgspec

from master.config.settings import Caps, Scheduling
from master.config.ssh_accounts import SshAccount
from wire.console import TlsFiles, Web
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
LDAP_PORTS = {True: 636, False: 389}
"""With TLS from the first byte on, and where it is asked for."""

TASK_ENV = {"PYTHONUNBUFFERED": "1", "QT_QPA_PLATFORM": "offscreen"}

_LDAP_URL = Pattern(
    r"(?P<scheme>ldaps?)://(?:\[(?P<bare>[0-9a-f:.]+)\]|(?P<host>[^\s:/?#@\[\]]+))(?::(?P<port>[0-9]+))?/?",
    re.IGNORECASE,
)


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


class Values(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of conf.json whose values the master works with as they are written."""

    visible_folders: tuple[Text, ...] = ()
    bind: Text = "127.0.0.1"
    log_group: Text | None = None
    task_env: dict[str, str] = msgspec.field(default_factory=lambda: dict(TASK_ENV))
    run_as_allowed: tuple[AccountName | Uid, ...] = ()
    accounts: dict[str, SshAccount] = {}
    desktop_client: DesktopClient = DesktopClient()
    local_users: Literal["same name"] | None = None
    local_admin: Literal["owner", "root"] = "owner"
    privacy: Privacy = "open"
    tls: Literal["auto", "off"] | TlsFiles = "auto"
    scheduler: Scheduling = Scheduling()
    limits: Caps = Caps()
    licences: dict[Text, Count] = {}
    files: dict[str, Any] = {}
    influx: Influx | None = None
    notify: Notify | None = None
    hooks: Hooks = Hooks()
    ldap: Ldap | None = None
    web: Web | None = None


class ConfFile(Values, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file as it is written: its keys, and where a key is left out, its default. `Values` has all but those of
    which `Config` makes something else."""

    socket_info: Ports
    root: Text = "."
    psw_file: Text = "psw"
    slaver_file: Text = "gpu_slaver_info.json"
    train_log_path: Text = "train_logs"
    server_log_path: Text = "server_log.log"
    task_info: Text = "task_info"
    conda: Text = "envs/miniconda3"
