"""The address of the master: reads conf.json, `--master`, the environment or the last log-in, and returns host, ports
and the stored log-in. Opens no connection."""

from __future__ import annotations

import json
import os

from client import own_folder
from client.other_end import OtherEnd
from client.refusals import coded_error, config_error, file_error
from wire import lab
from wire.regular_file import read_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from client.logins import Login, Logins
    from client.trust import Trust

DEFAULT_DATA_PORT = 63005
CONSOLE_PORT = 8443
MAX_PORT = 65535
ACCOUNT = "MUSTER_MASTER_UID"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
PLAIN = "plain://"
"""In front of HOST[:PORT]: the master there does not speak TLS (`tls: off` in its conf.json)."""
_CONF = "conf.json"
_PORTS = ("data_port", "train_state_port", "monitor_port")


class Address:
    """A host and its ports. `train_state` and `monitor` are None while only the data port is known.

    `same_machine`: the master sees the same paths. `trust`: the certificate authority to accept; None if the connection
    is not encrypted, and then `end` says which account may answer. `conf`: the conf.json that the address comes from,
    or None. `proxy`: the SOCKS proxy, or "". `token`: the token that `muster login` stored for this master.
    """

    def __init__(self, host: str, data: int, train_state: int | None = None, monitor: int | None = None) -> None:
        self.host = host
        self.data = data
        self.train_state = train_state
        self.monitor = monitor
        self.same_machine = host in LOOPBACK
        self.trust: Trust | None = None
        self.conf: str | None = None
        self.proxy = ""
        self.token: str | None = None
        self.end = OtherEnd(self.name)

    @property
    def name(self) -> str:
        """The key under which log-ins are stored. All names of this machine give the same key."""
        return f"{LOOPBACK[0]}:{self.data}" if self.host in LOOPBACK else str(self).lower()

    @property
    def is_here(self) -> bool:
        """Tell whether the connection stays on this machine."""
        return is_loopback(self.host)

    def __str__(self) -> str:
        return f"{self.host}:{self.data}"


def is_loopback(host: str) -> bool:
    """Tell whether `host` is an address of this machine only."""
    return host in LOOPBACK or host.startswith("127.")


def find(
    conf: str | None = None, master: str | None = None, proxy: str | None = None, *, closed: bool = True
) -> Address:
    """Return the address of the master, with the stored log-in. In this order: `conf` or `master`, MUSTER_MASTER,
    MUSTER_CONF, conf.json in this folder or one above, the last log-in. `closed`: refuse a log-in file that others can
    read. `proxy`: without it MUSTER_PROXY, then that of the log-in.

    Raises ConfigError if there is no address, or the first one found is not valid.
    """
    address = _find(conf, master)
    logins = _logins()
    kept = logins.of(address.name, closed=closed) if logins is not None else None
    if kept is not None:
        address.token, address.end.account = kept.token, kept.account
    if logins is not None and address.trust is None:
        address.end.sealed = logins.over_tls()
    if address.trust is None and os.environ.get(ACCOUNT):
        _note_account(address)
    if not address.is_here:
        address.proxy = proxy or os.environ.get("MUSTER_PROXY") or (kept.proxy if kept is not None else "")
    if address.proxy and address.trust is not None:
        address.trust.vouches = None  # the kernel knows who has the proxy, not who is behind it
    return address


def _note_account(address: Address) -> None:
    """Set the account of the master from MUSTER_MASTER_UID: for the master of MUSTER_MASTER, or for any master if that
    variable is not set."""
    there, said = os.environ.get("MUSTER_MASTER"), os.environ[ACCOUNT]
    if (not there or parse(there).name == address.name) and said.isascii() and said.isdigit():
        address.end.account = int(said)


def _find(conf: str | None, master: str | None) -> Address:
    path = conf_in_use(conf, master)
    if path is not None:
        return read_conf(path)
    last = None if master or os.environ.get("MUSTER_MASTER") else _last()
    return parse(master or os.environ.get("MUSTER_MASTER") or (last.master if last is not None else ""))


def conf_in_use(conf: str | None = None, master: str | None = None) -> str | None:
    """Return the conf.json that the address comes from; None if it comes from elsewhere. Raises ConfigError if there is
    no address, or two of them, or if another account could have written the conf.json that was found."""
    if conf and master:
        raise config_error("conf_and_master")
    if master or (not conf and os.environ.get("MUSTER_MASTER")):
        return None
    chosen = conf or os.environ.get("MUSTER_CONF") or _found()
    if chosen is not None:
        return chosen
    last = _last()
    if last is None:
        raise config_error("no_master_named")
    return last.conf


def _last() -> Login | None:
    logins = _logins()
    return logins.last() if logins is not None else None


def _logins() -> Logins | None:
    """Return the stored log-ins; None before the first log-in."""
    folder = logins_folder()
    if not os.path.isdir(folder):
        return None
    from client.logins import Logins

    return Logins(folder)


def conf_path(conf: str | None = None) -> str:
    """Return the conf.json in use: `conf`, MUSTER_CONF, or the nearest conf.json in this folder or one above.

    A file that the user names is used, whoever wrote it; a file that was found only if no other account can have
    written it. Raises ConfigError if that is not so, and if there is no file.
    """
    chosen = conf or os.environ.get("MUSTER_CONF") or _found()
    if chosen is None:
        raise config_error("no_conf_here")
    return chosen


def _found() -> str | None:
    if os.path.lexists(_CONF):
        _check_ours(_CONF)
        return _CONF
    return _above()


