"""Who may import whom, read from the sources: imports go one way, and the core knows neither disk, net nor clock."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.trees import ROOT, nodes, sources

PACKAGES = ("master", "client", "monitor", "web", "wire")
MAY_IMPORT = {
    "master": {"master", "wire"},
    "client": {"client", "wire"},
    "monitor": {"monitor", "wire"},
    "web": {"web", "wire"},
    "wire": {"wire"},
}

PURE = (
    "config/settings.py", "core", "doctor/finding.py", "edited_files/mismatch.py", "executors/memory.py",
    "executors/simulation.py", "watchers/free_gpus.py", "watchers/shared_folders.py",
)  # fmt: skip
"""Beneath `master`."""
PURE_MAY_IMPORT = {
    "__future__", "abc", "array", "bisect", "collections", "copy", "dataclasses", "difflib", "enum", "functools",
    "heapq", "itertools", "json", "math", "msgspec", "operator", "re", "shlex", "types", "typing", "wire.agent",
    "wire.errors", "wire.message", "wire.numbers", "wire.pattern", "wire.ranges",
}  # fmt: skip
NODE_FILES = ("monitor/agent", "wire/account.py", "wire/framing.py", "wire/agent.py", "wire/pinning.py")
NODE_MAY_IMPORT = set(sys.stdlib_module_names) - {"asyncio", "multiprocessing", "distutils", "tomllib", "zoneinfo"}


@cache
def imports(path: Path, root: Path = ROOT) -> list[tuple[int, str]]:
    """Line and full name of whatever the file imports, wherever in it; `from . import x` as the name it means."""
    return list(imports_of(nodes(path), path.relative_to(root)))


def imports_of(found: Iterable[ast.AST], path: Path) -> Iterator[tuple[int, str]]:
    """The same of the nodes of the file at `path` beneath the root."""
    parts = path.with_suffix("").parts
    for node in found:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = list(parts[: len(parts) - node.level]) if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def told(path: Path, line: int, name: str) -> str:
    return f"{path.relative_to(ROOT)}:{line} imports {name}"


def is_one_of(name: str, allowed: set[str]) -> bool:
    """Is the name, or a module that it lies in, allowed?"""
    parts = name.split(".")
    return any(".".join(parts[:length]) in allowed for length in range(1, len(parts) + 1))


def muster_uses_client_api(path: Path, name: str) -> bool:
    """The writer of samples is a client of the master like any other: the one exception that the design names."""
    return path == ROOT / "monitor" / "influx_follower.py" and name.startswith("client.api")


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_between_our_packages_go_one_way(package: str) -> None:
    forbidden = set(PACKAGES) - MAY_IMPORT[package]
    breaches = [
        told(path, line, name)
        for path in sources(package)
        for line, name in imports(path)
        if name.split(".")[0] in forbidden and not muster_uses_client_api(path, name)
    ]
    assert breaches == []


@pytest.mark.parametrize("package", PACKAGES)
def test_the_product_imports_neither_tests_nor_the_demo_nor_the_benchmarks(package: str) -> None:
    breaches = [
        told(path, line, name)
        for path in sources(package)
        for line, name in imports(path)
        if name.split(".")[0] in {"tests", "demo", "bench", "hypothesis", "pytest"}
    ]
    assert breaches == []


def test_a_pure_module_imports_no_io_no_clock_and_no_asyncio() -> None:
    allowed = PURE_MAY_IMPORT | {"master." + name.removesuffix(".py").replace("/", ".") for name in PURE}
    beneath = {name: sources(f"master/{name}") for name in PURE}
    assert [name for name, paths in beneath.items() if not paths] == []
    breaches = [
        told(path, line, name)
        for paths in beneath.values()
        for path in paths
        for line, name in imports(path)
        if not is_one_of(name, allowed)
    ]
    assert breaches == []


@pytest.mark.parametrize("package", ["master", "monitor.agent"])
def test_packages_stand_one_on_the_other(package: str) -> None:
    """No package in these, nor a file beside them, comes back to itself over what it imports."""
    folder, depth = ROOT / package.replace(".", "/"), len(package.split("."))
    uses: dict[str, set[str]] = {}
    for path in sources(str(folder)):
        ours = path.relative_to(folder).parts[0].removesuffix(".py")
        theirs = {name.split(".")[depth] for _, name in imports(path) if name.startswith(f"{package}.")}
        uses.setdefault(ours, set()).update(theirs - {ours})
    circles = TopologicalSorter({name: used & uses.keys() for name, used in uses.items()})
    assert list(circles.static_order())[-1] == "__main__"


def loads(path: Path, root: Path = ROOT) -> Iterator[str]:
    """What the file imports when it runs, wherever in it: all but what only types are taken from."""
    apart = {
        id(one)
        for node in nodes(path)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
        for one in ast.walk(statement)
    }
    for _, name in imports_of((node for node in nodes(path) if id(node) not in apart), path.relative_to(root)):
        yield name


@pytest.mark.parametrize("package", PACKAGES)
def test_no_file_comes_back_to_itself(package: str) -> None:
    """Over what it loads. Two files may know each other's types where one of them stands for the other."""
    files = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in sources(package)}
    uses = {
        name: {found for one in loads(path) for found in (one, one.rpartition(".")[0]) if found in files} - {name}
        for name, path in files.items()
    }
    TopologicalSorter(uses).prepare()


