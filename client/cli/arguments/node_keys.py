"""The keys of a registry entry on the command line: the options of `node add` and the keys of `node edit`, from one
table. Owns their spelling and syntax; whether they make sense is the master's decision.
"""

from __future__ import annotations

from client.cli.arguments import fields
from client.cli.arguments.wrong import wrong

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def words(text: str) -> list[str]:
    """`A100,A100` as a list. Raises ArgumentTypeError."""
    found = [part.strip() for part in text.split(",")]
    if not all(found):
        raise wrong(f"{text!r} is not a list: NAME or NAME,NAME,…")
    return found


def numbers(text: str) -> list[int]:
    """`24576,24576` as a list. Raises ArgumentTypeError."""
    return [fields.whole(part) for part in words(text)]


def label(text: str) -> tuple[str, str]:
    """KEY=VALUE. Raises ArgumentTypeError."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise wrong(f"{text!r} is not KEY=VALUE")
    return key, value


# option -> (key in the registry, how to read it, what stands for a value, help)
VALUES: dict[str, tuple[str, Callable[[str], Any], str, str]] = {
    "driver": ("driver", str, "DRIVER", "ssh (the default), local, or report: its agent dials in"),
    "ip": ("ip", str, "ADDRESS", "the machine's address or host name"),
    "user": ("user_name", str, "NAME", "the user to log in as; tasks run as this user"),
    "gpus": ("gpu_count", fields.whole, "N", "how many GPUs it has, 0 for none"),
    "gpu-model": ("gpu_info", words, "M[,M]", "their models, one a GPU; a single one stands for all"),
    "gpu-memory": ("gpu_memory", numbers, "MIB[,MIB]", "their memory, one number a GPU; a single one stands for all"),
    "gpu-probe": ("gpu_probe", str, "HOW", "auto, nvml, gputil, or declared: the registry is believed"),
    "port": ("port", fields.whole, "PORT", "of its sshd (default: 22)"),
    "key-file": ("key_file", str, "FILE", "private key, a file on the master (default: the password of psw_file)"),
    "host-key": ("host_key", str, "KEY", "what it must show: SHA256:… (else: `muster node trust`)"),
    "proxy": ("proxy", str, "URL", "socks5://[USER:PASSWORD@]HOST:PORT"),
    "python": ("python", str, "PATH", "the node's Python, 3.8 or newer (default: python3)"),
    "cpus": ("cpus", fields.whole, "N", "CPUs to count tasks against (default: what the machine has)"),
    "slots": ("slots", fields.whole, "N", "how many tasks without GPUs and CPUs at a time (default: cpus)"),
    "tmp-disk": ("tmp_disk", fields.mib, "MIB", "temporary disk to count tasks against (default: the size of /tmp)"),
}
KEYS = {**{key: read for key, read, *_ in VALUES.values()}, "schedulable": fields.yes}
_OPTION_OF = {option.replace("-", "_"): key for option, (key, *_) in VALUES.items()}


def is_key(word: str) -> bool:
    """Is it a key of an entry, as `change` takes it?"""
    plain = word.replace("-", "_")
    return plain in KEYS or plain in _OPTION_OF or (word.startswith("label.") and word != "label.")


def change(text: str) -> tuple[str, Any]:
    """KEY=VALUE as a key of the registry and its value, None where VALUE is empty. A label is `label.ROOM=2`, which
    gives the key `label.ROOM`. Raises ArgumentTypeError."""
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals:
        raise wrong(f"{text!r} is not KEY=VALUE")
    if key.startswith("label.") and key != "label.":
        return key, value or None
    plain = key.replace("-", "_")
    plain = _OPTION_OF.get(plain, plain)
    if plain == "name":
        raise wrong("a node keeps its name, tasks go by it: add another node and remove this one")
    if plain not in KEYS:
        from client.cli.arguments import nearest

        meant = nearest.key(key, {*KEYS, *VALUES})
        raise wrong(f"there is no key {key!r}{meant}; there are {', '.join(KEYS)}, label.NAME")
    return plain, KEYS[plain](value) if value else None


def spread(values: list[Any], count: int | None) -> list[Any]:
    """A single model or size stands for all GPUs."""
    return values * count if len(values) == 1 and count else values