def _above() -> str | None:
    """Return the nearest conf.json of a lab in the folders above. Other programs use the same file name."""
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        return None  # this folder was deleted
    for path in _in_those_above(folder):
        _check_ours(path)
        if "socket_info" in load(path):
            return path
    return None


def above(folder: str) -> str | None:
    """Return the nearest conf.json of a lab in the folders above `folder`, of any owner; None if there is none."""
    from wire.errors import ConfigError

    for path in _in_those_above(folder):
        try:
            if "socket_info" in load(path):
                return path
        except ConfigError:
            continue
    return None


def _in_those_above(folder: str) -> Iterator[str]:
    while folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        path = os.path.join(folder, _CONF)
        if os.path.lexists(path):
            yield path


def _check_ours(path: str) -> None:
    """Raise ConfigError unless the file, and the folders of the file and of its link, belong to the user or root and
    nobody else can write them: `muster up` runs commands of conf.json with the rights of the user who types it."""
    from client.foreign import whose, why_foreign

    real = os.path.realpath(path)
    for one in dict.fromkeys((os.path.dirname(os.path.abspath(path)), path, os.path.dirname(real), real)):
        try:
            why = why_foreign(one) or (whose(os.lstat(one)) if one == path else None)
        except OSError as error:
            raise file_error(one, "file_unreadable", detail=error.strerror) from None
        if why is not None:
            conf = os.path.abspath(path)
            if one in (path, real):
                raise config_error("conf_not_obeyed", path=one, why=why, conf=conf)
            raise config_error("conf_folder_not_obeyed", path=one, why=why, conf=conf)


def parse(text: str) -> Address:
    """Return the address in `text`: HOST, HOST:PORT, [IPV6] or [IPV6]:PORT, where PORT is the data port. `plain://` in
    front means no encryption; connections within this machine have none anyway. Raises ConfigError."""
    address = _parse(text.removeprefix(PLAIN))
    if not text.startswith(PLAIN):
        _encrypt(address)
    elif not address.is_here:
        _check_not_pinned(address)
    return address


def _check_not_pinned(address: Address) -> None:
    """Raise UntrustedError if this master has used TLS before: a plain answer may then come from another machine."""
    from client.trust import Trust

    trust = Trust(str(address))
    if trust.is_pinned:
        raise coded_error("untrusted", "not_called_in_plain", at=str(address), plain=PLAIN)


def logins_folder() -> str:
    """Return the folder in which `muster login` stores log-ins; empty for an account without a home."""
    kept = own_folder.config()
    return os.path.join(kept, "muster", "logins") if kept else ""


def _encrypt(
    address: Address, lies_at: str | None = None, shown_at: str | None = None, *, is_brought: bool = False
) -> None:
    """Require TLS for a master on another machine; on this machine only if the kernel does not tell which account
    answers."""
    if address.is_here:
        address.end.encrypt_if_unknown(lies_at, shown_at, is_brought=is_brought)
        return
    from client.trust import Trust

    address.trust = Trust(str(address), lies_at, shown_at, is_brought=is_brought)
    if address.conf is not None:
        address.trust.vouches = address.end.vouches


def _parse(text: str) -> Address:
    host, port = text, ""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    if not host or (port and not (port.isascii() and port.isdigit() and 0 < int(port) <= MAX_PORT)):
        raise config_error("no_host_and_port", found=text)
    return Address(host, int(port) if port else DEFAULT_DATA_PORT)


def read_conf(path: str) -> Address:
    """Return the address in a conf.json. Raises ConfigError, which names file and key."""
    conf = load(path)
    info = conf.get("socket_info")
    if not isinstance(info, dict):
        raise file_error(path, "ports_missing", ports=_PORTS)
    ports = [_port(path, info, key) for key in _PORTS]
    bind = conf.get("bind", "127.0.0.1")
    if not isinstance(bind, str):
        raise file_error(path, "bind_no_address", found=repr(bind))
    address = Address({"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(bind, bind), *ports)  # noqa: S104
    address.same_machine = True
    address.conf = os.path.abspath(path)
    kept = os.path.join(os.path.dirname(path), os.path.expanduser(str(conf.get("task_info") or "task_info")))
    address.end = OtherEnd(address.name, address.conf, kept)
    address.end.lab = lab.read(address.conf)
    if conf.get("tls") != "off":
        folder = os.path.join(kept, "tls")
        own, brought = os.path.join(folder, "ca.pem"), os.path.join(folder, "brought.pem")
        _encrypt(address, own, brought, is_brought=isinstance(conf.get("tls"), dict))
    return address


def console_authority(path: str) -> str:
    """Return the path of the root certificate of this lab's console."""
    kept = str(load(path).get("task_info") or "task_info")
    return os.path.join(os.path.dirname(os.path.abspath(path)), os.path.expanduser(kept), "web", "authority.pem")


def load(path: str) -> dict[str, object]:
    """Return the content of a conf.json. Raises ConfigError if it cannot be read or is not an object."""
    try:
        conf = json.loads(read_regular(path).decode("utf-8-sig"))
    except FileNotFoundError:
        raise file_error(path, "conf_missing") from None
    except OSError as error:
        raise file_error(path, "file_unreadable", detail=error.strerror) from None
    except ValueError as error:
        raise file_error(path, "not_json", detail=str(error)) from None
    except RecursionError:
        raise file_error(path, "json_too_deep") from None
    if not isinstance(conf, dict):
        raise file_error(path, "object_expected")
    return conf


def _port(path: str, info: dict[str, object], key: str) -> int:
    value = info.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_PORT:
        return value
    raise file_error(path, "port_expected", key=key, found=repr(value))