def storeys() -> dict[str, int]:
    """The tower as docs/ARCHITECTURE.md draws it: of each room the line that it stands in, from above."""
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    [drawn] = [block for block in text.split("```")[1::2] if block.lstrip().startswith("app ")]
    return {name: line for line, names in enumerate(drawn.strip().splitlines()) for name in names.split()}


def test_the_tower_is_as_it_is_drawn() -> None:
    drawn = storeys()
    rooms = {path.parent.name for path in (ROOT / "master").glob("*/__init__.py")}
    assert rooms <= drawn.keys()
    breaches = [
        told(path, line, name)
        for path in sources("master")
        for line, name in imports(path)
        if (here := path.relative_to(ROOT / "master").parts[0].removesuffix(".py")) in drawn
        and name.startswith("master.")
        and (there := name.split(".")[1]) in drawn
        and there != here
        and drawn[there] <= drawn[here]
    ]
    assert breaches == []


def test_settings_stand_at_the_foot_of_the_tower() -> None:
    """On what is common to all files that people write, and on no room of the house."""
    found = {name.split(".")[1] for path in sources("master/config") for _, name in imports(path) if "master." in name}
    assert found == {"config", "edited_files"}


@pytest.mark.parametrize("folder", ["verbs", "views", "ports", "desktop"])
def test_who_answers_clients_knows_no_driver_and_no_link(folder: str) -> None:
    """What is asked of them is named in `master.verbs.surroundings`."""
    beneath = {"master.drivers", *(f"master.nodes.{one}" for one in ("fleet", "link", "conversation", "connection"))}
    found = ((path, line, name) for path in sources(f"master/{folder}") for line, name in imports(path))
    assert [told(*one) for one in found if is_one_of(one[2], beneath)] == []


def test_nobody_calls_a_verb_but_through_the_door() -> None:
    opened = {"master/verbs/call.py", "master/verbs/documents.py"}
    breaches = [
        told(path, line, name)
        for path in sources("master")
        for line, name in imports(path)
        if name.startswith("master.verbs.table") and str(path.relative_to(ROOT)) not in opened
    ]
    assert breaches == []


def test_what_travels_to_the_nodes_needs_only_the_standard_library_of_python_3_8() -> None:
    allowed = NODE_MAY_IMPORT | {"monitor.agent", "wire.account", "wire.framing", "wire.agent", "wire.pinning"}
    breaches = [
        told(path, line, name)
        for folder in NODE_FILES
        for path in sources(folder)
        for line, name in imports(path)
        if not is_one_of(name, allowed)
    ]
    assert breaches == []


def test_no_package_of_ours_hides_one_of_the_standard_library() -> None:
    assert set(PACKAGES) & set(sys.stdlib_module_names) == set()


def test_a_breach_would_be_seen_wherever_it_stands(tmp_path: Path) -> None:
    (tmp_path / "master").mkdir()
    path = tmp_path / "master" / "core.py"
    path.write_text(
        "import time\nfrom . import ports\ndef f():\n    from client.api import connect\n", encoding="utf-8"
    )
    seen = imports(path, tmp_path)
    assert seen == [(1, "time"), (2, "master.ports"), (4, "client.api.connect")]
    assert not any(is_one_of(name, PURE_MAY_IMPORT) for _, name in seen)
    assert is_one_of("wire.errors.ConfigError", PURE_MAY_IMPORT)
