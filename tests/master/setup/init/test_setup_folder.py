"""`muster init`: what it writes loads, fits the machine, and never overwrites."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from master.config.config import load_config
from master.nodes.registry import load_registry
from master.setup.init.setup_folder import init, probe_gpus
from tests.faults import fault_in, refusing
from wire.errors import ConflictError
from wire.message import Message


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH of its own; a test puts its nvidia-smi there."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def fake_nvidia_smi(programs: Path, script: str) -> None:
    path = programs / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def test_what_it_writes_loads(tmp_path: Path, programs: Path) -> None:
    assert not list(programs.iterdir())
    written = init(tmp_path / "new" / "lab")
    assert sorted(path.name for path in written) == ["conf.json", "gpu_slaver_info.json"]
    config = load_config(tmp_path / "new" / "lab" / "conf.json")
    (node,) = load_registry(config.registry)
    assert (node.name, node.driver, node.gpu_count, node.gpu_probe) == ("local", "local", 0, "declared")
    assert sorted(path.name for path in config.folder.iterdir()) == ["conf.json", "gpu_slaver_info.json"]


def test_the_gpus_that_nvidia_smi_lists_are_in_the_registry(tmp_path: Path, programs: Path) -> None:
    fake_nvidia_smi(programs, "echo 'NVIDIA GeForce RTX 3090, 24576'; echo 'NVIDIA H100, 80GB, [N/A]'")
    init(tmp_path / "lab")
    (node,) = load_registry(tmp_path / "lab" / "gpu_slaver_info.json")
    assert node.gpu_models == ("NVIDIA GeForce RTX 3090", "NVIDIA H100, 80GB")
    assert node.gpu_memory is None
    assert node.gpu_probe == "auto"


def test_memory_is_written_where_the_driver_knows_it_of_each_gpu(tmp_path: Path, programs: Path) -> None:
    fake_nvidia_smi(programs, "echo 'A100, 40960'; echo 'A100, 40960'")
    init(tmp_path / "lab")
    (node,) = load_registry(tmp_path / "lab" / "gpu_slaver_info.json")
    assert node.gpu_memory == (40960, 40960)


@pytest.mark.parametrize("script", ["echo 'no devices were found' >&2; exit 6", "exit 0", "echo"])
def test_a_driver_without_gpus_means_none(programs: Path, script: str) -> None:
    fake_nvidia_smi(programs, script)
    assert probe_gpus() == []


def test_a_hung_driver_does_not_hang_the_set_up(programs: Path) -> None:
    fake_nvidia_smi(programs, "exec /bin/sleep 600")
    assert probe_gpus(timeout_s=0.2) == []


@pytest.mark.parametrize("name", ["conf.json", "gpu_slaver_info.json"])
def test_what_is_there_is_left_as_it_is(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine", encoding="utf-8")
    with refusing(ConflictError, "setup_exists", files=(str(tmp_path / name),)):
        init(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text(encoding="utf-8") == "mine"


def test_force_writes_anew_and_leaves_nothing_beside(tmp_path: Path) -> None:
    (tmp_path / "conf.json").write_text("old", encoding="utf-8")
    init(tmp_path, force=True)
    assert json.loads((tmp_path / "conf.json").read_text(encoding="utf-8"))["socket_info"]["data_port"] == 63005
    assert sorted(path.name for path in tmp_path.iterdir()) == ["conf.json", "gpu_slaver_info.json"]


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    folder, said = tmp_path / "file" / "lab", Message("file_unwritable", detail=os.strerror(errno.ENOTDIR))
    assert fault_in(folder, lambda: init(folder)) == said
