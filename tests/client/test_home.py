"""What commands remember is kept in a home that is there and the account's own; none is made, and none is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from client import known_labs
from client.address import find, logins_folder
from client.logins import Login, Logins
from client.trust import Trust
from tests.cases import each_case
from tests.faults import said, says
from tests.rights import need_users
from wire.errors import ConfigError

ROOT = Path(__file__).parents[2]
STRANGER = 54321
LOGIN = Login("lab:63005", "token", user="wang", until=1.0, master="lab:63005")


def all_below(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")}


@pytest.fixture
def homes(tmp_path: Path) -> Iterator[dict[str, str | None]]:
    """Homes that are none of ours, by what is wrong with them; None: HOME is not set, and the account has none."""
    (tmp_path / "file").write_text("")
    strange = tmp_path / "strange"
    strange.mkdir()
    need_users()
    os.chown(strange, STRANGER, STRANGER)
    (tmp_path / "work").mkdir()
    yield {
        "missing": str(tmp_path / "missing" / "too"), "a file": str(tmp_path / "file"), "another's": str(strange),
        "empty": "", "relative": "home", "by convention": "/nonexistent", "the kernel's": "/proc/self",
    }  # fmt: skip
    assert not Path("/nonexistent").exists()


def test_init_works_without_a_home_and_makes_none(tmp_path: Path, homes: dict[str, str]) -> None:
    with each_case() as cases:
        for number, (what, home) in enumerate(homes.items()):
            with cases.case(what):
                before = all_below(tmp_path)
                own = {name: value for name, value in os.environ.items() if not name.startswith(("MUSTER_", "XDG_"))}
                done = subprocess.run(
                    [sys.executable, "-m", "muster", "init", f"lab{number}"], cwd=tmp_path / "work", text=True,
                    env={**own, "PYTHONPATH": str(ROOT), "HOME": home}, capture_output=True, timeout=60, check=False,
                )  # fmt: skip
                assert done.returncode == 0, done
                assert "Traceback" not in done.stderr, done
                made = {path for path in all_below(tmp_path) - before if f"/work/lab{number}" not in path}
                assert made == set(), what


def test_nothing_is_made_for_what_is_remembered(
    tmp_path: Path, homes: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    # An account that the system does not know has no home where HOME names none.
    monkeypatch.setattr("os.getuid", lambda: STRANGER)
    with each_case() as cases:
        for what, home in {**homes, "not set": None}.items():
            with cases.case(what):
                monkeypatch.setenv("HOME", home) if home is not None else monkeypatch.delenv("HOME")
                before = all_below(tmp_path)
                known_labs.remember(str(tmp_path / "conf.json"))
                with pytest.raises(ConfigError) as caught:
                    Logins(logins_folder()).keep(LOGIN)
                keys = ("no_home", "home_missing", "folder_of_another")
                has_key = any(says(said(caught.value), key) for key in keys)
                assert has_key or what in ("a file", "the kernel's"), caught.value
                with pytest.raises(ConfigError):
                    Trust("lab:63005")._keep("certificate")
                assert all_below(tmp_path) == before, what
                assert find(master="lab:63005").token is None


def test_a_folder_named_by_xdg_config_home_is_made_and_none_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "some" / "config"))
    Logins(logins_folder()).keep(LOGIN)
    assert (tmp_path / "some" / "config" / "muster" / "logins").is_dir(), "beneath the home"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name, is_made in (("config", True), ("missing/config", False)):
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / name))
        known_labs.remember(__file__)
        assert (tmp_path / name).exists() == is_made, name
    assert not (tmp_path / "missing").exists()
