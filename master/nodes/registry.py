"""gpu_slaver_info.json, typed: the machines that the master may use, in the file's order.

Owns the keys of a node and what makes a registry wrong as a whole (two nodes of one name). It says what the file
says; whether a node is there, and what it really has, is known elsewhere.
"""

import ipaddress
import json
import re
import shlex
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from master.config.ssh_accounts import ROOT, SshAccount, typed
from master.core.nodes.inventory import NodeSpec
from master.edited_files import json_file
from master.edited_files.mismatch import unknown_key
from master.edited_files.ownership import planted, user_name
from master.nodes.driver import TRAITS, DriverName, DriverTraits
from wire.errors import BadRequestError, ConfigError
from wire.file_fault import fault
from wire.message import Message
from wire.pattern import Pattern

MISSING_CURE = Message("init_writes_registry")
UNKNOWN_GPU = "GPU"
"""The model of a GPU that the registry counts and does not name."""

TURN = threading.Lock()
"""Held while the file is read or replaced *and* its content is passed on, so that the last content passed on is the
file's."""

COMMENT = ("_", "#", "//")
"""How keys begin that are for people: `"#": "the loud one"`. They are kept and mean nothing."""

_NAME = re.compile(r"[^\s,/<>-](?:[^,/<>\n\r\t]{0,62}[^\s,/<>])?")
_PLAIN = re.compile(r"[^\s-]\S*")
_HOST_KEY = Pattern(r"SHA256:[A-Za-z0-9+/]{43}=?|(?:ssh|ecdsa|sk)-\S+ [A-Za-z0-9+/]+={0,2}(?: .*)?")
_PROXY = Pattern(r"socks5h?://(?:[^@/\s]*@)?[^@/:\s]+:\d+")

