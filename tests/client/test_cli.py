"""The command line as people and scripts use it: a real process against real sockets."""

from __future__ import annotations

import base64
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from client.cli.commands import COMMANDS
from client.cli.main import main
from tests.calls import bytes_read_by, instructions_of
from tests.client.fake_master import FakeMaster, Refusal, task
from tests.faults import error_line
from wire.message import Message

ROOT = Path(__file__).parents[2]


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMaster]:
    monkeypatch.delenv("MUSTER_MASTER", raising=False)
    with FakeMaster({}) as fake:
        monkeypatch.setenv("MUSTER_CONF", fake.conf(tmp_path))
        yield fake


def muster(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "muster", *words],
        input=stdin, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_submit_prints_the_id_and_keeps_the_words(master: FakeMaster) -> None:
    master.verbs["task.submit"] = lambda _: {"id": 12}
    done = muster("submit", "--gpus", "2", "--after", "3:any,4", "--", "python", "--json", "a b", "--", "'")
    assert (done.returncode, done.stdout, done.stderr) == (0, "12\n", "")
    (asked,) = master.asked("task.submit")
    assert asked["command"] == ["python", "--json", "a b", "--", "'"]
    assert asked["after"] == [{"id": 3, "on": "any"}, {"id": 4, "on": "ok"}]
    assert (asked["gpus"], asked["cwd"]) == (2, str(ROOT))
    assert "urgent" not in asked


@pytest.mark.parametrize(
    ("answer", "code", "told"),
    [
        (
            {"possible": False, "reason": "node a has 8 GPUs", "placements": []},
            1,
            "error: impossible: node a has 8 GPUs\n",
        ),
        ({"possible": True, "reason": "needs 8 GPUs", "placements": []}, 0, "would not start now: needs 8 GPUs\n"),
        ({"possible": True, "placements": [{"node": "a", "gpus": [0, 1]}]}, 0, "would start now: node a on GPU 0,1\n"),
    ],
    ids=["never", "later", "now"],
)
def test_a_dry_run_fails_for_what_can_never_start_and_queues_nothing(
    master: FakeMaster, answer: dict[str, Any], code: int, told: str
) -> None:
    master.verbs["task.submit"] = lambda _: answer
    done = muster("submit", "--dry-run", "--gpus", "9", "--", "true")
    assert (done.returncode, done.stdout + done.stderr) == (code, told)
    assert [asked["dry_run"] for asked in master.asked("task.submit")] == [True]
    assert muster("submit", "--dry-run", "--json", "--gpus", "9", "--", "true").returncode == code


def test_json_may_stand_anywhere_before_the_dashes(master: FakeMaster) -> None:
    master.verbs["task.submit"] = lambda _: {"id": 12}
    for words in (("--json", "submit"), ("submit", "--json")):
        assert json.loads(muster(*words, "--", "true").stdout) == {"id": 12}


def test_a_batch_is_one_submit_of_bash_lines(master: FakeMaster) -> None:
    master.verbs["task.submit_batch"] = lambda params: {"first": 5, "count": len(params["commands"])}
    done = muster("submit", "--batch", "-", stdin="# sweep\necho 'a' | cat\n\n  echo b\n")
    assert done.stdout == "5-6\n"
    assert master.asked("task.submit_batch")[0]["commands"] == ["echo 'a' | cat", "echo b"]


def test_a_line_of_a_batch_goes_on_behind_a_backslash_as_in_a_script(master: FakeMaster) -> None:
    master.verbs["task.submit_batch"] = lambda params: {"first": 5, "count": len(params["commands"])}
    assert muster("submit", "--batch", "-", stdin="a \\\n  --b \\\r\n --c\n# x \\\nd\\\\\ne\n").stdout == "5-7\n"
    assert master.asked("task.submit_batch")[0]["commands"] == ["a --b --c", "d\\\\", "e"]
    done = muster("submit", "--batch", "-", stdin="a\nb \\\nc \\\n")
    assert (done.returncode, "line 2 goes on" in done.stderr) == (1, True)
    assert len(master.asked("task.submit_batch")) == 1


