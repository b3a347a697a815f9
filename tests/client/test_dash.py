"""`-` in the place of a file: stdin or stdout where that can be, else a sentence; never a file of that name."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.cli.main import main
from tests.cases import each_case
from tests.client.fake_master import FakeMaster, task
from tests.client.test_log_output import LOG, keep

ROOT = Path(__file__).parents[2]
AGENT = b"PK\x03\x04 the agent"


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMaster]:
    monkeypatch.delenv("MUSTER_MASTER", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))  # a lab that is made all the same is no known one
    with FakeMaster({}) as fake:
        monkeypatch.setenv("MUSTER_CONF", fake.conf(tmp_path))
        fake.verbs["task.show"] = lambda params: task(params["id"], "running", started_at=1.0)
        fake.verbs["node.archive"] = lambda _: {
            "content": base64.b64encode(AGENT).decode(), "version": "1", "sha256": "00",
        }  # fmt: skip
        keep(fake, LOG)
        yield fake


def muster(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "muster", *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip


@pytest.mark.usefixtures("master")
def test_what_is_written_goes_to_stdout() -> None:
    for words in (("logs", "7", "-o", "-"), ("logs", "7", "-f", "--output", "-"), ("logs", "7", "--output=-")):
        done = muster(*words)
        assert (done.returncode, done.stdout, done.stderr) == (0, LOG, b""), words
    done = muster("node", "token", "far", "--write", "-")
    assert (done.returncode, done.stdout, done.stderr) == (0, AGENT, b"")
    assert list(Path().iterdir()) == []


REFUSED = (
    ("submit --log - -- true", "--log", "muster logs"),
    ("run --log - -- true", "--log", "muster logs"),
    ("edit 7 log=-", "log", "muster logs"),
    ("init -", "DIR", "./-"),
    ("init --from -", "--from", "./-"),
    ("init --back -", "--back", "./-"),
    ("deploy -", "DIR", "./-"),
    ("files put - data", "put", "./-"),
    ("files get data/a -", "get", "./-"),
    ("node token far --write - --json", "--write", "--json"),
)


def test_what_cannot_be_a_stream_is_refused_in_a_sentence(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    master.verbs["task.submit"] = lambda _: {"id": 12}
    with each_case() as cases:
        for line, option, instead in REFUSED:
            with cases.case(line):
                try:
                    code = main(line.split())
                except SystemExit as left:
                    code = int(str(left.code))
                said = capsys.readouterr()
                assert (code in (1, 2), said.out) == (True, ""), said
                assert option in said.err, said.err
                assert instead in said.err, said.err
                assert not os.path.lexists("-")
    assert master.asked("task.submit") == []
