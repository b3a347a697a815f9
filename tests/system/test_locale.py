"""A lab in a folder with a Chinese name, where the locale of the machine is of another encoding than UTF-8."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.system.lab import ROOT, Lab
from tests.waiting import until


@pytest.fixture
def _gbk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The locale that many Chinese machines had."""
    made = ["localedef", "--inputfile=zh_CN", "--charmap=GBK", str(tmp_path / "zh_CN.gbk")]
    subprocess.run(made, check=False, capture_output=True, timeout=60)  # it warns of what GBK lacks
    monkeypatch.setenv("LOCPATH", str(tmp_path))
    monkeypatch.setenv("LC_ALL", "zh_CN.gbk")


@pytest.mark.usefixtures("_gbk")
def test_folders_with_chinese_names_are_found_and_made_by_their_names(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "实验室", nodes=1)
    lab.start()
    try:
        work = lab.folder / "数据"
        work.mkdir()
        with lab.client() as client:
            task_id = client.submit(["sh", "-c", "pwd > 结果"], cwd=str(work))
            until("it ends", lambda: client.show(task_id)["state"] == "succeeded")
        assert (work / "结果").read_text(encoding="utf-8") == f"{work}\n"
        assert (lab.folder / "train_logs" / f"{task_id}.log").exists()
        assert [path.name for path in tmp_path.iterdir() if path.name != "zh_CN.gbk"] == ["实验室"]
        said = subprocess.run(
            [sys.executable, "-m", "muster", "submit", "--", "true"],
            cwd=work, env={**lab.environment(), "PYTHONPATH": str(ROOT)}, capture_output=True, check=False,
        )  # fmt: skip
        assert (said.returncode, said.stderr) == (0, b"")
        with lab.client() as client:
            assert client.show(int(said.stdout))["cwd"] == str(work)
    finally:
        assert lab.close() == []
