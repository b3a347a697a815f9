"""From a task to what bash really runs: words stay words, environments are activated, GPUs are told."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from master.core.activation import CANNOT_START
from master.core.attempt import Part
from master.core.launching import LaunchSettings, argv, environment, launch_message
from master.core.task import Task

NASTY = [
    "plain",
    "two words",
    "",
    "'single'",
    '"double"',
    "`echo backtick`",
    "$(echo dollar)",
    "$HOME ${PATH} $1 $@",
    "a\\b \\n \\",
    "semi; echo && || | & > /dev/null < x",
    "* ? [a-z] ~ {1,2} !! #",
    "line\nbreak\ttab\r",
    "中文 训练 “引号” 😀",
    "-n",
    "--",
    "''\"\"``$$",
]


def bash(command: list[str] | str, *, conda: str = "/nowhere", cwd: str = "/", **keys: str) -> tuple[int, str, str]:
    task = Task(id=1, command=command, **keys)  # type: ignore[arg-type]
    done = subprocess.run(argv(task, conda), capture_output=True, cwd=cwd, check=False, timeout=20)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_the_words_of_a_command_reach_the_program_as_they_are() -> None:
    code, out, _ = bash(["printf", "%s\\0", *NASTY])
    assert (code, out.split("\0")[:-1]) == (0, NASTY)


@pytest.mark.parametrize("word", NASTY)
def test_each_word_also_with_a_set_up_command_and_an_environment(word: str, tmp_path: Path) -> None:
    prefix = _conda(tmp_path)
    code, out, _ = bash(["printf", "%s|%s", "$ENV_NAME", word], conda=prefix, env="训练.env-1", setup="X=1")
    assert (code, out) == (0, "$ENV_NAME|" + word)


def test_a_text_is_bash_code() -> None:
    assert bash("""for i in 1 2; do echo "$i 'x' $(echo "中")"; done; exit 3""")[:2] == (3, "1 'x' 中\n2 'x' 中\n")


def test_the_program_takes_the_place_of_bash_so_that_signals_and_codes_are_its_own() -> None:
    assert bash(["bash", "-c", "kill -9 $$"])[0] == -9


@pytest.mark.parametrize("name", ["base", "训练.env-1", "py3.11+cu12"])
def test_a_named_environment_is_activated_from_the_shared_conda(tmp_path: Path, name: str) -> None:
    prefix = _conda(tmp_path / "with 'quotes' and $(blank)")
    assert bash('echo "<$ENV_NAME>"', conda=prefix, env=name)[:2] == (0, f"<{name}>\n")


def test_a_virtual_environment_is_activated_by_its_path(tmp_path: Path) -> None:
    folder = tmp_path / "a venv; 'of' \"mine\" $HOME 中"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "activate").write_text('VIRTUAL_ENV=here; export VIRTUAL_ENV; [ -z "$1" ]\n', encoding="utf-8")
    assert bash(["bash", "-c", "echo $VIRTUAL_ENV"], env=str(folder))[:2] == (0, "here\n")


def test_an_environment_that_is_not_there_keeps_the_command_from_running() -> None:
    code, out, err = bash("echo ran", conda="/nowhere", env="gone")
    assert (code, out) == (CANNOT_START, "")
    assert "muster: the environment gone could not be activated" in err


def test_a_set_up_command_may_span_lines_and_goes_before_the_command() -> None:
    assert bash("echo $A$B", setup="A=1\nB='2 3'")[:2] == (0, "12 3\n")


def test_a_command_that_does_not_exist_has_the_code_that_bash_gives_it() -> None:
    code, _, err = bash(["no-such-程序"])
    assert code == 127
    assert "no-such-程序" in err


def _placed(gpus: list[int], **keys: object) -> Task:
    part = Part("a", gpus, "7.2.abc", "boot", "state")
    return Task(id=7, command="true", allocation=[part], attempt=2, **keys)  # type: ignore[arg-type]


def _seen(task: Task, *words: Any) -> dict[str, str]:
    return environment(task, task.allocation[0], *words)


@pytest.mark.parametrize(("gpus", "visible"), [([], ""), ([3], "3"), ([0, 2, 5], "0,2,5")])
def test_a_task_sees_the_gpus_that_it_was_given_and_no_others(gpus: list[int], visible: str) -> None:
    seen = _seen(_placed(gpus), {})
    assert (seen["CUDA_VISIBLE_DEVICES"], seen["CUDA_DEVICE_ORDER"]) == (visible, "PCI_BUS_ID")


def test_gpus_are_called_by_name_where_their_numbers_mean_others() -> None:
    seen = _seen(_placed([0, 2]), {}, {0: "GPU-a", 2: "GPU-c"})
    assert seen["CUDA_VISIBLE_DEVICES"] == "GPU-a,GPU-c"


def test_the_users_variables_win_over_the_masters_and_never_over_what_says_which_gpus() -> None:
    variables = {"A": "user", "CUDA_VISIBLE_DEVICES": "0,1,2,3", "MUSTER_TASK_ID": "99"}
    seen = _seen(_placed([1], variables=variables, name="名"), {"A": "conf", "B": "conf"})
    told = {key: seen[key] for key in ("A", "B", "CUDA_VISIBLE_DEVICES", "MUSTER_TASK_ID", "MUSTER_TASK_NAME")}
    assert told == {
        "A": "user",
        "B": "conf",
        "CUDA_VISIBLE_DEVICES": "1",
        "MUSTER_TASK_ID": "7",
        "MUSTER_TASK_NAME": "名",
    }


def test_the_message_for_the_agent_is_whole() -> None:
    settings = LaunchSettings(conda="/conda", task_env={"P": "1"}, grace_s=3.0)
    task = _placed([0], cwd="/work", log_path="/logs/7.log", time_limit_s=60.0)
    message = launch_message(task, task.allocation[0], settings)
    assert (message["op"], message["launch_id"], message["cwd"]) == ("launch", "7.2.abc", "/work")
    assert (message["log_path"], message["grace_s"], message["time_limit_s"]) == ("/logs/7.log", 3.0, 60.0)
    assert message["env"]["P"] == "1"


def _conda(folder: Path) -> str:
    prefix = folder / "miniconda3"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "activate").write_text('export ENV_NAME="$1"\n', encoding="utf-8")
    return os.fspath(prefix)
