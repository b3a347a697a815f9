"""The rooms of the client stand one on the other: what each may import, no circle between any two files, and where a
command goes."""

from __future__ import annotations

from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from client.cli.commands import COMMANDS, alloc, groups, node, tokens, users
from tests.test_imports import imports, is_one_of, told
from tests.trees import ROOT, sources

API = "client"
"""The files right in client/: the Python API."""
MAY_IMPORT = {
    API: {API},
    "text": {"client.states", "client.shapes"},
    "live": {API},
    "top": {API, "text", "live"},
    "cli": {API, "text", "live", "top"},
}
"""From the lowest to the highest, the room itself left out. Nothing of `live` draws, nothing of `text` asks."""
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in sources("client")
}


def module_of(name: str, modules: Iterable[str]) -> str:
    """Of the full name of what is imported, the module that it lies in."""
    while name not in modules:
        name = name.rpartition(".")[0]
    return name


def room_of(module: str) -> str:
    """`client.text.table` is in `text`, `client.api` in the API."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in MAY_IMPORT else API


def may(room: str, module: str) -> bool:
    allowed = MAY_IMPORT[room] | {room}
    return room_of(module) in allowed or is_one_of(module, allowed - {API})


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_each_room_imports_only_those_below_it(room: str) -> None:
    breaches = [
        told(path, line, name)
        for module, path in MODULES.items()
        if room_of(module) == room
        for line, name in imports(path)
        if name.startswith("client.") and not may(room, module_of(name, MODULES))
    ]
    assert breaches == []


def test_no_file_of_the_client_comes_back_to_itself_over_what_it_imports() -> None:
    uses = {
        module: {module_of(name, MODULES) for _, name in imports(path) if name.startswith("client.")} - {module}
        for module, path in MODULES.items()
    }
    order = list(TopologicalSorter(uses).static_order())
    assert set(order) == set(MODULES)


def test_nobody_imports_a_command_but_its_own_family() -> None:
    def family(module: str) -> list[str]:
        return module.split(".")[3:4] if module.startswith("client.cli.commands.") else []

    breaches = [
        told(path, line, name)
        for module, path in MODULES.items()
        for line, name in imports(path)
        if name.startswith("client.") and family(module_of(name, MODULES)) not in ([], family(module))
        if module != "client.cli.commands.node.list"  # it is `nodes` by another name
    ]
    assert breaches == []


def test_what_begins_is_imported_by_nothing_that_it_runs() -> None:
    breaches = [
        told(path, line, name)
        for module, path in MODULES.items()
        for line, name in imports(path)
        if is_one_of(name, {"client.cli.main", "client.cli.begin"}) and module != "client.cli.begin"
    ]
    assert breaches == []


def test_each_file_among_the_commands_is_a_command() -> None:
    def found(folder: str) -> set[str]:
        return {path.stem for path in (ROOT / folder).iterdir() if not path.name.startswith("__")}

    assert found("client/cli/commands") == set(COMMANDS)
    for family in (alloc, groups, node, tokens, users):
        assert found(f"client/cli/commands/{family.__name__.rpartition('.')[2]}") == set(family.ACTIONS)


def test_an_arrow_up_and_a_circle_would_be_seen(tmp_path: Path) -> None:
    assert not may("text", "client.top.rows")
    assert not may("text", "client.session")
    assert not may("live", "client.text.table")
    assert not may("top", "client.cli.screen.terminal")
    assert may("text", "client.states")
    assert may("cli", "client.live.once")
    path = tmp_path / "client" / "files.py"
    path.parent.mkdir()
    path.write_text("def f():\n    from client.api import Client\n", encoding="utf-8")
    assert [name for _, name in imports(path, tmp_path)] == ["client.api.Client"]
    with pytest.raises(CycleError):
        TopologicalSorter({"client.files": {"client.api"}, "client.api": {"client.files"}}).prepare()
