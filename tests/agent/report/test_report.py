"""What an agent that dials in decides by itself: what it remembers, and which archive it becomes."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from monitor.agent.folder import FolderError
from monitor.agent.report import command, lock
from monitor.agent.report.call import CallError, OutdatedError, RefusedError
from monitor.agent.report.reporter import BUSY, REFUSED, EndError, Reporter
from monitor.agent.report.settings import Settings, SettingsError
from monitor.agent.report.unit import agent_words, unit

HERE = "sha256:" + "a" * 64


def reporter(base: Path) -> Reporter:
    options = command._parser().parse_args(["--node", "far"])
    settings = Settings(str(base), "far")
    settings.point_to("host:1", HERE)
    return Reporter(options, settings, "0" * 16, str(base / "old.pyz"))


def offered(base: Path, source: str) -> OutdatedError:
    """An archive that was fetched already, and runs this."""
    data = source.encode()
    sha256 = hashlib.sha256(data).hexdigest()
    (base / f"agent-{sha256[:16]}.pyz").write_bytes(data)
    return OutdatedError("abcd", len(data), sha256)


BROKEN = {
    "it cannot be read": "this is no Python",
    "it ends with an error": "import sys; print('abcd'); sys.exit(1)",
    "it says another version": "print('efgh')",
}


@pytest.mark.real
@pytest.mark.parametrize("source", BROKEN.values(), ids=BROKEN)
def test_an_archive_that_does_not_run_here_is_not_become(
    tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    became: list[str] = []
    monkeypatch.setattr("monitor.agent.report.reporter.become", lambda archive, _options: became.append(archive))
    caller = reporter(tmp_path)
    caller._follow(offered(tmp_path, source))
    assert became == []
    assert caller._stays
    assert "does not run on this Python" in capfd.readouterr().err
    assert not (tmp_path / "muster-agent.pyz").exists()


@pytest.mark.real
def test_one_that_runs_is_become_and_kept_under_the_name_that_units_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    became: list[str] = []
    monkeypatch.setattr("monitor.agent.report.reporter.become", lambda archive, _options: became.append(archive))
    caller = reporter(tmp_path)
    wanted = offered(tmp_path, "print('abcd')")
    caller._follow(wanted)
    assert became == [str(tmp_path / f"agent-{wanted.sha256[:16]}.pyz")]
    assert (tmp_path / "muster-agent.pyz").read_text(encoding="ascii") == "print('abcd')"


@pytest.mark.parametrize(
    ("master", "place"),
    [("host:7", ("host", 7)), ("10.0.0.1:63005", ("10.0.0.1", 63005)), ("[::1]:7", ("::1", 7))],
)
def test_where_the_master_is(tmp_path: Path, master: str, place: Any) -> None:
    settings = Settings(str(tmp_path), "far")
    settings.point_to(master, HERE)
    assert settings.place == place


@pytest.mark.parametrize("master", ["host", "host:", ":7", "host:0", "host:70000", "host:seven", "host:²"])
def test_a_place_that_is_none_is_told(tmp_path: Path, master: str) -> None:
    with pytest.raises(SettingsError, match="is not HOST:PORT"):
        Settings(str(tmp_path), "far").point_to(master, HERE)


def test_what_was_said_once_is_remembered(tmp_path: Path) -> None:
    first = Settings(str(tmp_path), "机器/1")
    first.point_to("host:7", HERE)
    first.token = "a.b"  # noqa: S105  (it opens nothing)
    first.learned("", "c0ffee")
    again = Settings(str(tmp_path), "机器/1")
    again.point_to(None, None)
    assert (again.master, again.authority, again.token, again.cluster) == ("host:7", HERE, "a.b", "c0ffee")
    assert Path(again.path).parent == tmp_path


def test_the_state_is_the_labs_whatever_certificate_its_master_has(tmp_path: Path) -> None:
    settings = Settings(str(tmp_path), "far")
    settings.point_to("host:7", HERE)
    settings.learned("PEM", "c0ffee")
    folder = settings.folder
    settings.point_to("elsewhere:7", "SHA256:" + "B" * 64)
    assert settings.certificate == ""  # it is asked for again
    assert settings.folder == folder
    settings.learned("PEM", "another")
    assert settings.folder != folder


@pytest.mark.parametrize("cluster", ["", "../../etc", "a b", "é", "x" * 65])
def test_a_lab_without_a_usable_name_is_known_by_its_authority(tmp_path: Path, cluster: str) -> None:
    settings = Settings(str(tmp_path), "far")
    settings.point_to("host:7", HERE)
    settings.learned("PEM", cluster)
    assert settings.folder == str(tmp_path / "report-far-aaaaaaaa")


def test_a_certificate_that_is_not_the_pinned_one_is_not_used(tmp_path: Path) -> None:
    settings = Settings(str(tmp_path), "far")
    settings.point_to("host:7", HERE)
    for pem in ("", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "-----BEGIN CERTIFICATE-----\n!"):
        assert not settings.is_pinned(pem)
        settings.learned(pem, "c0ffee")
        assert Settings(str(tmp_path), "far").certificate == ""


@pytest.mark.parametrize("content", ["", "7", "{", json.dumps(["far"])])
def test_a_file_that_is_damaged_is_told_with_the_way_out(tmp_path: Path, content: str) -> None:
    path = tmp_path / "report-far.json"
    path.write_text(content, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(SettingsError, match="remove it and give the token again"):
        Settings(str(tmp_path), "far")


# -- calling again and again ----------------------------------------------------------------------------------


class Story:
    """What happens at each call, in turn: an error to raise, or how a conversation ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *turns: Any) -> None:
        self.turns = list(turns)
        self.calls = 0
        self.tokens: list[str] = []
        self.pauses: list[float] = []
        monkeypatch.setattr(Reporter, "_one_call", lambda caller: self.next(caller))  # noqa: PLW0108  (bound to a caller)
        monkeypatch.setattr("monitor.agent.report.reporter.time.sleep", self.pauses.append)

    def next(self, caller: Reporter) -> str:
        self.calls += 1
        assert self.calls < 20, "it goes on for ever"
        caller.settings = caller._remembered()
        self.tokens.append(caller.settings.token)
        turn = self.turns.pop(0) if self.turns else RefusedError("no", final=True)
        turn = turn() if callable(turn) else turn
        if isinstance(turn, Exception):
            raise turn
        return str(turn)


