"""A command's own process, between fork and exec. It owns log, folder and the words for what fails.

It is forked before its launch is known and waits for it. Only here are the log and the folder touched: they may lie on
a network file system that hangs, and then this process hangs, nobody else.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
from contextlib import suppress
from typing import Any, Dict, NoReturn, Tuple

from .tree import MARK

MAX_ERROR = 600
_RESET = (signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)


class StartError(Exception):
    """The command cannot be started; the message is for the owner of the task."""


def stand_by(orders: socket.socket, errors: int) -> NoReturn:
    """Wait for the launch and become its command. If that fails, one line goes to `errors` and the process ends."""
    try:
        os.setsid()
        reset_signals()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        env = own_environment()
        _rehearse(env)
        order, _record = _receive(orders)
        if not order.endswith(b"\n"):
            os._exit(0)  # the shim ended and nothing was asked
        launch = json.loads(order)
        _open_log(launch["log_path"])
        _enter(launch["cwd"])
        _exec(launch["argv"], {**env, **launch["env"], MARK: launch["launch_id"]})
    except StartError as error:
        _give_up(str(error), errors)
    except BaseException as error:  # noqa: BLE001  (this is a fork: nothing may return into the code above)
        _give_up(f"{error} on {socket.gethostname()}", errors)


def _rehearse(env: Dict[str, str]) -> None:
    """Touch what a launch will touch: the first use of a page that the agent has too costs more than the work."""
    json.loads('{"argv": [""], "env": {}, "grace_s": 0.5, "time_limit_s": null}')
    _open_log(os.devnull)
    _enter("/")
    with suppress(StartError):
        _exec(["/"], {**env, MARK: ""})


def hand_over(orders: socket.socket, order: bytes, record: int) -> None:
    """Send a launch (one line) to the process that stands by, and the record with its lock. Raises OSError."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", record))]
    sent = orders.sendmsg([order], rights)
    if sent < len(order):
        orders.sendall(order[sent:])


def reset_signals() -> None:
    """As a command expects them."""
    for number in _RESET:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def own_environment() -> Dict[str, str]:
    """The node's own environment, without what was meant for the agent (or for a task that it may run inside)."""
    return {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}


def _receive(orders: socket.socket) -> Tuple[bytes, int]:
    """The order, and the record: having it open until the exec holds its lock."""
    size = struct.calcsize("i")
    data, rights, _, _ = orders.recvmsg(65536, socket.CMSG_SPACE(size))
    if data and not rights:
        raise StartError(f"the record's lock could not be passed on, on {socket.gethostname()}")
    parts = [data]
    while parts[-1] and not parts[-1].endswith(b"\n"):
        parts.append(orders.recv(65536))
    record: int = struct.unpack("i", rights[0][2])[0] if rights else -1
    if rights:
        os.set_inheritable(record, False)  # noqa: FBT003  (the standard library's signature)
    return b"".join(parts), record


def _give_up(text: str, errors: int) -> NoReturn:
    os.write(errors, text[:MAX_ERROR].encode("utf-8", "replace"))
    os._exit(127)


def _open_log(path: str) -> None:
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOCTTY, 0o644)
    except OSError as error:
        raise StartError(f"the log {path} cannot be opened on {socket.gethostname()}: {error.strerror}") from None
    os.dup2(log, 1)
    os.dup2(log, 2)


def _enter(path: str) -> None:
    try:
        os.chdir(path)
    except FileNotFoundError:
        host = socket.gethostname()
        cure = "submit from a folder that the nodes share, or name one with --cwd"
        raise StartError(f"the folder {path} does not exist on {host}: {cure}") from None
    except NotADirectoryError:
        raise StartError(f"{path} is not a folder on {socket.gethostname()}") from None
    except OSError as error:
        host = socket.gethostname()
        raise StartError(f"the folder {path} cannot be entered on {host}: {error.strerror}") from None


def _exec(argv: Any, env: Dict[str, str]) -> NoReturn:
    try:
        os.execvpe(argv[0], argv, env)  # noqa: S606  (a shell would read the words again)
    except FileNotFoundError:
        host = socket.gethostname()
        if os.path.exists(argv[0]):
            raise StartError(f"{argv[0]} cannot be run on {host}: its interpreter does not exist") from None
        raise StartError(f"the program {argv[0]} does not exist on {host}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise StartError(f"{argv[0]} cannot be run on {socket.gethostname()}: {reason}") from None