def test_a_script_with_the_line_ends_of_windows_is_queued_with_our_own_and_that_is_told(
    master: FakeMaster, tmp_path: Path
) -> None:
    master.verbs["task.submit"] = lambda _: {"id": 1}
    script = tmp_path / "train.sh"
    script.write_bytes(b"\xef\xbb\xbf#!/bin/bash\r\n#MUSTER --gpus 2\r\necho a > b\r\n")
    done = muster("submit", "--script", str(script))
    assert (done.returncode, done.stdout, "as on Windows" in done.stderr) == (0, "1\n", True)
    (asked,) = master.asked("task.submit")
    assert (asked["command"], asked["gpus"]) == ("#!/bin/bash\n#MUSTER --gpus 2\necho a > b\n", 2)


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("submit --gpu 1 -- x", "did you mean --gpus?"),
        ("submit --time 1h -- x", "did you mean --time-limit?"),
        ("submit --priorty=2 -- x", "did you mean --priority?"),
        ("submit -n 2 -- x", "did you mean --name or --nodes or --node?"),
        ("submit -p gpu -- x", "did you mean --project or --priority or --proxy?"),
        ("queue --al", "did you mean --all?"),
        ("edit 17 gpus 2", "gpus 2 is written gpus=2"),
        ("submit -N 2 -- x", "there is no option -N (did you mean --nodes?)"),
        ("submit -g 2 -- x", "did you mean --gpus?"),
        ("queue -n 5", "-n (did you mean --limit?) 5"),
        ("node drain a --raeson x", "--raeson (did you mean --reason?) x; see `muster node drain --help`"),
        ("users add x --rol admin", "did you mean --role?"),
        ("node --jso", "did you mean --json?"),
        ("conf show --conff", "did you mean --conf?"),
        ("node drian a", "'drian' (did you mean drain?)"),
        ("files lss", "did you mean ls?"),
        ("edit 17 gpu=2", "no key 'gpu' (did you mean gpus?)"),
        ("edit 17 time=2h", "did you mean time-limit?"),
        ("node edit a gpuss=2", "did you mean gpus?"),
        ("users edit x rol=admin", "did you mean role?"),
        ("projects edit x grup=nlp", "did you mean group?"),
        ("groups edit nlp max_running_gpus=2", "did you mean max_running?"),
    ],
)
def test_who_misspells_an_option_is_told_which_was_meant(
    line: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(line)) == 2
    assert meant in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("edit 17 priority 5 gpus 2", "priority 5 gpus 2 is written priority=5 gpus=2"),
        ("edit 17 priority=5 gpus 2", "gpus 2 is written gpus=2"),
        ("edit 17 gpus = 2", "gpus = 2 is written gpus=2"),
        ("edit 17 gpus =2", "gpus =2 is written gpus=2"),
        ("edit 17 gpus= 2", "gpus= 2 is written gpus=2"),
        ("edit 17 gpus: 2", "gpus: 2 is written gpus=2"),
        ("edit 17 gpus:2", "gpus:2 is written gpus=2"),
        ("edit 17 --gpus 2", "--gpus 2 is written gpus=2"),
        ("edit 17 --gpus=2", "--gpus=2 is written gpus=2"),
        ("edit 17 --time_limit 2h --json", "--time_limit 2h is written time_limit=2h"),
        ("edit 17 priority -5", "priority -5 is written priority=-5"),
        ("edit 17 var.A 'b c'", "var.A 'b c' is written var.A='b c'"),
        ("edit gpus=2 17", "gpus=2 17 is written 17 gpus=2"),
        ("--conf owner edit gpus gpus 2", "gpus 2 is written gpus=2"),
        ("node edit port gpu_count 2", "gpu_count 2 is written gpu_count=2"),
        ("node edit a --label.room 2", "--label.room 2 is written label.room=2"),
        ("users edit role role admin", "role admin is written role=admin"),
        ("projects edit x --group nlp", "--group nlp is written group=nlp"),
        ("groups edit nlp --add wang max_running 2", "max_running 2 is written max_running=2"),
        ("api task.list limit 3", "limit 3 is written limit=3"),
        ("api task.list --limit 3", "--limit 3 is written limit=3"),
    ],
)
def test_a_key_and_its_value_that_are_written_otherwise_are_answered_with_how_it_is_done(
    line: str, right: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(line)) == 2
    assert f"error: usage: {right}; see" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        "edit --conf owner 7 gpus=2",
        "edit --token=token 7 gpus=2 --master node",
        "edit --conf owner 7 gpus=x",
        "groups edit nlp max_running= --add bob",
        "groups edit nlp max_running= --ad bob",
    ],
)
def test_the_value_of_an_option_is_no_key(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(line)) in (1, 2, 3)
    assert "is written" not in capsys.readouterr().err


