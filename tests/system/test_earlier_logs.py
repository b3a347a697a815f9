"""Logs that an earlier life of the lab left where the ids of this one begin again."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tests.system.lab import Lab
from tests.waiting import until

OLD = "of an earlier life\n"
END = "\nProgram Exit With Code 0\n"


def leave(lab: Lab, name: str) -> Path:
    path = lab.folder / "train_logs" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(OLD, encoding="utf-8")
    return path


def test_a_new_id_does_not_continue_the_log_of_an_older_one(lab: Lab) -> None:
    old = leave(lab, "1.log")
    lab.start()
    with lab.client() as muster:
        assert muster.submit("echo ours") == 1
        muster.wait([1])
        said = f"muster: a log of an earlier task lay here; it is {old}.earlier now\n"
        assert old.read_text(encoding="utf-8") == f"{said}ours\n{END}"
        assert Path(f"{old}.earlier").read_text(encoding="utf-8") == OLD
        assert said in lab.muster("logs", "1").stdout
        muster.retry(1)
        muster.wait([1])
        assert old.read_text(encoding="utf-8") == f"{said}ours\n{END}ours\n{END}", "its own attempts stay together"


def test_a_log_that_was_asked_for_is_appended_to(lab: Lab) -> None:
    mine = leave(lab, "mine.log")
    lab.start()
    with lab.client() as muster:
        for _ in range(2):
            muster.wait([muster.submit("echo ours", log=str(mine))])
    assert mine.read_text(encoding="utf-8") == f"{OLD}ours\n{END}ours\n{END}"
    assert [path.name for path in mine.parent.iterdir()] == ["mine.log"]


def test_a_launch_that_is_sent_twice_moves_nothing_of_its_own(lab: Lab) -> None:
    old = leave(lab, "1.log")
    lab.start("launch.after_send")
    until("the master answers", lambda: lab._answers() if lab.master and lab.master.poll() is None else False)
    with lab.client() as muster:
        muster.submit("echo ours; until [ -e go ]; do sleep 0.1; done")
    lab.await_failpoint()

    def runs() -> bool:
        with suppress(FileNotFoundError):  # the older one was just moved away
            return "ours" in old.read_text(encoding="utf-8")
        return False

    until("it runs", runs)
    lab.start()
    (lab.folder / "go").touch()
    with lab.client() as muster:
        assert muster.wait([1])[1]["state"] == "succeeded"
    assert old.read_text(encoding="utf-8").count("ours") == 1
    assert sorted(path.name for path in old.parent.iterdir()) == ["1.log", "1.log.earlier"]
