"""A command's own process, between fork and exec.

It is forked before its launch is known and waits for it. Only here are the log and the folder touched: they may lie on
a network file system that hangs, and then this process hangs, nobody else. Whose process it becomes is `as_owner`'s.
"""

from __future__ import annotations

import _thread
import json
import os
import socket
import struct
from contextlib import suppress
from typing import Any, Dict, NoReturn, Tuple

from .. import fork
from ..tree import MARK
from . import as_owner, blame
from .blame import StartError
from .cwd import enter
from .log_open import open_log

MAX_ERROR = 600
SPARE_PROCESSES = 3
"""So many more must be possible: next to no command does without, and what bash says of it would look like its own."""
STACK = 64 << 10


def stand_by(orders: socket.socket, errors: int, env: Dict[str, str]) -> NoReturn:
    """Wait for the launch and become its command, whose variables are laid over `env`. If that fails, one line goes to
    `errors`, whose fault it is before what is wrong, and the process ends."""
    has_own_log = False
    try:
        os.setsid()
        fork.reset_signals()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        _rehearse(env)
        order, _record = _receive(orders)
        if not order.endswith(b"\n"):
            os._exit(0)  # the shim ended and nothing was asked
        launch = json.loads(order)
        roots = launch.get("roots", [])
        if "login" in launch:
            _check_processes()  # what root cannot have, nobody can
            env = as_owner.take_on(launch, roots, orders)
            has_own_log = True
        else:
            enter(launch["cwd"], roots)  # before the log, which may be made where a file system should be mounted
            open_log(launch["log_path"], roots, new=launch.get("log_new", False))
        _check_processes()
        _exec(launch["argv"], {**env, **launch["env"], MARK: launch["launch_id"]})
    except StartError as error:
        if has_own_log:  # nobody but the owner could write it there later
            os.write(1, f"muster: {error}\n".encode("utf-8", "replace"))
        _give_up(str(error), blame.TASK if has_own_log else error.fault, errors)
    except BaseException as error:  # noqa: BLE001  (this is a fork: nothing may return into the code above)
        exhausted = isinstance(error, MemoryError) or getattr(error, "errno", None) in blame.EXHAUSTED
        # What an account has used up is its own matter: nobody may set a node aside for all by that.
        fault = blame.NODE if exhausted and not has_own_log else blame.TASK
        _give_up(f"{str(error) or type(error).__name__} on {socket.gethostname()}", fault, errors)


def _rehearse(env: Dict[str, str]) -> None:
    """Touch what a launch will touch: the first use of a page that the agent has too costs more than the work."""
    json.loads('{"argv": [""], "env": {}, "grace_s": 0.5, "time_limit_s": null}')
    open_log(os.devnull, [])
    enter("/", [])
    with suppress(StartError):
        _check_processes()
    with suppress(StartError):
        _exec(["/"], {**env, MARK: ""})


def hand_over(orders: socket.socket, order: bytes, record: int) -> None:
    """Send a launch (one line) to the process that stands by, and the record with its lock. Raises OSError."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", record))]
    sent = orders.sendmsg([order], rights)
    if sent < len(order):
        orders.sendall(order[sent:])


def _receive(orders: socket.socket) -> Tuple[bytes, int]:
    """The order, and the record: having it open until the exec holds its lock."""
    size = struct.calcsize("i")
    data, rights, _, _ = orders.recvmsg(65536, socket.CMSG_SPACE(size))
    if data and not rights:
        raise StartError(f"the record's lock could not be passed on, on {socket.gethostname()}", blame.NODE)
    parts = [data]
    while parts[-1] and not parts[-1].endswith(b"\n"):
        parts.append(orders.recv(65536))
    record: int = struct.unpack("i", rights[0][2])[0] if rights else -1
    if rights:
        os.set_inheritable(record, False)  # noqa: FBT003  (the standard library's signature)
    return b"".join(parts), record


def _give_up(text: str, fault: str, errors: int) -> NoReturn:
    os.write(errors, f"{fault} {text[:MAX_ERROR]}".encode("utf-8", "replace"))
    os._exit(127)


def _check_processes() -> None:
    """We were forked before, perhaps as the last that the account may have. Threads count as processes do, cost a
    hundredth, and end by themselves."""
    gate = _thread.allocate_lock()
    gate.acquire()
    try:
        _thread.stack_size(STACK)
        for _ in range(SPARE_PROCESSES):
            _thread.start_new_thread(_pass, (gate,))
    except RuntimeError:
        text = (
            f"no process could be made for the command on {socket.gethostname()}: the account, or the machine, has all"
        )
        raise StartError(f"{text} that it may have", blame.NODE) from None
    finally:
        gate.release()


def _pass(gate: _thread.LockType) -> None:
    with gate:
        """All are there at once, and then none."""


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
        fault = blame.of(error, argv[0], []) if isinstance(error, OSError) else blame.TASK
        raise StartError(f"{argv[0]} cannot be run on {socket.gethostname()}: {reason}", fault) from None
