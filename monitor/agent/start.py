"""The last steps of a command's own process, between fork and exec. It owns log, folder and the words for what fails.

Only here are the log and the folder touched: they may lie on a network file system that hangs, and then this process
hangs, nobody else.
"""

from __future__ import annotations

import os
import signal
import socket
from typing import Any, Dict, NoReturn

from .tree import MARK

MAX_ERROR = 600
_RESET = (signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)


class StartError(Exception):
    """The command cannot be started; the message is for the owner of the task."""


def execute(launch: Dict[str, Any], errors: int) -> NoReturn:
    """Become the command. If that fails, one line goes to the descriptor `errors` and the process ends."""
    try:
        os.setsid()
        for number in _RESET:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        _open_log(launch["log_path"])
        _enter(launch["cwd"])
        _exec(launch["argv"], {**_own(), **launch["env"], MARK: launch["launch_id"]})
    except StartError as error:
        _give_up(str(error), errors)
    except BaseException as error:  # noqa: BLE001  (this is a fork: nothing may return into the code above)
        _give_up(f"{error} on {socket.gethostname()}", errors)


def _own() -> Dict[str, str]:
    """The node's own environment, without what was meant for the agent (or for a task that it may run inside)."""
    return {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}


def _give_up(text: str, errors: int) -> NoReturn:
    os.write(errors, text[:MAX_ERROR].encode("utf-8", "replace"))
    os._exit(127)


def _open_log(path: str) -> None:
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOCTTY, 0o644)
    except OSError as error:
        raise StartError(f"the log {path} cannot be opened on {socket.gethostname()}: {error.strerror}") from None
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)


def _enter(path: str) -> None:
    host = socket.gethostname()
    try:
        os.chdir(path)
    except FileNotFoundError:
        raise StartError(f"the folder {path} does not exist on {host}") from None
    except NotADirectoryError:
        raise StartError(f"{path} is not a folder on {host}") from None
    except OSError as error:
        raise StartError(f"the folder {path} cannot be entered on {host}: {error.strerror}") from None


def _exec(argv: Any, env: Dict[str, str]) -> NoReturn:
    host = socket.gethostname()
    try:
        os.execvpe(argv[0], argv, env)  # noqa: S606  (a shell would read the words again)
    except FileNotFoundError:
        if os.path.exists(argv[0]):
            raise StartError(f"{argv[0]} cannot be run on {host}: its interpreter does not exist") from None
        raise StartError(f"the program {argv[0]} does not exist on {host}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise StartError(f"{argv[0]} cannot be run on {host}: {reason}") from None
