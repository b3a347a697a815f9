"""What a node says of the shared folders, asked with the real shell."""

from __future__ import annotations

import subprocess
from pathlib import Path

from master.watchers.shared_folders import fault, question
from wire.agent import Probed
from wire.message import Message


def asked(folders: list[str]) -> Probed:
    done = subprocess.run(question(folders), capture_output=True, text=True, check=False)
    return answer(done.stdout, done.returncode)


def answer(output: str, code: int | None = 0, error: str = "") -> Probed:
    return Probed(op="probed", probe_id="q1", code=code, output=output, truncated=False, error=error)


def test_folders_that_are_there_are_no_fault_whatever_they_are_called(tmp_path: Path) -> None:
    folders = [tmp_path / "data", tmp_path / "环境 mit 'Anführung' $(id) *"]
    for folder in folders:
        folder.mkdir()
    assert fault([str(folder) for folder in folders], asked([str(folder) for folder in folders])) is None


def test_a_missing_folder_and_a_file_in_its_place_are_named_with_the_cure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("gone", "file"):
        folders = [str(tmp_path), str(tmp_path / name)]
        assert fault(folders, asked(folders)) == Message("folder_missing", folder=str(tmp_path / name))


def test_a_hung_mount_and_an_answer_that_is_none_are_faults() -> None:
    late = "timed out after 10 s"
    assert fault(["/data"], answer("", None, late)) == Message("folders_hang", said=late, folders=("/data",))
    assert fault(["/data"], answer("sh: not found", 127)) == Message("folders_unreadable", said="sh: not found")
    assert fault(["/data", "/envs"], answer("ok")) == Message("folders_unreadable", said="ok")
