"""`--signal`: a task writes down how far it came before its time limit, whoever is away then."""

from __future__ import annotations

from pathlib import Path

from tests.system.lab import Lab
from tests.waiting import until
from wire.message import Message

SAVES = "trap 'echo saved; exit 7' USR1; echo up; while :; do sleep 0.05; done"


def test_a_task_saves_before_its_limit_while_master_and_agent_are_away(lab: Lab, tmp_path: Path) -> None:
    lab.start()
    script = tmp_path / "train.sh"
    script.write_text(f"#MUSTER --time-limit 40 --signal USR1@36\n{SAVES}\n", encoding="utf-8")
    said = lab.muster("submit", "--script", str(script))
    task = int(said.stdout)
    assert "USR1 to whoever heeds it, 36s before the time limit" in lab.muster("show", str(task)).stdout
    with lab.client() as client:
        log = client.show(task)["log_path"]
        until("it runs", lambda: client.show(task)["state"] == "running")
    lab.kill_master()
    lab.kill_agent("node0")
    until("it saves", lambda: "saved" in Path(log).read_text(encoding="utf-8"))
    lab.start()
    with lab.client() as client:
        assert client.wait([task], 60)[task]["state"] == "failed"
        assert client.show(task)["exit_code"] == 7


def test_a_signal_that_nobody_heeds_is_told_at_the_end(lab: Lab) -> None:
    lab.start()
    with lab.client() as client:
        task = client.submit("sleep 1000", time_limit_s=1.0, signal={"name": "USR1", "before_s": 0.5})
        assert client.wait([task], 60)[task]["state"] == "timed_out"
        assert client.show(task)["reason_key"] == "time_limit_unheeded"


def test_a_signal_without_a_limit_is_refused(lab: Lab, tmp_path: Path) -> None:
    lab.start()
    script = tmp_path / "train.sh"
    script.write_text("true\n", encoding="utf-8")
    for words, why in (
        (("--signal", "USR1@120"), str(Message("signal_without_limit", name="USR1"))),
        (
            ("--signal", "USR1@120", "--time-limit", "60"),
            str(Message("signal_before_start", name="USR1", early=120, limit=60)),
        ),
        (("--signal", "KILL@120", "--time-limit", "600"), "USR1"),
    ):
        refused = lab.muster("submit", *words, "--script", str(script))
        assert refused.returncode == 1
        assert why in refused.stderr, refused.stderr
