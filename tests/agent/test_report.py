"""What an agent that dials in decides by itself: what it remembers, and which archive it becomes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from monitor.agent import report
from monitor.agent.report import Reporter
from monitor.agent.report_call import OutdatedError
from monitor.agent.report_settings import Settings, SettingsError

HERE = "sha256:" + "a" * 64


def reporter(base: Path) -> Reporter:
    options = report._parser().parse_args(["--node", "far"])
    settings = Settings(str(base), "far")
    settings.point_to("host:1", HERE)
    return Reporter(options, settings, "0" * 16, str(base / "old.pyz"))


def offered(base: Path, source: str) -> OutdatedError:
    """An archive that was fetched already, and runs this."""
    data = source.encode()
    (base / "agent-abcd.pyz").write_bytes(data)
    return OutdatedError("abcd", len(data), hashlib.sha256(data).hexdigest())


BROKEN = {
    "it cannot be read": "this is no Python",
    "it ends with an error": "import sys; print('abcd'); sys.exit(1)",
    "it says another version": "print('efgh')",
}


@pytest.mark.parametrize("source", BROKEN.values(), ids=BROKEN)
def test_an_archive_that_does_not_run_here_is_not_become(
    tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    became: list[str] = []
    monkeypatch.setattr(report, "_become", lambda archive, _options: became.append(archive))
    caller = reporter(tmp_path)
    caller._follow(offered(tmp_path, source))
    assert became == []
    assert caller._stays
    assert "does not run on this Python" in capfd.readouterr().err
    assert not (tmp_path / "muster-agent.pyz").exists()


def test_one_that_runs_is_become_and_kept_under_the_name_that_units_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    became: list[str] = []
    monkeypatch.setattr(report, "_become", lambda archive, _options: became.append(archive))
    caller = reporter(tmp_path)
    caller._follow(offered(tmp_path, "print('abcd')"))
    assert became == [str(tmp_path / "agent-abcd.pyz")]
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


def test_what_was_said_once_is_remembered_and_another_authority_forgets_the_certificate(tmp_path: Path) -> None:
    first = Settings(str(tmp_path), "机器/1")
    first.point_to("host:7", HERE)
    first.token, first.certificate = "a.b", "PEM"
    first.save()
    again = Settings(str(tmp_path), "机器/1")
    again.point_to(None, None)
    assert (again.master, again.authority, again.token, again.certificate) == ("host:7", HERE, "a.b", "PEM")
    folder = again.folder
    again.point_to(None, "SHA256:" + "B" * 64)
    assert again.certificate == ""
    assert again.folder != folder
    assert Path(again.path).parent == tmp_path


def test_a_certificate_that_is_not_the_pinned_one_is_not_kept(tmp_path: Path) -> None:
    settings = Settings(str(tmp_path), "far")
    settings.point_to("host:7", HERE)
    for pem in ("", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "-----BEGIN CERTIFICATE-----\n!"):
        assert not settings.take_certificate(pem)
    assert not Path(settings.path).exists()


@pytest.mark.parametrize("content", ["", "7", "{", json.dumps(["far"])])
def test_a_file_that_is_damaged_is_told_with_the_way_out(tmp_path: Path, content: str) -> None:
    path = tmp_path / "report-far.json"
    path.write_text(content, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(SettingsError, match="remove it and give the token again"):
        Settings(str(tmp_path), "far")
