"""The tokens of tasks: of which attempt one is, with a key that only the master has."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from master.people import tokens
from master.people.task_tokens import TaskTokens


def parsed(text: str) -> tokens.Parsed:
    found = tokens.parse(text)
    assert found is not None
    return found


def launch_of(made: TaskTokens, text: str) -> str | None:
    """The attempt that it was made for, if it was."""
    shown = parsed(text)
    launch_id = made.launch_of(shown)
    return launch_id if launch_id is not None and made.is_of(shown, launch_id) else None


@pytest.mark.parametrize("launch_id", ["1.1.0badcafe", "20261122194600.999999.ffffffff"])
def test_a_token_is_of_the_attempt_that_it_was_made_for(tmp_path: Path, launch_id: str) -> None:
    made = TaskTokens.begin(tmp_path)
    text = made.make(launch_id)
    assert (text, launch_of(made, text)) == (made.make(launch_id), launch_id)
    assert tokens.redacted(f"x {text}") == f"x mst_{parsed(text).id}_…"


def test_of_another_attempt_it_is_none_whatever_it_says(tmp_path: Path) -> None:
    made = TaskTokens.begin(tmp_path)
    secret = parsed(made.make("1.1.0badcafe")).secret
    for other in ("t1x2x0badcafe", "t1x1x0badcaff", "t11x1x0badcafe"):
        assert launch_of(made, f"mst_{other}_{secret}") is None
    assert TaskTokens.launch_of(parsed(f"mst_7f3a91c2_{secret}")) is None
    assert TaskTokens.launch_of(parsed(f"mst_servicemetrics_{secret}")) is None
    with pytest.raises(ValueError, match="no launch id"):
        made.make("1.1.0badcafe\n")


def test_the_next_start_knows_them_and_with_another_key_they_are_nobodys(tmp_path: Path) -> None:
    first = TaskTokens.begin(tmp_path)
    text = first.make("1.1.a")
    path = tmp_path / "services" / "task_tokens"
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    next_ = TaskTokens.begin(tmp_path)
    assert launch_of(next_, text) == "1.1.a"
    next_.renew()
    assert launch_of(next_, text) is None
    assert launch_of(TaskTokens.begin(tmp_path), text) is None


@pytest.mark.parametrize("wrong", ["torn", "open", "link", "folder"])
def test_a_key_that_others_could_know_or_that_is_torn_counts_no_more(tmp_path: Path, wrong: str) -> None:
    text = TaskTokens.begin(tmp_path).make("1.1.a")
    path = tmp_path / "services" / "task_tokens"
    if wrong == "torn":
        path.write_bytes(path.read_bytes()[:-1])
    elif wrong == "open":
        path.chmod(0o640)
    else:
        path.rename(tmp_path / "key")
        path.symlink_to(tmp_path / "key") if wrong == "link" else path.mkdir()
    after = TaskTokens.begin(tmp_path)
    assert launch_of(after, text) is None
    assert launch_of(after, after.make("1.1.b")) == "1.1.b"


def test_a_key_that_cannot_be_kept_holds_for_this_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "services").touch()
    made = TaskTokens.begin(tmp_path)
    assert launch_of(made, made.make("1.1.a")) == "1.1.a"
    assert "they open until the master ends" in caplog.text
