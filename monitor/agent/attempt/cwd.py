"""Entering the folder of a command, in the command's own process."""

from __future__ import annotations

import os
import socket
from typing import List

from . import blame
from .blame import StartError


def enter(path: str, roots: List[str]) -> None:
    """Make it the current folder. Raises StartError."""
    blame.check_root(path, roots)
    try:
        os.chdir(path)
    except FileNotFoundError as error:
        host = socket.gethostname()
        cure = "submit from a folder that the nodes share, or name one with --cwd"
        fault = blame.of_chosen(error, path, roots)
        raise StartError(f"the folder {path} does not exist on {host}: {cure}", fault) from None
    except NotADirectoryError:
        raise StartError(f"{path} is not a folder on {socket.gethostname()}") from None
    except OSError as error:
        host = socket.gethostname()
        fault = blame.of_chosen(error, path, roots)
        raise StartError(f"the folder {path} cannot be entered on {host}: {error.strerror}", fault) from None
