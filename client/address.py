"""Where the master is: turns conf.json, `--master`, the environment or the last log-in into hosts and ports, and finds
what a log-in there left. Connects to nothing."""

from __future__ import annotations

import json
import os

from client import own_folder
from client.other_end import OtherEnd
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
_NO_CONF = "there is no conf.json here or in a folder above"
_NOWHERE = (
    f"{_NO_CONF}: give --conf FILE or --master HOST[:PORT] (or set MUSTER_CONF or MUSTER_MASTER), log in with "
    "`muster login HOST`, or make one with `muster init`"
)
_PORTS = ("data_port", "train_state_port", "monitor_port")


class Address:
    """A host and its ports. `train_state` and `monitor` are None where only the data port is known so far.

    `same_machine`: paths of ours mean the same to the master. `trust`: whom to take for the master; None where the
    connection is not encrypted, and then `end` says who may have the other end of it. `conf`: the conf.json that tells
    it, if one does. `proxy`: the SOCKS proxy on the way, if there is one; `token`: what `muster login` keeps for this
    master.
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
        """By what a log-in there is kept: this machine has many names."""
        return f"{LOOPBACK[0]}:{self.data}" if self.host in LOOPBACK else str(self).lower()

    @property
    def is_here(self) -> bool:
        """Is what is said to it heard on this machine only?"""
        return is_loopback(self.host)

    def __str__(self) -> str:
        return f"{self.host}:{self.data}"


def is_loopback(host: str) -> bool:
    """Is it heard on this machine only?"""
    return host in LOOPBACK or host.startswith("127.")


def find(
    conf: str | None = None, master: str | None = None, proxy: str | None = None, *, closed: bool = True
) -> Address:
    """The address that was asked for; else MUSTER_MASTER, MUSTER_CONF, conf.json here or above, where somebody logged
    in last, in that order; with what a log-in there left, which must be `closed` to others. `proxy`: else
    MUSTER_PROXY, else the log-in's.

    Raises ConfigError when none of them is there or the one that is makes no sense.
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
    """What a task on the master's machine is told of the one at MUSTER_MASTER, and a program of any that it names."""
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
    """The conf.json that says where the master is; None where something else does. Raises ConfigError where nothing
    says it, and for one that is found and not obeyed."""
    if master or (not conf and os.environ.get("MUSTER_MASTER")):
        return None
    chosen = conf or os.environ.get("MUSTER_CONF") or _found()
    if chosen is not None:
        return chosen
    last = _last()
    if last is None:
        raise _config_error(_NOWHERE)
    return last.conf


def _last() -> Login | None:
    logins = _logins()
    return logins.last() if logins is not None else None


def _logins() -> Logins | None:
    """What `muster login` keeps; None where nobody ever logged in."""
    folder = logins_folder()
    if not os.path.isdir(folder):
        return None
    from client.logins import Logins

    return Logins(folder)


def conf_path(conf: str | None = None) -> str:
    """The conf.json in use: the one given, MUSTER_CONF, or the nearest conf.json of this folder and those above.

    One that was named is obeyed whoever wrote it; one that was found only if nobody else can have written it. Raises
    ConfigError for one that is not obeyed, and where there is none.
    """
    chosen = conf or os.environ.get("MUSTER_CONF") or _found()
    if chosen is None:
        raise _config_error(f"{_NO_CONF}: give --conf FILE (or set MUSTER_CONF), or make one with `muster init`")
    return chosen


def _found() -> str | None:
    if os.path.lexists(_CONF):
        _check_ours(_CONF)
        return _CONF
    return _above()


