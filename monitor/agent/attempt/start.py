"""The process of a command that runs as its owner, between fork and exec; of any command where there is no `spawn`.

Only here are the log and the folder touched: they may lie on a network file system that hangs, and then this process
hangs, nobody else. `as_owner` decides which account the process gets. It holds the record that the shim has open, and
with it the record's lock, until its exec.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Any, Dict, NoReturn

from wire.agent import STAGE_FD

from .. import fork
from ..tree import MARK
from . import as_owner, blame, given_files
from .blame import StartError
from .cwd import enter
from .log_open import open_log, take
from .processes import check_processes

MAX_ERROR = 600


def become(launch: Dict[str, Any], orders: socket.socket, errors: int, env: Dict[str, str], stages: int) -> NoReturn:
    """Become the command of a launch, whose variables are laid over `env`. If that fails, one line goes to `errors`,
    whose fault it is before what is wrong, and the process ends. `orders`: by which it tells of its owner and
    its log; `stages`: what the command shall have as STAGE_FD, -1: nothing."""
    has_own_log = False
    try:
        os.setsid()
        fork.reset_signals()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        roots = launch.get("roots", [])
        if "login" in launch:
            check_processes()  # what root cannot have, nobody can
            env = as_owner.take_on(launch, roots, orders)
            has_own_log = True
        else:
            enter(launch["cwd"], roots)  # before the log, which may be made where a file system should be mounted
            new, instead_of = launch.get("log_new", False), launch.get("placed_instead_of", "")
            take(open_log(launch["log_path"], roots, new=new, instead_of=instead_of))
            with suppress(OSError):  # whoever looks after it then does so without its log
                as_owner.tell(orders, {})
            given_files.leave(launch)
        check_processes()
        if stages >= 0:
            os.dup2(stages, STAGE_FD)
        _exec(launch["argv"], variables(launch, env))
    except StartError as error:
        if has_own_log:  # nobody but the owner could write it there later
            os.write(1, f"muster: {error}\n".encode("utf-8", "replace"))
        _give_up(str(error), blame.TASK if has_own_log else error.fault, errors)
    except BaseException as error:  # noqa: BLE001  (this is a fork: nothing may return into the code above)
        told = blame.unforeseen(error)
        # An account's exhausted limits concern that account only: nobody may set a node aside for all by that.
        _give_up(str(told), blame.TASK if has_own_log else told.fault, errors)


def variables(launch: Dict[str, Any], env: Dict[str, str]) -> Dict[str, str]:
    """Those of the command, the launch's laid over `env`; by the mark among them its tree is found."""
    return {**env, **launch["env"], **given_files.variables(launch), MARK: launch["launch_id"]}


def _give_up(text: str, fault: str, errors: int) -> NoReturn:
    os.write(errors, f"{fault} {text[:MAX_ERROR]}".encode("utf-8", "replace"))
    os._exit(127)


def _exec(argv: Any, env: Dict[str, str]) -> NoReturn:
    try:
        os.execvpe(argv[0], argv, env)  # noqa: S606  (a shell would read the words again)
    except (OSError, ValueError) as error:
        raise blame.not_run(argv[0], error) from None