def ended(caller: Reporter) -> tuple[int, str]:
    with pytest.raises(EndError) as end:
        caller.run()
    return end.value.status, str(end.value)


def test_failures_are_counted_in_a_row_and_a_conversation_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no = CallError("nobody there")
    story = Story(monkeypatch, no, "the master closed the connection", "again", "and again", no, no)
    caller = reporter(tmp_path)
    caller._options.give_up_after = 2
    assert ended(caller) == (69, "given up after 2 failures")
    assert story.turns == []


def test_what_goes_wrong_here_is_told_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "agent-abcd.pyz")
    wrong = [full, SettingsError("it cannot be written"), FolderError("it belongs to another user")]
    story = Story(monkeypatch, *wrong)
    assert ended(reporter(tmp_path))[0] == 77
    said = capfd.readouterr().err
    assert "No space left" in said
    assert "cannot be written" in said
    assert "another user" in said
    assert story.pauses == sorted(story.pauses)


def test_a_token_that_was_given_meanwhile_counts_from_the_next_call_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def given(token: str) -> RefusedError:
        other = Settings(str(tmp_path), "far")
        other.point_to("host:1", HERE)
        other.token = token
        other.save()
        return RefusedError("no", final=True)

    story = Story(monkeypatch, lambda: given("new.one"))
    caller = reporter(tmp_path)
    caller.settings.save()
    assert ended(caller) == (77, REFUSED)
    assert story.tokens == ["", "new.one"]


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_text("{"), lambda path: path.chmod(0o644)])
def test_a_file_that_is_gone_or_spoilt_meanwhile_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Any
) -> None:
    caller = reporter(tmp_path)
    path = Path(caller.settings.path)
    story = Story(monkeypatch, "the master closed the connection", lambda: spoil(path), "again")
    caller.settings.token = "a.b"  # noqa: S105  (it opens nothing)
    caller.settings.save()
    assert ended(caller) == (77, REFUSED)
    assert story.tokens == ["a.b"] * 4


@pytest.mark.real
def test_who_was_begun_while_another_reports_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Story(monkeypatch)
    caller = reporter(tmp_path)
    script = f"import fcntl; f = open({caller.settings.lock!r}, 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(); input()"
    words = [sys.executable, "-uc", script]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert lock.is_taken(caller.settings.lock)
        assert ended(caller) == (75, BUSY)
    assert not lock.is_taken(caller.settings.lock)


@pytest.mark.real
@pytest.mark.parametrize("kind", ["user", "system"])
def test_systemd_reads_the_unit_without_a_word_and_runs_what_was_meant(tmp_path: Path, kind: str) -> None:
    base = tmp_path / "it's 100%h $HOME"
    base.mkdir()
    (base / "muster-agent.pyz").touch()
    words = agent_words(str(base / "muster-agent.pyz"), '机器 "1"', str(base))
    path = tmp_path / "muster-far.service"
    text = unit(kind, "机器 1 %h", words, (77, 78))
    path.write_text(text, encoding="utf-8")
    assert ("network-online" in text, "User=" in text) == (kind == "system", kind == "system")
    (tmp_path / "run").mkdir(mode=0o700)
    assert verified(path, kind) == ""
    dump = verified(path, kind, SYSTEMD_LOG_LEVEL="debug")
    line = next(line for line in dump.splitlines() if "Command Line: " in line)
    assert [word.replace(r"\$\$", "$") for word in shlex.split(line.partition(": ")[2])] == words


def verified(path: Path, kind: str, **keys: str) -> str:
    """What systemd says of a unit, on both streams."""
    with tempfile.TemporaryDirectory() as runtime:  # its sockets have long names, and no path more than 107 bytes
        done = subprocess.run(
            ["systemd-analyze", "verify", f"--{kind}", "--man=no", str(path)],
            env={**os.environ, "XDG_RUNTIME_DIR": runtime, "LC_ALL": "C.UTF-8", **keys},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout
    return done.stdout
