"""The paths of logs, which the client puts into a shell command as they are."""

from __future__ import annotations

import os
import re
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from master.core.tasks.attempt import Attempt, Part
from master.core.tasks.task import Task, TaskState
from master.desktop import logs
from tests.desktop.client import DesktopClient
from tests.desktop.place import DesktopPlace, in_loop, with_client
from tests.rights import need_users
from wire.message import Message

SAFE = re.compile(r"/[\w@%+=:,./-]+", re.ASCII)


def cat(path: str) -> str:
    """What the client shows of an ended task's log: the path stands unquoted in the command."""
    done = subprocess.run(["/bin/bash", "-c", f"cat {path}"], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def end(master: DesktopPlace, task_id: int, why: str | None = None) -> None:
    said = Message("agent_said", said=why) if why else None
    in_loop(master, lambda: master.engine.client_change(lambda: master.core.cancel(task_id, 5.0, said)))


def is_starting(task: Task) -> None:
    """No node is there to be asked."""
    task.state = TaskState.STARTING


def test_the_log_of_an_ended_task_is_there_even_if_it_never_ran(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        client.add("one")
        end(master, 1)
        path = client.ask("get_train_log_path", "00000000000001")
        assert path == str(tmp_path / "logs/1.log")
        assert cat(path) == ""
        (tmp_path / "logs/1.log").write_text("said\n", encoding="utf-8")
        assert cat(client.ask("get_train_log_path", "00000000000001")) == "said\n"

    with_client(tmp_path, story)


def test_why_a_task_ended_stands_in_a_log_that_would_be_empty(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        client.add("one")
        client.add("two")
        why = "the folder /nowhere is missing"
        end(master, 1, why)
        end(master, 2, why)
        (tmp_path / "logs/2.log").write_text("said\n", encoding="utf-8")
        for _ in range(2):
            assert cat(client.ask("get_train_log_path", "00000000000001")) == f"muster: {why}\n"
        assert cat(client.ask("get_train_log_path", "00000000000002")) == "said\n"

    with_client(tmp_path, story)


def test_a_log_that_we_make_can_be_written_by_whoever_may_write_into_its_folder(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        (tmp_path / "logs").chmod(0o2775)
        client.add("one")
        end(master, 1)
        path = Path(client.ask("get_train_log_path", "00000000000001"))
        assert path.stat().st_mode & 0o777 == 0o660
        assert path.stat().st_uid == (tmp_path / "logs").stat().st_uid

    with_client(tmp_path, story)


@pytest.mark.parametrize("name", ["with blank.log", "a;b.log", "$(x).log", "it's.log", "字.log", "a\nb.log"])
def test_a_path_that_a_shell_would_read_is_given_as_one_that_it_would_not(tmp_path: Path, name: str) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        real = tmp_path / "data" / name
        real.write_text("said\n", encoding="utf-8")
        in_loop(master, lambda: master.submit("one", log_path=str(real)))
        end(master, 1)
        path = client.ask("get_train_log_path", "00000000000001")
        assert SAFE.fullmatch(path)
        assert cat(path) == "said\n"

    with_client(tmp_path, story)


def test_where_no_path_is_plain_it_is_quoted(tmp_path: Path) -> None:
    home = tmp_path / "my home"
    home.mkdir()

    def story(client: DesktopClient, master: DesktopPlace) -> None:
        client.add("one")
        end(master, 1)
        (home / "logs/1.log").write_text("said\n", encoding="utf-8")
        assert cat(client.ask("get_train_log_path", "00000000000001")) == "said\n"

    with_client(home, story)


def test_a_task_without_a_log_says_so_in_the_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "AWAITED_S", 0.2)

    def story(client: DesktopClient, master: DesktopPlace) -> None:
        client.add("one")
        assert "not started" in cat(client.ask("get_train_log_path", "00000000000001"))
        in_loop(master, lambda: is_starting(master.core.tasks[1]))
        assert "not started" in cat(client.ask("get_train_log_path", "00000000000001"))
        assert not (tmp_path / "logs/1.log").exists(), "the node's account may be another and could not write into ours"

    with_client(tmp_path, story)


def test_a_log_that_is_there_before_the_word_that_the_task_runs_is_shown(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        client.add("one")
        in_loop(master, lambda: is_starting(master.core.tasks[1]))
        log = Path(master.core.tasks[1].log_path)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("it has begun\n", encoding="utf-8")
        assert cat(client.ask("get_train_log_path", "00000000000001")) == "it has begun\n"

    with_client(tmp_path, story)


@pytest.mark.parametrize("info", ["77", "", "; touch pwned", "$(touch pwned)", None, 5, [], {"a": 1}])
def test_nothing_that_was_asked_reaches_a_shell(tmp_path: Path, info: Any) -> None:
    def story(client: DesktopClient, _master: DesktopPlace) -> None:
        path = client.ask("get_train_log_path", info)
        assert SAFE.fullmatch(path)
        assert "no such task" in cat(path)

    with_client(tmp_path, story)


def test_the_masters_own_log(tmp_path: Path) -> None:
    def story(client: DesktopClient, _master: DesktopPlace) -> None:
        (tmp_path / "server.news.log").write_text("news\n", encoding="utf-8")
        assert client.ask("get_server_log") == str(tmp_path / "server.news.log")
        assert client.ask("get_server_log", {"odd": 1}) == str(tmp_path / "server.news.log")

    with_client(tmp_path, story)


def test_what_others_put_into_the_log_folder_is_not_followed(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        ours = tmp_path / "ours.txt"
        ours.write_text("kept", encoding="utf-8")
        links = tmp_path / "logs/desktop"
        links.mkdir()
        (links / "unknown.txt").symlink_to(ours)
        client.ask("get_train_log_path", "77")
        assert ours.read_text(encoding="utf-8") == "kept"

        (links / "unknown.txt").unlink()
        links.rmdir()
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere/1.log").write_text("kept", encoding="utf-8")
        links.symlink_to(tmp_path / "elsewhere")
        real = tmp_path / "data/with blank.log"
        real.write_text("said\n", encoding="utf-8")
        in_loop(master, lambda: master.submit("one", log_path=str(real)))
        end(master, 1)
        assert cat(client.ask("get_train_log_path", "00000000000001")) == "said\n"
        client.ask("get_train_log_path", "77")
        assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["1.log"]
        assert (tmp_path / "elsewhere/1.log").read_text(encoding="utf-8") == "kept"

    with_client(tmp_path, story)


def test_a_folder_that_an_account_put_in_the_place_of_ours_is_not_used(tmp_path: Path) -> None:
    """That account could say there of others' logs what it likes."""
    need_users()

    def story(client: DesktopClient, master: DesktopPlace) -> None:
        links, real = tmp_path / "logs/desktop", tmp_path / "data/with blank.log"
        links.mkdir()
        (links / "unknown.txt").write_text("a lie", encoding="utf-8")
        os.chown(links, 4301, 4301)
        real.write_text("said\n", encoding="utf-8")
        in_loop(master, lambda: master.submit("one", log_path=str(real)))
        end(master, 1)
        assert client.ask("get_train_log_path", "77") == "/dev/null"
        assert cat(client.ask("get_train_log_path", "00000000000001")) == "said\n"
        assert [path.name for path in links.iterdir()] == ["unknown.txt"]

    with_client(tmp_path, story)


def test_no_file_is_made_at_the_place_of_another_tasks_log(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        in_loop(master, lambda: master.submit("one", log_path=f"{tmp_path}/logs/9.log"))
        end(master, 1, "it could not start")
        assert "is not there" in cat(client.ask("get_train_log_path", "00000000000001"))
        assert not (tmp_path / "logs/9.log").exists()

    with_client(tmp_path, story)


def test_no_file_is_made_where_a_task_wished_its_log_to_be(tmp_path: Path) -> None:
    """The master may write where the task's owner may not."""
    elsewhere = tmp_path / "data/elsewhere"
    elsewhere.mkdir(parents=True)
    wishes = [f"{elsewhere}/1.log", f"{tmp_path}/logs/../data/elsewhere/2.log", f"{tmp_path}/logs/link/3.log"]

    def story(client: DesktopClient, master: DesktopPlace) -> None:
        (tmp_path / "logs/link").symlink_to(elsewhere)
        for number, path in enumerate(wishes, start=1):
            in_loop(master, partial(master.submit, "one", log_path=path))
            end(master, number, "it could not start")
            assert "is not there" in cat(client.ask("get_train_log_path", f"{number:014}"))
        assert list(elsewhere.iterdir()) == []
        (elsewhere / "1.log").write_text("said\n", encoding="utf-8")
        assert cat(client.ask("get_train_log_path", "00000000000001")) == "said\n"

    with_client(tmp_path, story)


def test_nobody_learns_by_a_wish_or_a_link_what_lies_where_only_the_master_looks(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    (hidden / "key").write_text("secret", encoding="utf-8")

    def story(client: DesktopClient, master: DesktopPlace) -> None:
        (tmp_path / "data/link").symlink_to(hidden / "key")
        told = set()
        for number, path in enumerate((hidden / "key", hidden / "none", tmp_path / "data/link"), start=1):
            in_loop(master, partial(master.submit, "one", log_path=str(path)))
            end(master, number, "it could not start")
            told.add(cat(client.ask("get_train_log_path", f"{number:014}")))
        assert len(told) == 1
        assert "is not there" in told.pop()

    with_client(tmp_path, story)


def test_the_log_of_what_ran_as_its_owner_is_shown_where_it_lies_and_never_made(tmp_path: Path) -> None:
    def story(client: DesktopClient, master: DesktopPlace) -> None:
        client.add("one")
        log = tmp_path / "logs" / "alice" / "1.log"
        log.parent.mkdir()
        log.write_text("hers\n", encoding="utf-8")
        end(master, 1, "why it ended")
        part = Part("a", [], run_as="alice")
        attempt = Attempt(1, [part], None, None, None, None, None, None, None)
        master.core.tasks[1].earlier, master.core.tasks[1].log_path = [attempt], str(log)
        path = client.ask("get_train_log_path", "00000000000001")
        assert (path, cat(path)) == (str(log), "hers\n")
        log.unlink()
        assert "removed by its owner" in cat(client.ask("get_train_log_path", "00000000000001"))
        assert not log.exists()

    with_client(tmp_path, story)
