"""What container/compose.yaml says, read as Docker and Podman do: with the values of .env, as options of `run`.

Owns the reading; a key that is not known here is an error, so that nothing in the file stays untried.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.system.lab import ROOT

FOLDER = ROOT / "container"
_VALUE = re.compile(r"\$\{(\w+):\?[^}]*\}")
_ELSEWHERE = {"image", "command", "build", "depends_on", "healthcheck", "init", "restart", "stop_grace_period"}
"""Keys that are no options here: what is run, by which image, when, and what the engine itself does."""


def composed(values: Mapping[str, str]) -> dict[str, Any]:
    """The file with these values."""
    text = (FOLDER / "compose.yaml").read_text(encoding="utf-8")
    read: dict[str, Any] = yaml.safe_load(_VALUE.sub(lambda found: values[found[1]], text))
    return read


def asked_for() -> set[str]:
    """The names of the values that it needs."""
    return set(_VALUE.findall((FOLDER / "compose.yaml").read_text(encoding="utf-8")))


def options(service: Mapping[str, Any], instead: Mapping[str, Path]) -> list[str]:
    """The options of `run` for a service. `instead`: other files of this machine than the named ones."""
    words: list[str] = []
    for key, value in service.items():
        words += [] if key in _ELSEWHERE else _option(key, value, instead)
    return words


def _option(key: str, value: Any, instead: Mapping[str, Path]) -> list[str]:
    match key:
        case "user":
            return ["--user", value]
        case "network_mode":
            return ["--network", value]
        case "read_only":
            return ["--read-only"] if value else []
        case "tmpfs" | "cap_drop" | "security_opt":
            return [word for one in value for word in (f"--{key.replace('_', '-')}", one)]
        case "environment":
            return [word for name, one in value.items() for word in ("--env", f"{name}={one}")]
        case "volumes":
            return [word for one in value for word in ("--volume", _volume(one, instead))]
    raise ValueError(f"{key}: not known here")


def _volume(one: str, instead: Mapping[str, Path]) -> str:
    here, _, rest = one.partition(":")
    return f"{instead.get(here, here)}:{rest}"


def copied() -> list[str]:
    """What Containerfile takes out of the repository."""
    text = (FOLDER / "Containerfile").read_text(encoding="utf-8")
    lines = re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE)
    return [source for line in lines for source in line.split()[:-1]]
