"""An authority that others could have written is not believed: whoever answers with it could be anybody."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from client.trust import VARIABLE, Trust
from monitor.agent.report.settings import Settings, SettingsError
from tests.cases import each_case
from tests.certificates import authority
from tests.faults import refused
from tests.rights import need_users
from wire.pinning import fingerprint

THIEF = 4242
NAME = "lab:3460"
Plant = Callable[[Path], object]


def link(path: Path) -> None:
    """It is a link to what another account may replace."""
    theirs = path.parents[3] / "theirs"
    theirs.mkdir()
    path.rename(theirs / "ca.pem")
    path.symlink_to(theirs / "ca.pem")
    os.chown(theirs, THIEF, THIEF)


def to_group(path: Path, owner: int) -> None:
    """A group of others may write it."""
    os.chown(path, owner, THIEF + 1)
    path.chmod(0o664)


REMEMBERED: dict[str, Plant] = {
    "the file of another account": lambda path: os.chown(path, THIEF, THIEF),
    "a file that everybody may write": lambda path: path.chmod(0o666),
    "a file that a group may write": lambda path: to_group(path, 0),
    "a folder that everybody may write": lambda path: path.parent.chmod(0o777),
    "a folder of another account": lambda path: os.chown(path.parent, THIEF, THIEF),
    "a folder above of another account": lambda path: os.chown(path.parents[1], THIEF, THIEF),
    "the folder of settings, which everybody may write": lambda path: path.parents[2].chmod(0o777),
    "a link into a folder of another account": link,
}
OF_THE_LAB: dict[str, Plant] = {
    "a file that everybody may write": lambda path: path.chmod(0o666),
    "a file that a group may write": lambda path: to_group(path, THIEF),
    "a folder that everybody may write": lambda path: path.parent.chmod(0o777),
}


@pytest.fixture
def pem() -> str:
    return authority().pem.decode()


def remembered(home: Path, pem: str) -> Path:
    """The authority of a master on another machine, as a client keeps it."""
    path = home / "config" / "muster" / "authorities" / "lab%3A3460.pem"
    path.parent.mkdir(mode=0o700, parents=True)
    path.write_text(pem, encoding="ascii")
    path.chmod(0o600)
    return path


def test_a_remembered_authority_that_others_could_have_written_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pem: str
) -> None:
    need_users()
    monkeypatch.delenv(VARIABLE, raising=False)
    with each_case() as cases:
        for number, (what, plant) in enumerate(REMEMBERED.items()):
            with cases.case(what):
                home = tmp_path / str(number)
                path = remembered(home, pem)
                monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
                assert Trust(NAME).known() == pem
                plant(path)
                assert refused(Trust(NAME).known).key == "authority_open"
                trust = Trust(NAME)
                trust.wanted = fingerprint(pem)
                assert trust.known() == pem, "a fingerprint that is given proves it"


def test_the_authority_beside_conf_json_is_believed_only_where_its_owner_alone_may_write_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pem: str
) -> None:
    need_users()
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with each_case() as cases:
        for number, (what, plant) in enumerate(OF_THE_LAB.items()):
            with cases.case(what):
                path = tmp_path / str(number) / "ca.pem"
                path.parent.mkdir(mode=0o755)
                path.write_text(pem, encoding="ascii")
                path.chmod(0o644)
                os.chown(path, THIEF, THIEF)  # the account of the master, say
                os.chown(path.parent, THIEF, THIEF)
                assert Trust(NAME, str(path)).known() == pem
                plant(path)
                assert refused(Trust(NAME, str(path)).known).key == "authority_open"


def test_an_agent_believes_no_settings_of_another_account(tmp_path: Path) -> None:
    need_users()
    mine = Settings(str(tmp_path), "a")
    mine.master, mine.authority = "thief:3460", "sha256:" + "0" * 64
    mine.save()
    Path(mine.path).chmod(0o600)
    Settings(str(tmp_path), "a")
    os.chown(mine.path, THIEF, THIEF)
    with pytest.raises(SettingsError, match="belongs to uid 4242"):
        Settings(str(tmp_path), "a")
