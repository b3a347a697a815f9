"""Parameters with which each verb of the table may be called."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from master.verbs.table import VERBS

RIGHT: dict[str, Any] = {
    "id": 1, "command": "true", "commands": ["true"], "position": 1, "changes": {"name": "x"}, "name": "a",
    "node": {"name": "b", "driver": "local", "gpu_count": 0}, "path": "data/x", "from": "data/x", "to": "data/y",
    "kind": "folder", "content": "", "size": 1, "offset": 0, "upload": "0123456789abcdef", "env": "base",
    "pattern": "secret", "password": "gull kettle 七 orchard", "token": "mst_1_x", "link": "x", "value": 1,
    "text": "[]", "version": "x", "launch_id": "1.1.x",
}  # fmt: skip
OF_FILES = {"name": "registry"}
"""What `name` is where it says which of the master's own files is meant."""


def required(verb: str) -> dict[str, Any]:
    """What the verb cannot do without, right."""
    right = RIGHT | (OF_FILES if verb.startswith("conf.") else {})
    return {name: right[name] for name in _required(VERBS[verb].params)}


@cache
def _required(params: type[msgspec.Struct]) -> tuple[str, ...]:
    """Asked for each of thousands of calls; msgspec compiles the annotations each time."""
    return tuple(field.encode_name for field in msgspec.structs.fields(params) if field.required)


def names_a_task(verb: str) -> bool:
    """Can it be said which task is meant?"""
    return not {"id", "ids"}.isdisjoint(VERBS[verb].params.__struct_fields__)