def _above() -> str | None:
    """The nearest conf.json of the folders above that is one of ours: many programs call theirs so."""
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
    """The nearest conf.json of a lab in the folders above this one, whosever it is; None where there is none."""
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
    """Raise ConfigError unless the file, and the folders in which it and its link lie, are the user's or root's and
    writable by nobody else: `muster up` runs what a conf.json says, as whoever typed it."""
    from client.foreign import whose, why_foreign

    real = os.path.realpath(path)
    for one in dict.fromkeys((os.path.dirname(os.path.abspath(path)), path, os.path.dirname(real), real)):
        try:
            why = why_foreign(one) or (whose(os.lstat(one)) if one == path else "")
        except OSError as error:
            raise _config_error(f"{one}: {error.strerror}") from None
        if why:
            which = one if one in (path, real) else f"{one}, where {_CONF} lies,"
            raise _config_error(
                f"{which} {why}, so what it says is not obeyed unasked: --conf {os.path.abspath(path)} obeys it"
            )


def parse(text: str) -> Address:
    """HOST, HOST:PORT, [IPV6] or [IPV6]:PORT; PORT is the data port. `plain://` in front: not encrypted, as it is on
    this machine anyway. Raises ConfigError."""
    address = _parse(text.removeprefix(PLAIN))
    if not text.startswith(PLAIN):
        _encrypt(address)
    elif not address.is_here:
        _check_not_pinned(address)
    return address


def _check_not_pinned(address: Address) -> None:
    """Whoever answers in plain text where TLS was spoken is somebody else, or stands in between: to turn TLS off for
    them is no cure."""
    from client.trust import Trust

    trust = Trust(str(address))
    if trust.is_pinned:
        from wire.errors import UntrustedError

        raise UntrustedError(
            f"the authority of {address} is known here, so it is not called in plain text: leave {PLAIN} away"
        )


def logins_folder() -> str:
    """Where `muster login` keeps what it is to remember; empty for an account without a home."""
    kept = own_folder.config()
    return os.path.join(kept, "muster", "logins") if kept else ""


def _encrypt(
    address: Address, lies_at: str | None = None, shown_at: str | None = None, *, is_brought: bool = False
) -> None:
    """Demand TLS of a master that others can listen to us talking with; of one on this machine, where the kernel does
    not tell who answers."""
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
        raise _config_error(f"{text!r} is not HOST or HOST:PORT")
    return Address(host, int(port) if port else DEFAULT_DATA_PORT)


def read_conf(path: str) -> Address:
    """The three ports that a conf.json names. Raises ConfigError with the file and the key."""
    conf = load(path)
    info = conf.get("socket_info")
    if not isinstance(info, dict):
        raise _config_error(f"{path}: socket_info: missing; it holds {', '.join(_PORTS)}")
    ports = [_port(path, info, key) for key in _PORTS]
    bind = conf.get("bind", "127.0.0.1")
    if not isinstance(bind, str):
        raise _config_error(f"{path}: bind: an address is expected, not {bind!r}")
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
    """Where the console of this lab keeps the root that browsers are to believe."""
    kept = str(load(path).get("task_info") or "task_info")
    return os.path.join(os.path.dirname(os.path.abspath(path)), os.path.expanduser(kept), "web", "authority.pem")


def load(path: str) -> dict[str, object]:
    """A conf.json as it lies. Raises ConfigError when it cannot be read or is not an object."""
    try:
        conf = json.loads(read_regular(path).decode("utf-8-sig"))
    except FileNotFoundError:
        raise _config_error(f"{path}: there is no such file; `muster init` makes one") from None
    except OSError as error:
        raise _config_error(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise _config_error(f"{path}: not JSON: {error}") from None
    except RecursionError:
        raise _config_error(f"{path}: not JSON that anybody writes: it is nested too deeply") from None
    if not isinstance(conf, dict):
        raise _config_error(f"{path}: an object is expected")
    return conf


def _port(path: str, info: dict[str, object], key: str) -> int:
    value = info.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_PORT:
        return value
    raise _config_error(f"{path}: socket_info.{key}: a port from 1 to 65535 is expected, found {value!r}")


def _config_error(message: str) -> Exception:
    from wire.errors import ConfigError

    return ConfigError(message)
