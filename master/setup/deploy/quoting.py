"""How a path or a text is written in each of the formats that the system reads. Pure; each function names its format.

No path with a control character, a backslash, or a blank at its end comes here (`lab` refuses them): several of these
formats cannot express them, and systemd reads a backslash in different ways in different versions.
"""

from __future__ import annotations

import json
import re
import shlex

_SAMBA_VARIABLE = re.compile(r"%[a-zA-Z$(]")
_SAMBA_FORBIDDEN = re.compile(r'[%<>*?|/\\+=;:",\[\]]')
SHARE_NAME_LENGTH = 80
"""Characters that Windows takes in the name of a share."""
_SAMBA_SECTIONS = ("global", "homes", "printers", "print$", "ipc$")


def octal(text: str, also: str = "") -> str:
    """Quote a field of fstab: blanks and `#` as octal numbers. `also`: further characters that are written so."""
    return "".join(f"\\{ord(char):03o}" if char in " \t\\#" + also else char for char in text)


def export_path(text: str) -> str:
    """A path in /etc/exports, where quotes mean something too."""
    return octal(text, '"')


def host(address: str) -> str:
    """An address before a colon: that of IPv6 in brackets."""
    return f"[{address}]" if ":" in address else address


def unit_text(text: str) -> str:
    """A value of a systemd unit that is taken whole, such as WorkingDirectory=."""
    return text.replace("%", "%%")


def unit_paths(paths: list[str]) -> str:
    """A value of a systemd unit that is a list of paths, such as RequiresMountsFor=."""
    return " ".join(shlex.quote(unit_text(path)) for path in paths)


def unit_command(words: list[str]) -> str:
    """ExecStart=. The colon in front: `$` in it is a character like any other."""
    quoted = [_exec_word(word) for word in words]
    return ":" + " ".join(quoted)


def yaml(text: str) -> str:
    """A string in a compose file: JSON is YAML, and compose puts variables in where it sees a `$`."""
    return json.dumps(text.replace("$", "$$"), ensure_ascii=False)


def share_name(folder: str, taken: set[str]) -> str:
    """Return the name of a folder as a Samba share: close to its own name, and different from those `taken` (in lower
    case, as Windows sees them), to which it is added.
    """
    plain = _SAMBA_FORBIDDEN.sub("-", folder).strip(" -.$") or "folder"
    plain = f"{plain}-folder" if plain.lower() in _SAMBA_SECTIONS else plain
    plain = plain[: SHARE_NAME_LENGTH - 3]
    name, number = plain, 1
    while name.lower() in taken:
        number += 1
        name = f"{plain}-{number}"
    taken.add(name.lower())
    return name


def samba_can_say(path: str) -> bool:
    """Whether smb.conf can hold this path: `%` and a letter is a variable there, and cannot be escaped."""
    return not _SAMBA_VARIABLE.search(path)


def code(text: str) -> str:
    """A piece of code in Markdown."""
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}"


def _exec_word(word: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9/_.,:=@+-]+", word):
        return word
    return '"' + unit_text(word).replace("\\", "\\\\").replace('"', '\\"') + '"'
