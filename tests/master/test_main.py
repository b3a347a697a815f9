"""`python -m master`: one line and a status for what it refuses."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from master.command_line import main
from tests.conftest import LabMaker
from wire.message import Message

ROOT = Path(__file__).parents[2]
NOT_WAITED_FOR = (
    "argparse", "ctypes", "cryptography", "dataclasses", "logging.handlers", "paramiko", "pickle",
    "master.files.log_reader", "master.files.log_file",
    "master.files.jail", "master.helpers.program", "master.people.directory", "master.people.ldap",
    "master.verbs.tables",
)  # fmt: skip


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
        assert capsys.readouterr().err == f"error: config: {Message('no_conf_named')}\n"
    assert sorted(path.name for path in conf.parent.iterdir() if path.name in {"task_info", "units"}) == []


def test_wrong_usage_has_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--nonsense"])
    assert caught.value.code == 2
    assert "--nonsense" in capsys.readouterr().err


@pytest.mark.real
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


def test_what_only_serves_is_told_apart_and_all_else_is_parsed_as_ever(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--conf", "conf.json", "nonsense"])
    assert caught.value.code == 2
    assert "invalid choice: 'nonsense'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["--conf", "conf.json", "--help"])
    assert "deploy" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        main(["--accept-edits", "--conf"])
    assert caught.value.code == 2
    assert "--conf: expected one argument" in capsys.readouterr().err
    with pytest.raises(SystemExit) as caught:
        main(["--conf", "--accept-edits"])
    assert caught.value.code == 2
    assert "--conf: expected one argument" in capsys.readouterr().err


@pytest.mark.real
def test_a_start_loads_no_sentences() -> None:
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import master.app; print('wire.english' in sys.modules)"
    said = subprocess.run([sys.executable, "-I", "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert said.stdout.split() == ["False"]


@pytest.mark.real
def test_whoever_restarts_a_master_does_not_wait_for_what_is_loaded_soon_after_or_never(make_lab: LabMaker) -> None:
    """All that `main` imports to serve is loaded when it is refused, for the configuration is read behind it."""
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from master.command_line import main; "
        f"done = main(['--conf', {str(make_lab(nonsense=1))!r}]); "
        f"print(done, 'master.app' in sys.modules, *(name for name in {NOT_WAITED_FOR!r} if name in sys.modules))"
    )
    said = subprocess.run([sys.executable, "-I", "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert said.stdout.split() == ["1", "True"]


@pytest.mark.real
def test_a_master_looks_for_no_garbage_while_it_loads_and_takes_nothing_apart_when_it_ends(make_lab: LabMaker) -> None:
    script = (
        f"import gc, os, runpy, sys; sys.path.insert(0, {str(ROOT)!r}); "
        f"sys.argv = ['master', '--conf', {str(make_lab(nonsense=1))!r}]\nlooked = []\n"
        "gc.callbacks.append(lambda phase, _: looked.append(phase) if 'wire.errors' in sys.modules else None)\n"
        "os._exit = lambda code: sys.exit(print(code, 'master.app' in sys.modules, looked))\n"
        "runpy.run_module('master', run_name='__main__')"
    )
    said = subprocess.run([sys.executable, "-I", "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert said.stdout.split() == ["1", "True", "[]"]