@pytest.mark.parametrize("line", ["submit --zzz -- x", "queue --cast", "move 7 --position 1"])
def test_an_option_that_is_like_none_is_only_refused(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(line)) == 2
    assert "did you mean" not in capsys.readouterr().err


def test_a_command_that_is_hardly_the_name_of_a_program_gets_a_note(
    master: FakeMaster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    master.verbs["task.submit"] = lambda _: {"id": 1}
    monkeypatch.chdir(tmp_path)
    for name in ("own.sh", "sh", "with blanks"):
        (tmp_path / name).touch()
    for words, told in (
        (["echo a b"], str(Message("command_is_one_word", word="echo a b"))),
        (["own.sh"], "write ./own.sh, or --script own.sh"),
        (["sh"], ""),
        (["./own.sh"], ""),
        (["./with blanks"], ""),
        (["echo", "a b"], ""),
    ):
        assert main(["submit", "--", *words]) == 0
        said = capsys.readouterr().err
        assert (told in said, "note" in said) == (True, bool(told)), words


def test_a_script_whose_options_are_not_read_gets_a_note(
    master: FakeMaster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    master.verbs["task.submit"] = lambda _: {"id": 1}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    for name, text in (
        ("slurm.sh", "#!/bin/bash\n#SBATCH --gres=gpu:1\ntrue\n"),
        ("ours.sh", "#!/bin/bash\n\n#MUSTER --gpus 1\ntrue\n"),
        ("plain.sh", "#!/bin/bash\ntrue\n#SBATCH --gres=gpu:1\n"),
    ):
        (tmp_path / name).write_text(text)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "slurm.sh").write_text("#SBATCH --gres=gpu:1\n")
    (tmp_path / "link.sh").symlink_to("slurm.sh")  # where a link leads may hang
    os.mkfifo(tmp_path / "fifo")
    for words, told in (
        (["bash", "slurm.sh", "x"], "#SBATCH lines of slurm.sh"),
        (["./slurm.sh"], "#SBATCH lines of ./slurm.sh"),
        (["/bin/sh", f"{tmp_path}/ours.sh"], f"#MUSTER lines of {tmp_path}/ours.sh"),
        (["bash", "plain.sh"], ""),
        (["bash", "-c", "./slurm.sh"], ""),
        (["echo", "slurm.sh"], ""),
        (["bash", "fifo"], ""),
        (["bash", "folder"], ""),
        (["bash", "gone.sh"], ""),
        (["bash", "link.sh"], ""),
        (["bash", "folder/slurm.sh"], ""),
        (["bash"], ""),
    ):
        assert main(["submit", "--", *words]) == 0
        said = capsys.readouterr().err
        assert (told in said, "are not read" in said) == (True, bool(told)), words


def _same(answer: Any, _: dict[str, Any]) -> Any:
    return answer


def test_a_note_about_the_command_is_told_once_whoever_sees_it_and_is_in_the_json(
    master: FakeMaster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    master.verbs["task.submit"] = lambda _: {"id": 1}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.sh").touch()
    for words, key in ((["echo a b"], "command_is_one_word"), (["own.sh"], "program_is_beside")):
        for seen in ([], [{"key": key, "args": {}}]):
            answer = {"missing": ["as the master says it"] * len(seen), "missing_messages": seen}
            master.verbs["task.places"] = partial(_same, answer)
            assert main(["submit", "--json", "--", *words]) == 0
            said = capsys.readouterr()
            assert [one["key"] for one in json.loads(said.out)["notes"]] == [key]
            assert said.err.count("note: ") == 1, said.err


def test_an_edit_of_the_log_has_it_looked_at(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    master.verbs["task.edit"] = lambda _: task(3, "waiting")
    said = {"key": "log_is_folder", "args": {"path": "/etc"}}
    master.verbs["task.places"] = lambda params: {"missing": [params["log"]], "missing_messages": [said]}
    assert main(["edit", "3", "log=/etc"]) == 0
    assert "note: /etc" in capsys.readouterr().err


def test_an_edit_that_queues_an_ended_task_again_says_so(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    attempts = {3: 0, 4: 2, 5: 1}
    master.verbs["task.edit"] = lambda params: task(
        params["id"], "succeeded" if "owner" in params["changes"] else "waiting", attempt=attempts[params["id"]]
    )
    for words, told in (
        (["3", "priority=1"], ""),
        (["4", "priority=1"], "note: task 4 has run before, and is queued again\n"),
        (["3-5", "priority=1"], "note: tasks 4-5 have run before, and are queued again\n"),
        (["4", "owner=li"], ""),
    ):
        assert main(["edit", *words]) == 0
        assert capsys.readouterr().err == told


def test_a_family_alone_lists(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    master.verbs["node.list"] = lambda _: []
    master.verbs["user.list"] = lambda _: []
    for words in (["node", "--json"], ["--json", "users"], ["users", "list", "--json"]):
        assert main(words) == 0
        assert json.loads(capsys.readouterr().out) == []


def test_a_range_as_a_batch_prints_it_is_taken_wherever_ids_are(master: FakeMaster) -> None:
    master.verbs["task.submit"] = lambda _: {"id": 9}
    master.verbs["task.edit"] = lambda params: task(params["id"])
    master.verbs["task.why"] = lambda params: {
        "id": params["id"],
        "state": "waiting",
        "reason": "next",
        "brief": "next",
    }
    assert muster("submit", "--after", "3-4:any,6,12/", "--", "true").returncode == 0
    (asked,) = master.asked("task.submit")
    assert asked["after"] == [
        {"id": 3, "on": "any"}, {"id": 4, "on": "any"}, {"id": 6, "on": "ok"}, {"id": 12, "on": "ok", "array": True}
    ]  # fmt: skip
    assert muster("edit", "3-4,7", "priority=1").stdout == "tasks 3-4, 7: changed priority\n"
    assert [asked["id"] for asked in master.asked("task.edit")] == [3, 4, 7]
    done = muster("why", "3-4")
    assert (done.returncode, done.stdout.count("task ")) == (0, 2)
    assert [one["id"] for one in json.loads(muster("why", "3-4", "--json").stdout)] == [3, 4]


def test_what_would_let_a_task_start_is_one_line_however_many_ways_there_are(master: FakeMaster) -> None:
    ways = ["task 3 ends on a", "node b comes\x1b[31m back"]
    master.verbs["task.why"] = lambda params: {
        "id": params["id"],
        "state": "waiting",
        "reason": "needs 1 GPU",
        "details": ["0 tasks are before it"],
        "would_start": ways,
    }
    lines = muster("why", "7").stdout.splitlines()
    assert lines[2].startswith("  would start if task 3 ends on a, or if node b comes")
    assert "\x1b" not in lines[2]
    assert json.loads(muster("why", "7", "--json").stdout)["would_start"] == ways


def test_a_script_brings_its_options_and_the_command_line_wins(master: FakeMaster, tmp_path: Path) -> None:
    master.verbs["task.submit"] = lambda _: {"id": 1}
    script = tmp_path / "训练.sh"
    script.write_text(
        "#!/bin/bash\n#MUSTER --gpus 2 --name 'from script'\n#MUSTER --priority 3 # why\nmake\n#MUSTER --gpus 9\n"
    )
    assert muster("submit", "--script", str(script), "--gpus", "1").returncode == 0
    (asked,) = master.asked("task.submit")
    assert (asked["gpus"], asked["name"], asked["priority"]) == (1, "from script", 3)
    assert asked["command"] == script.read_text()


def test_a_script_from_stdin_has_no_name_of_its_own(master: FakeMaster) -> None:
    master.verbs["task.submit"] = lambda _: {"id": 1}
    for words, name in (((), ""), (("--name", "bert"), "bert")):
        assert muster("submit", "--script", "-", *words, stdin="make\n").returncode == 0
        assert (master.asked("task.submit")[-1].get("name") or "") == name


def test_what_is_understood_of_slurms_lines_in_a_script_counts_unless_it_has_some_for_us(
    master: FakeMaster, tmp_path: Path
) -> None:
    master.verbs["task.submit"] = lambda _: {"id": 1}
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/bash\n#SBATCH --gres=gpu:2 -J bert -o logs/%j.log\n#SBATCH -p gpu\nmake\n")
    done = muster("submit", "--script", str(script), "--name", "mine")
    assert (done.returncode, done.stdout) == (0, "1\n")
    (asked,) = master.asked("task.submit")
    assert (asked["gpus"], asked["name"], asked["log"]) == (2, "mine", f"{ROOT}/logs/{{id}}.log")
    (told,) = [line for line in done.stderr.splitlines() if "SBATCH" in line]
    assert told.startswith("note: of the #SBATCH lines --gres=gpu:2 is --gpus 2, --job-name=bert is --name bert, ")
    assert told.endswith("; not heeded: --partition=gpu")
    done = muster("submit", "--script", str(script), "--strict-directives")
    assert (done.returncode, "not understood: --partition=gpu" in done.stderr) == (2, True)
    script.write_text("#!/bin/bash\n#SBATCH --gres=gpu:2\n#MUSTER --gpus 1\nmake\n")
    assert "SBATCH" not in muster("submit", "--script", str(script)).stderr
    assert master.asked("task.submit")[-1]["gpus"] == 1


@pytest.mark.parametrize("line", ["#PBS -l walltime=1:00", "#BSUB -W 10", "#$ -pe smp 4"])
def test_options_of_another_queue_in_a_script_are_told(master: FakeMaster, tmp_path: Path, line: str) -> None:
    master.verbs["task.submit"] = lambda _: {"id": 1}
    script = tmp_path / "train.sh"
    script.write_text(f"#!/bin/bash\n{line}\nmake\n")
    done = muster("submit", "--script", str(script))
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert f"the {line.split(maxsplit=1)[0]} lines of the script are not heeded" in done.stderr


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("submit",), "give one of"),
        (("submit", "echo", "hi"), "after `--`"),
        (("submit", "--gpu", "1", "--", "x"), "no option --gpu"),
        (("submit", "--gpus", "-1", "--", "x"), "--gpus: '-1' is not"),
        (("submit", "--gpus", "2-", "--", "x"), "--gpus: '2-' is not"),
        (("submit", "--after", "-1", "--", "x"), "--after: '-1' is not"),
        (("edit", "7", "gpus=-1"), "'-1' is not"),
        (("show", "-1"), "'-1' is not"),
        (("cancel", "3-"), "'3-' is not"),
        (("submit", "--sweep", "lr=", "--", "x"), "lr has no values"),
        (("submit", "--" ), "give one of"),
        (("cancel",), "--mine"),
        (("logs",), "--server"),
        (("logs", "--server", "--rank", "1"), "--rank is of a task"),
        (("queue", "--conf", "conf.json", "--master", "gpu1"), "--conf and --master: give one of them"),
        (("--conf", "conf.json", "node", "list", "--master", "gpu1"), "--conf and --master: give one of them"),
        (("submit", "--exclude", "a", "--exclude", "b", "--", "x"), "--exclude is given twice: write --exclude a,b"),
        (("submit", "--licence=a", "--licence", "b=2", "--", "x"), "--licence is given twice: write --licence a,b=2"),
        (("run", "--retry-on=oom", "--retry-on=lost", "--", "x"), "write --retry-on oom,lost"),
        (("queu",), "muster queue"),
        (("show", "0"), "task id"),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_line_and_exit_2(
    words: tuple[str, ...], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(list(words)) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: usage: ")
    assert said.count("\n") == 1
    assert hint in said


def test_a_file_that_cannot_be_written_or_read_is_named_with_why(
    master: FakeMaster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    master.verbs["task.show"] = lambda params: task(params["id"], "running", started_at=1.0)
    master.verbs["log.read"] = log_of(b"x\n")
    gone = tmp_path / "gone"
    for words, told in (
        (("logs", "7", "-o", f"{gone}/log"), f"{gone}/log: the folder {gone} does not exist"),
        (("users", "add", "--from", str(gone)), f"{gone}: No such file or directory"),
        (("users", "add", "wang", "--password-file", f"{tmp_path}"), f"{tmp_path}: Is a directory"),
    ):
        assert main(list(words)) == 1
        assert capsys.readouterr() == ("", f"error: io: {told}\n"), words


def test_a_refusal_is_one_harmless_line_and_exit_1(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    def show(_: dict[str, Any]) -> None:
        raise Refusal("not_found", Message("no_setting", name="9\x1b[2J"))

    master.verbs["task.show"] = show
    assert main(["show", "9"]) == 1
    said = capsys.readouterr().err
    assert said == error_line("not_found", "no_setting", name="9\x1b[2J") + "\n"
    assert "\\x1b[2J" in said


def test_no_master_is_exit_3() -> None:
    done = muster("--master", "127.0.0.1:1", "queue")
    assert done.returncode == 3
    assert done.stderr.startswith("error: unreachable: ")


def test_an_empty_queue_says_what_to_do(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    master.verbs["task.list"] = lambda _: {"tasks": [], "total": 0}
    assert main(["queue"]) == 0
    assert capsys.readouterr().out.startswith("nothing waits or runs; submit with")


def test_a_long_queue_shows_fifty_rows_and_how_to_see_more(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    everything = [task(n) for n in range(1, 201)]
    master.verbs["task.list"] = lambda params: {"tasks": everything[: params.get("limit", 999)], "total": 200}
    main(["queue"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 52
    assert lines[-1].startswith("… and 150 more")
    main(["queue", "--json"])
    assert len(json.loads(capsys.readouterr().out)) == 200


def test_a_reader_that_leaves_is_no_error(master: FakeMaster) -> None:
    everything = [task(n) for n in range(1, 20_001)]
    master.verbs["task.list"] = lambda _: {"tasks": everything, "total": len(everything)}
    done = subprocess.run(
        ["bash", "-c", f"{shlex.quote(sys.executable)} -m muster queue --limit 0 | head -1"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("   ID")
    assert done.stderr == ""


def log_of(text: bytes, *, ended: bool = True) -> Any:
    def read(params: dict[str, Any]) -> dict[str, Any]:
        offset, limit = params["offset"], params["limit"]
        data = base64.b64encode(text[offset : offset + limit]).decode()
        return {"data": data, "offset": offset, "size": len(text), "ended": ended, "path": "x"}

    return read


@pytest.mark.parametrize(
    ("text", "tail", "shown"),
    [
        ("a\nb\nc\n", "2", "b\nc\n"),
        ("a\nb\nc", "2", "b\nc"),
        ("a\n", "5", "a\n"),
        ("", "5", ""),
        ("a\n", "0", ""),
        ("x" * 70_000 + "\n" + "y" * 70_000 + "\nz\n", "2", "y" * 70_000 + "\nz\n"),
        ("x\n" + "y" * 5_000_000 + "\nz\n", "2", "y" * 5_000_000 + "\nz\n"),
    ],
)
def test_the_tail_of_a_log(
    master: FakeMaster, capfdbinary: pytest.CaptureFixture[bytes], text: str, tail: str, shown: str
) -> None:
    master.verbs["log.read"] = log_of(text.encode())
    master.verbs["task.show"] = lambda params: task(params["id"], "running", started_at=1.0)
    assert main(["logs", "7", "--tail", tail]) == 0
    assert capfdbinary.readouterr().out.decode() == shown


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        (task(7, "succeeded", exit_code=0), 0),
        (task(7, "failed", exit_code=3), 3),
        (task(7, "failed", reason="the folder /x does not exist"), 125),
        (task(7, "lost", reason="the node rebooted"), 125),
    ],
)
def test_run_shows_the_output_and_ends_like_the_task(master: FakeMaster, ended: dict[str, Any], code: int) -> None:
    master.verbs.update({
        "task.submit": lambda _: {"id": 7},
        "subscribe": lambda _: {},
        "task.list": lambda _: {"tasks": [ended], "total": 1},
        "log.read": log_of(b"hello\n"),
    })  # fmt: skip
    done = muster("run", "--", "x")
    assert (done.returncode, done.stdout) == (code, "hello\n")
    assert (ended["reason"] or "") in done.stderr


def test_one_refused_id_does_not_stop_the_others(master: FakeMaster, capsys: pytest.CaptureFixture[str]) -> None:
    def hold(params: dict[str, Any]) -> dict[str, Any]:
        if params["id"] == 2:
            raise Refusal("conflict", "task 2 is running")
        return task(params["id"], "held")

    master.verbs["task.hold"] = hold
    assert main(["hold", "1-3"]) == 1
    output = capsys.readouterr()
    assert output.out == "tasks 1, 3: held\n"
    assert output.err == "error: conflict: task 2 is running\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    said = capsys.readouterr().out
    assert "examples:" in said
    assert f"muster {name}" in said


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in COMMANDS)


def test_a_quick_command_imports_nothing_slow(master: FakeMaster) -> None:
    master.verbs["task.list"] = lambda _: {"tasks": [task(1)], "total": 1}
    code = (
        "import sys; from client.cli.main import main; main(['queue']); "
        "print(sorted({'msgspec', 'rich', 'asyncio', 'dataclasses', 'inspect', 'shtab', 'subprocess', 'shlex', 'ssl', "
        "'urllib.parse', 'client.logins', 'client.people', 'client.proxy', 'client.trust'} "
        "& set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == "[]\n"


def test_no_garbage_is_looked_for_while_a_command_loads_and_runs(master: FakeMaster) -> None:
    master.verbs["task.list"] = lambda _: {"tasks": [task(1)], "total": 1}
    code = (
        "import gc, os, sys; from client.cli.begin import main\n"
        "looked = []; gc.callbacks.append(lambda phase, _: looked.append(phase))\n"
        "os._exit = lambda code: print(code, looked, file=sys.stderr)\n"
        "sys.argv = ['muster', 'queue']; main()\ngc.callbacks.clear()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == "0 []\n"


def test_ten_thousand_rows_through_the_whole_command(master: FakeMaster) -> None:
    everything = [task(n, name=f"run {n}", reason="waits for 2 GPUs") for n in range(1, 10_001)]
    master.verbs["task.list"] = lambda _: {"tasks": everything, "total": 10_000}
    assert muster("queue", "--limit", "0").stdout.count("\n") == 10_001
    assert len(master.asked("task.list")) == 1


def test_a_row_costs_the_whole_command_as_little_among_many_as_among_few(
    master: FakeMaster, capsys: pytest.CaptureFixture[str]
) -> None:
    def cost(rows: int) -> tuple[int, int]:
        everything = [task(n, name=f"run {n}", reason="waits for 2 GPUs") for n in range(1, rows + 1)]
        master.verbs["task.list"] = lambda _: {"tasks": everything, "total": rows}
        instructions = instructions_of(lambda: main(["queue", "--limit", "0"]))
        read = bytes_read_by(lambda: main(["queue", "--limit", "0"]))
        assert capsys.readouterr().out.count("\n") == 2 * (rows + 1)
        return instructions, read

    cost(10)  # loads what is needed
    (few, read_few), (many, read_many) = cost(250), cost(1000)
    assert many < 4.5 * few
    assert read_many < 4.5 * read_few
