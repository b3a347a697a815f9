"""What is installed: the package that people import, and every library that it needs."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest
from setuptools import find_packages  # type: ignore[import-untyped]

import muster
from client import shapes
from tests.cases import each_case
from tests.client.fake_master import FakeMaster, task
from tests.trees import nodes
from wire import errors
from wire.version import VERSION

ROOT = Path(__file__).parents[1]
PACKAGES = ("muster", "client", "master", "monitor", "web", "wire")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OPTIONAL = {"pynvml", "GPUtil"}
"""What the agent uses of a node's own Python where it is there."""


@pytest.mark.real
def test_what_people_import_is_one_package(tmp_path: Path) -> None:
    script = (
        "import muster; lab = muster.connect('conf.json'); print(lab.submit(['true'])); print(lab.show(7)['state'])"
    )
    verbs = {"task.submit": lambda _: {"id": 7}, "task.show": lambda _: task(7, "succeeded")}
    with FakeMaster(verbs) as master:
        master.conf(tmp_path)
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert (done.stdout, done.stderr) == ("7\nsucceeded\n", "")


@pytest.mark.real
def test_it_says_of_itself_the_version_that_is_installed() -> None:
    assert version("muster") == PROJECT["project"]["version"] == VERSION
    muster_ = [sys.executable, "-c", "import sys; from client.cli.begin import main; sys.exit(main())", "--version"]
    assert subprocess.run(muster_, capture_output=True, text=True, check=True).stdout == f"muster {VERSION}\n"


def test_it_hands_on_every_error_that_a_client_is_told() -> None:
    at_its_start = {"protocol", "unknown_method", "store_corrupt", "store_changed", "locked"}
    ours = {one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.MusterError)}
    assert {one.__name__ for one in ours if one.code not in at_its_start} <= set(muster.__all__)
    assert [name for name in muster.__all__ if not hasattr(muster, name)] == []


def test_it_hands_on_every_shape_of_what_the_api_gives() -> None:
    ours = {name for name, one in vars(shapes).items() if isinstance(one, type) and one.__module__ == shapes.__name__}
    assert ours <= set(muster.__all__)


def test_no_document_shows_people_another_import() -> None:
    other = re.compile(r"^(?:import|from) (?:client|master|monitor|wire)\b", re.MULTILINE)
    with each_case() as cases:
        for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
            with cases.case(document.name):
                assert other.findall(document.read_text("utf-8")) == []


@pytest.mark.real
def test_the_module_is_the_command_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "muster", "completion", "bash", "--json"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    assert json.loads(done.stdout)["shell"] == "bash"


def test_the_packages_that_are_installed_are_those_that_there_are() -> None:
    found = find_packages(str(ROOT), include=PROJECT["tool"]["setuptools"]["packages"]["find"]["include"])
    assert {name.partition(".")[0] for name in found} == set(PACKAGES)
    assert all((ROOT / name / "py.typed").exists() for name in ("muster", "client", "wire"))


def test_every_file_that_is_no_source_is_installed_too() -> None:
    data = PROJECT["tool"]["setuptools"]["package-data"]
    installed = {path for name in data if name != "*" for glob in data[name] for path in _package(name).glob(glob)}
    there = {path for name in PACKAGES for path in _package(name).rglob("*") if path.is_file()}
    kept = {path for path in there if path.suffix not in {".py", ".pyc"} and path.name not in data["*"]}
    assert {str(path.relative_to(ROOT)) for path in kept - installed} == set()
    assert ROOT / "wire" / "openapi.json" in installed


def _package(name: str) -> Path:
    return ROOT.joinpath(*name.split("."))


def test_every_library_that_is_imported_is_declared_with_a_lower_bound() -> None:
    declared = {re.split(r"[<>=~\[;! ]", line)[0].lower(): line for line in PROJECT["project"]["dependencies"]}
    assert all(">=" in line for line in declared.values())
    distributions = packages_distributions()
    missing = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for name in _imported(path) - set(sys.stdlib_module_names) - set(PACKAGES) - OPTIONAL:
                if not {one.lower() for one in distributions.get(name, [name])} & declared.keys():
                    missing.add(f"{path.relative_to(ROOT)}: {name}")
    assert missing == set()


def _imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found
