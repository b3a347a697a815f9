"""`python -m master`: one line and a status for what it refuses."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from master.command_line import main
from tests.conftest import LabMaker


@pytest.fixture(autouse=True)
def _the_log_is_put_back() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    for handler in root.handlers[:]:
        if handler not in before:
            root.removeHandler(handler)
            handler.close()
    root.setLevel(level)


def test_a_mistake_is_one_line_on_stderr_and_status_1(make_lab: LabMaker, capsys: pytest.CaptureFixture[str]) -> None:
    conf = make_lab(nonsense=1)
    assert main(["--conf", str(conf)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith(f"error: config: {conf}: ")


def test_a_conf_json_that_merely_lies_there_is_not_obeyed(
    make_lab: LabMaker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = make_lab()
    monkeypatch.chdir(conf.parent)
    for words in ([], ["deploy", "units"], ["shell", "a"]):
        assert main(words) == 1
        assert capsys.readouterr().err.startswith("error: config: no configuration is named: --conf FILE")
    assert sorted(path.name for path in conf.parent.iterdir() if path.name in {"task_info", "units"}) == []


def test_wrong_usage_has_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--nonsense"])
    assert caught.value.code == 2
    assert "--nonsense" in capsys.readouterr().err


def test_init_writes_a_lab_and_never_over_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "实验室"
    assert main(["init", str(folder)]) == 0
    paths = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert folder / "conf.json" in paths
    before = (folder / "conf.json").read_bytes()
    assert json.loads(before)["socket_info"]
    assert main(["init", str(folder)]) == 1
    assert capsys.readouterr().err.startswith("error: ")
    assert (folder / "conf.json").read_bytes() == before
    assert main(["init", "--force", str(folder)]) == 0
