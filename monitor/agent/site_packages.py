"""The packages that the node's own Python has beyond the standard library, for code that can do with them and
without."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any


def import_module(name: str) -> Any:
    """A module that the node's Python may have, or None. The agent runs without site-packages (`-I -S`): what the
    node's own Python and its user have installed is looked through here, without running their .pth files."""
    import site  # noqa: PLC0415  (only the sampling child needs it, and every shim would carry it)

    known = set(sys.path)
    prefix = os.path.dirname(os.path.dirname(sys.executable))  # a virtual environment's, which -S does not know
    own = os.path.join(prefix, "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages")
    # Debian's Python names its own folders here, which no virtual environment has: so that one is said outright.
    folders = [own, *site.getsitepackages([prefix]), *site.getsitepackages(), site.getusersitepackages()]
    sys.path += [folder for folder in dict.fromkeys(folders) if folder not in known and os.path.isdir(folder)]
    try:
        return importlib.import_module(name)
    except Exception:  # noqa: BLE001  (a broken package of the node is one that is not there)
        return None
