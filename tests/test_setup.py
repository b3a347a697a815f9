"""What `make` brings to a machine: who looks at a queue gets no server, who runs real machines is told first."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import rights

ROOT = Path(__file__).parent.parent
TOOLS = (
    "bash",
    "cat",
    "chmod",
    "cut",
    "dirname",
    "id",
    "make",
    "mktemp",
    "mount",
    "rm",
    "sh",
    "sha256sum",
    "sort",
    "tr",
)
IN_A_BARE_MACHINE = 'mount -t tmpfs tmpfs /usr/sbin; PATH=$1; cd "$2"; exec make --no-print-directory "$3"'
"""Nothing is on it but TOOLS; its /usr/sbin, where `apt-get install` is kept from starting servers, is the test's."""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The build of the repository; its environment is up to date, and the Python there only says how it is called."""
    clone = tmp_path / "clone"
    programs = clone / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, clone)
    shutil.copytree(ROOT / ".ci", clone / ".ci")
    (clone / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "as_root.sh", clone / "tests")
    for name in ("muster", "python", "ruff", "mypy", "vermin"):
        program(programs / name, f'echo "{name} $*" >>"{tmp_path}/called"')
    inputs = f"{clone}\n".encode() + b"".join((clone / name).read_bytes() for name in ("pyproject.toml", ".ci/setup"))
    (clone / ".venv" / ".muster-stamp").write_text(hashlib.sha256(inputs).hexdigest() + "\n", encoding="ascii")
    return clone


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A PATH with a package manager that writes down what it is asked for, and none of the programs of the tests."""
    bare = tmp_path / "bin"
    bare.mkdir()
    for name in TOOLS:
        (bare / name).symlink_to(shutil.which(name) or name)
    program(bare / "apt-get", f'echo "apt-get $*" >>"{tmp_path}/called"')
    return bare


def program(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)


def make(target: str, clone: Path, bare: Path) -> tuple[list[str], str]:
    """What `make target` as root called, in order, and what it said. It must have done well."""
    rights.need_root()
    inside = ["sh", "-euc", IN_A_BARE_MACHINE, "sh", str(bare), str(clone), target]
    env = {name: value for name, value in os.environ.items() if name != "CI"}
    done = subprocess.run(["unshare", "--mount", *inside], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    called = clone.parent / "called"
    return called.read_text(encoding="utf-8").splitlines() if called.exists() else [], done.stderr


@pytest.mark.parametrize("target", ["setup", "demo", "check", "bench"])
def test_who_wants_to_look_at_a_queue_gets_no_server(target: str, clone: Path, bare: Path) -> None:
    called, said = make(target, clone, bare)
    assert [line for line in called if line.startswith("apt-get")] == []
    assert "sshd" not in said
    assert "openssh" not in said


def installed(install: str) -> set[str]:
    """The packages of a call of `apt-get install`."""
    return {word for word in install.split()[1:] if not word.startswith("-")} - {"install"}


@pytest.mark.parametrize("target", ["programs", "test", "screenshots", "soak"])
def test_what_runs_real_machines_brings_their_programs_and_names_them_first(
    target: str, clone: Path, bare: Path
) -> None:
    called, said = make(target, clone, bare)
    [update, install] = [line for line in called if line.startswith("apt-get")]
    assert update.startswith("apt-get update")
    packages = installed(install)
    assert {"openssh-server", "samba", "influxdb", "chromium-headless-shell"} <= packages
    [announced] = [line for line in said.splitlines() if "now installing" in line]
    assert packages <= set(announced.rpartition(": ")[2].split())
    assert not any(line.startswith("python -m") for line in called[: called.index(install)])


@pytest.mark.parametrize(("target", "expected"), [("soak", {"podman", "catatonit"}), ("test", set())])
def test_what_runs_containers_is_brought_for_soak_alone(
    target: str, expected: set[str], clone: Path, bare: Path
) -> None:
    called, _ = make(target, clone, bare)
    packages = {package for line in called if line.startswith("apt-get install") for package in installed(line)}
    assert packages & {"podman", "catatonit"} == expected
