"""The command's process, by vfork: nothing of the shim is copied for it, and it runs when this returns.

It owns what the process begins with: a session of its own, no input, its log, signals as a command expects them. Its
folder is the one that the shim is in at that moment.
"""

from __future__ import annotations

import os
from typing import Dict, List, Union

from wire.agent import STAGE_FD

from .. import fork
from . import blame
from .processes import none_left


def is_possible() -> bool:
    """Does this Python, with this C library, start processes in this way? Tried once, by the agent, for it costs a
    process."""
    try:
        os.posix_spawn("/", ["/"], {}, setsid=True)
    except (AttributeError, NotImplementedError):
        return False
    except OSError:
        return True  # a folder is no program
    raise AssertionError("a folder was run")


def spawn(argv: List[str], env: Dict[str, str], log: int, stages: int = -1) -> int:
    """Run these words; gives the pid. Until its exec the process holds what is open here. `stages`: what it shall have
    as STAGE_FD, if anything. Raises StartError."""
    missing: OSError = FileNotFoundError(2, os.strerror(2))
    for path in _places(argv[0], env):
        found = _try(path, argv, env, log, stages)
        if isinstance(found, int):
            return found
        missing = found
    raise blame.not_run(argv[0], missing)


def _try(path: str, argv: List[str], env: Dict[str, str], log: int, stages: int) -> Union[int, OSError]:
    """The pid, or why no program is there. Raises StartError."""
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, log, 1),
        (os.POSIX_SPAWN_DUP2, log, 2),
        *([(os.POSIX_SPAWN_DUP2, stages, STAGE_FD)] if stages >= 0 else []),
    ]
    try:
        return os.posix_spawn(path, argv, env, file_actions=files, setsid=True, setsigmask=(), setsigdef=fork.RESET)
    except (FileNotFoundError, NotADirectoryError) as error:
        return error
    except BlockingIOError:
        raise none_left() from None
    except (OSError, ValueError) as error:
        raise blame.not_run(argv[0], error) from None


def _places(program: str, env: Dict[str, str]) -> List[str]:
    """Where it is looked for, as `execvpe` does."""
    if os.path.dirname(program):
        return [program]
    return [os.path.join(folder, program) for folder in os.get_exec_path(env)]