Natural = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]
GpuCount = Annotated[int, msgspec.Meta(ge=0, le=1024)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class NodeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of the registry. `gpu_memory`: MiB, one number a GPU. `cpus`, `slots`,
    `tmp_disk` (MiB): None means what the machine has.

    `gpu_probe` `declared` means that the registry is believed and nothing is probed. `key_file` and `python` are
    paths on the master and on the node. `accounts`: over whose SSH the tasks of users run there, by the user's name, in
    place of `user_name`; None: all run over that one.
    """

    name: str
    gpu_count: GpuCount
    ip: str = ""
    user_name: str = ""
    gpu_info: tuple[str, ...] = ()
    driver: DriverName = "ssh"
    port: Port = 22
    key_file: str | None = None
    host_key: str | None = None
    proxy: str | None = None
    python: str = "python3"
    gpu_memory: tuple[Positive, ...] | None = None
    gpu_probe: Literal["auto", "nvml", "gputil", "declared"] = "auto"
    cpus: Positive | None = None
    slots: Natural | None = None
    tmp_disk: Positive | None = None
    labels: dict[str, str] = {}
    schedulable: bool = True
    accounts: dict[str, SshAccount] | None = None

    @property
    def traits(self) -> DriverTraits:
        """Return what its driver says of it."""
        return TRAITS[self.driver]

    @property
    def gpu_models(self) -> tuple[str, ...]:
        """One name a GPU, `GPU` where the registry does not say."""
        return self.gpu_info or (UNKNOWN_GPU,) * self.gpu_count

    def spec(self) -> NodeSpec:
        """The part of it that planning needs."""
        return NodeSpec(
            name=self.name,
            # One that dials in has no place where it must be: its state folder alone says which machine it is.
            address=f"{self.user_name}@{self.ip}:{self.port}" if self.traits.is_over_ssh else "",
            gpu_models=self.gpu_models,
            gpu_memory_mib=self.gpu_memory,
            cpus=self.cpus,
            slots=self.slots,
            tmp_disk_mib=self.tmp_disk,
            schedulable=self.schedulable,
            accounts=self._logins(),
            is_declared=self.gpu_probe == "declared",
        )

    def _logins(self) -> tuple[tuple[str, str], ...] | None:
        if not self.accounts:
            return None
        # A user who works over the node's own account needs no agent but the node's.
        own = {self.user_name: ""}
        return tuple((owner, own.get(one.user_name, one.user_name)) for owner, one in self.accounts.items())

    def with_accounts(self, of_lab: Mapping[str, SshAccount]) -> "NodeConfig":
        """The entry with the accounts that users have on all nodes, where it does not say otherwise. An agent of root's
        needs none, and what is not reached over SSH can have none."""
        found = {**of_lab, **(self.accounts or {})}
        if not self.traits.is_over_ssh or self.user_name == ROOT or not found:
            return self
        return msgspec.structs.replace(self, accounts=found)


def load_registry(path: Path) -> tuple[NodeConfig, ...]:
    """Read the registry. Raises ConfigError; a file with one mistake is refused whole."""
    path = path.absolute()
    if (owner := planted(path)) is not None:
        raise fault(path, Message("registry_planted", owner=user_name(owner)))
    return parse_registry(entries_of(json_file.read_bytes(path, cure=MISSING_CURE), path), path)


def entries_of(data: bytes, path: Path) -> list[Any]:
    """The entries of a registry as they stand, untyped; `path` is for the messages. Raises ConfigError."""
    value = json_file.parse(data, path)
    if not isinstance(value, list):
        raise fault(path, Message("no_list_of_nodes", example="[{…}, …]"))
    return value


def parse_registry(entries: list[Any], path: Path) -> tuple[NodeConfig, ...]:
    """Type the entries of a registry; `path` is for the messages. Raises ConfigError."""
    nodes: list[NodeConfig] = []
    places: dict[str, int] = {}
    for index, entry in enumerate(entries):
        node = _parse_entry(entry, path, _label(index, entry))
        if node.name in places:
            allowed = Message("node_name_free", entry=places[node.name])
            raise json_file.wrong(path, f"[{index}].name", node.name, allowed)
        places[node.name] = index
        nodes.append(node)
    return tuple(nodes)


def check_entry(entry: dict[str, Any]) -> None:
    """Raises BadRequestError for an entry that no registry may hold."""
    try:
        node = _parse_entry(entry, Path("node"), "")
    except ConfigError as error:
        raise BadRequestError(error.args[0]) from None
    if node.traits.is_over_ssh:
        check_address(node.ip)


def check_address(ip: object) -> None:
    """Raises BadRequestError for a new `ip` of a node that holds more than an address. A registry that holds one stays
    readable: its other nodes are right."""
    if isinstance(ip, str) and (why := misspelt_address(ip)) is not None:
        raise BadRequestError(why)


def check_keys(changes: dict[str, Any]) -> None:
    """Raises BadRequestError for keys that no entry has; what their values may be depends on the others."""
    known = [field.encode_name for field in msgspec.structs.fields(NodeConfig)]
    for key in changes:
        if key not in known and not key.startswith(COMMENT):
            raise BadRequestError(unknown_key(key, known, "changes"))


def misspelt_address(ip: str) -> Message | None:
    """Return what is wrong with an `ip` that holds more than an address, in the syntax of `ssh` (`user@host`,
    `host:22`, `[::1]`): it names the keys to change. None for one that may be right."""
    try:
        ipaddress.ip_address(ip)
    except ValueError:
        user, _, place = ip.removeprefix("ssh://").rstrip("/").rpartition("@")
        host, port = _host_and_port(place)
    else:
        return None
    if host == ip or not host:
        return None
    changes = {"ip": host, "user_name": user.partition(":")[0], "port": port}
    written = shlex.join(f"{key}={value}" for key, value in changes.items() if value)
    return Message("ip_misspelt", ip=ip, changes=written)


def _host_and_port(place: str) -> tuple[str, str]:
    """Of `host`, `host:22`, `[::1]`, `[::1]:22`; the port is "" where there is none."""
    if place.startswith("["):
        host, _, port = place[1:].partition("]")
        return host, port.removeprefix(":")
    host, _, port = place.partition(":") if place.count(":") == 1 else (place, "", "")
    return host, port


def _parse_entry(entry: Any, path: Path, label: str) -> NodeConfig:
    node = json_file.convert(_without_comments(entry), NodeConfig, path, label)
    _check(node, path, label)
    if node.accounts is None:
        return node
    return msgspec.structs.replace(node, accounts=typed(node.accounts, path, f"{label}.accounts".lstrip(".")))


def _label(index: int, entry: Any) -> str:
    """How a message names the entry: by its place, and by its name where it has one."""
    name = entry.get("name") if isinstance(entry, dict) else None
    if not isinstance(name, str) or not name:
        return f"[{index}]"
    return f"[{index}] ({name if name.isprintable() else json.dumps(name)})"


def _without_comments(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    return {key: value for key, value in entry.items() if not key.startswith(COMMENT)}


def _check(node: NodeConfig, path: Path, label: str) -> None:
    def wrong(key: str, found: Any, allowed: Message) -> ConfigError:
        return json_file.wrong(path, f"{label}.{key}".lstrip("."), found, allowed)

    if not _NAME.fullmatch(node.name) or not node.name.isprintable():
        raise wrong("name", node.name, Message("node_name"))
    for key, values in (("gpu_info", node.gpu_info), ("gpu_memory", node.gpu_memory)):
        if values and len(values) != node.gpu_count:
            raise wrong(key, values, Message("as_many_as_gpus", count=node.gpu_count, found=len(values)))
    if node.traits.is_over_ssh:
        for key, value in (("ip", node.ip), ("user_name", node.user_name)):
            if not value:
                raise wrong(key, value, Message("entry_for_ssh"))
    for key, value in (("ip", node.ip), ("user_name", node.user_name)):
        if value and not (_PLAIN.fullmatch(value) and value.isprintable()):
            raise wrong(key, value, Message("one_plain_word"))
    if not node.python.strip() or node.python.startswith("-") or not node.python.isprintable():
        raise wrong("python", node.python, Message("path_of_python"))
    if node.host_key is not None and not _HOST_KEY.fullmatch(node.host_key):
        allowed = Message("host_key_text")
        raise wrong("host_key", node.host_key, allowed)
    if node.accounts is not None and (not node.traits.is_over_ssh or node.user_name == ROOT):
        allowed = Message("no_accounts_here")
        raise wrong("accounts", sorted(node.accounts), allowed)
    if node.proxy is not None and not _PROXY.fullmatch(node.proxy):
        raise wrong("proxy", node.proxy, Message("socks_proxy"))
