"""From a task to what bash really runs: words stay words, environments are activated, GPUs are told."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from master.core.attempts.activation import CANNOT_START, SETUP_FAILED
from master.core.attempts.launching import LaunchSettings, argv, environment, launch_message
from master.core.tasks.attempt import Part
from master.core.tasks.task import EarlySignal, Snapshot, Task

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
    done = subprocess.run(argv(task, conda), capture_output=True, cwd=cwd, check=False, timeout=60)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize("setup", ["words=lost", "words=(lost too)", "declare -r words=lost", "unset words"])
def test_a_setup_may_have_a_variable_of_any_plain_name(setup: str) -> None:
    task = Task(id=1, command=["echo", "two words"], setup=setup)
    done = subprocess.run(argv(task, "/nowhere"), capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"two words\n")


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


@pytest.mark.parametrize("command", ["echo ran", ["echo", "ran"]])
@pytest.mark.parametrize(
    "setup",
    ["false", "exit 0", "exit 3", "true\nfalse", "set -e\nfalse\ntrue", "cd /nowhere", "no-such-程序",
     "return 5 2>/dev/null", "f() { exit 0; }\nf", "set -u; : $NOT_THERE", "fi",
     # not whole
     "false |", "true |", "false &&", "false ||", "true ||", "true \\", "env \\", "echo 'a", 'echo "a', "echo `true",
     "cat > /dev/null <<EOF\na", "cat > /dev/null <<EOF", "if true; then", "while true; do", "(", "{", "f() {",
     "case x in", "shopt -s lastpipe; false |", "set -e; false |", "trap : EXIT; false", "trap : EXIT; false |"],
)  # fmt: skip
def test_behind_a_set_up_that_fails_or_ends_the_shell_no_command_runs(command: list[str] | str, setup: str) -> None:
    code, out, err = bash(command, setup=setup)
    assert (code, out) == (SETUP_FAILED, "")
    assert "muster: the setup failed" in err


def test_behind_a_set_up_with_an_open_parenthesis_no_command_runs() -> None:
    code, out, _ = bash("echo ran", setup="echo $(true")
    assert (code != 0, out) == (True, ""), "bash 5.2 breaks down behind its message"


@pytest.mark.parametrize(
    "setup",
    ["false || true", "# nothing", " ", "(exit 3) || :", "set -eu", "x=$(exit 4; echo 1) || x=2", "true &\nwait",
     "cat > /dev/null <<EOF\na\nEOF", "true # and\\", "shopt -s extglob\n: +(a)", "exec 3>&1", "set -e",
     "set -- a b", "set -x; true &&", "true;", "exec 2>&1 > >(cat)", "set -eu; x() { :; }; x", "_muster_setup=1",
     "shopt -s expand_aliases\nalias go=true\ngo"],
)  # fmt: skip
def test_a_set_up_that_ends_well_leaves_the_command_as_it_is(setup: str) -> None:
    assert bash("echo ran; exit 7", setup=setup)[:2] == (7, "ran\n")
    assert bash(["sh", "-c", "echo ran; exit 7"], setup=setup)[:2] == (7, "ran\n")


def test_a_trap_that_a_set_up_sets_for_the_end_is_run_behind_the_command() -> None:
    assert bash("echo ran; exit 7", setup="trap 'echo tidy' EXIT")[:2] == (7, "ran\ntidy\n")


@pytest.mark.parametrize("kind", ["venv", "conda"])
def test_an_environment_whose_python_is_gone_keeps_another_one_from_running(tmp_path: Path, kind: str) -> None:
    prefix = Path(_conda(tmp_path))
    place = prefix / "envs" / "e"
    (place / "bin").mkdir(parents=True)
    if kind == "venv":
        (place / "pyvenv.cfg").touch()
        (place / "bin" / "activate").touch()
    else:
        (place / "conda-meta").mkdir()
        (place / "conda-meta" / "python-3.11.2-h955ad1f_0.json").touch()
    named = [{"conda": str(prefix), "env": "e"}] + ([{"env": str(place)}] if kind == "venv" else [])
    for asked in named:
        (place / "bin" / "python").unlink(missing_ok=True)
        (place / "bin" / "python").symlink_to("gone")
        code, out, err = bash(["echo", "ran"], **asked)
        assert (code, out) == (CANNOT_START, "")
        assert err.count("muster: ") == 1
        assert "has no Python that runs" in err
        (place / "bin" / "python").unlink()
        (place / "bin" / "python").symlink_to(sys.executable)
        assert bash(["echo", "ran"], **asked)[:2] == (0, "ran\n")


def test_an_environment_of_condas_without_a_python_of_its_own_is_activated(tmp_path: Path) -> None:
    prefix = Path(_conda(tmp_path))
    (prefix / "envs/r/conda-meta").mkdir(parents=True)
    (prefix / "envs/r/conda-meta/r-base-4.3.1-0.json").touch()
    assert bash('echo "$ENV_NAME"', conda=str(prefix), env="r")[:2] == (0, "r\n")


@pytest.mark.parametrize("said", ["exit 0", "exit 1", "return 1", "false"])
def test_an_activate_script_that_ends_the_shell_or_fails_keeps_the_command_from_running(
    tmp_path: Path, said: str
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "activate").write_text(f"{said}\n", encoding="utf-8")
    code, out, err = bash(["echo", "ran"], env=str(tmp_path))
    assert (code, out) == (CANNOT_START, "")
    assert err.count("muster: ") == 1


def test_a_task_sees_its_folder_by_the_path_that_was_said(tmp_path: Path) -> None:
    (tmp_path / "mnt").mkdir()
    (tmp_path / "share").symlink_to("mnt")
    for said, due in (("share", "share"), ("gone", "mnt")):
        task = Task(id=1, command='echo "$PWD"; pwd', cwd=f"{tmp_path}/{said}", allocation=[Part("a", [], "1.1.a")])
        variables = environment(task, task.allocation[0], {})
        here = tmp_path / "mnt"
        done = subprocess.run(argv(task, "/c"), cwd=here, env=variables, capture_output=True, text=True, check=True)
        assert done.stdout == f"{tmp_path}/{due}\n" * 2


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


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("{gpu_list}", "2,5"),
        ("--gpus={gpu_list}", "--gpus=2,5"),
        ("{gpu_list}/{gpu_list}", "2,5/2,5"),
        ("print(f'{gpu_list}')", "print(f'{gpu_list}')"),
        ("echo {gpu_list}", "echo {gpu_list}"),
        ("${gpu_list}", "${gpu_list}"),
        ("{gpus}", "{gpus}"),
    ],
)
def test_a_word_that_names_the_list_of_gpus_has_what_the_attempt_got(word: str, told: str) -> None:
    settings = LaunchSettings(conda="/conda", task_env={}, grace_s=3.0)
    task = msgspec.structs.replace(_placed([2, 5]), command=["train", word])
    assert launch_message(task, task.allocation[0], settings)["argv"][-1] == told
    assert task.command == ["train", word], "the next attempt may get others"
    task.allocation[0] = Part("a", [], "7.2.abc")
    assert launch_message(task, task.allocation[0], settings)["argv"][-1] == told.replace("2,5", "")


def test_a_text_keeps_its_braces_for_there_the_variable_tells_the_list() -> None:
    settings = LaunchSettings(conda="/conda", task_env={}, grace_s=3.0)
    task = msgspec.structs.replace(_placed([2]), command="train {gpu_list}")
    assert launch_message(task, task.allocation[0], settings)["argv"][-1] == "train {gpu_list}"


@pytest.mark.parametrize(
    ("limit", "ran", "before"), [(3600.0, 0.0, 600.0), (400.0, 0.0, 200.0), (3600.0, 3200.0, 200.0)]
)
def test_a_limit_that_was_cut_below_the_signal_before_it_leaves_the_program_time_to_heed_it(
    limit: float, ran: float, before: float
) -> None:
    settings = LaunchSettings(conda="/conda", task_env={}, grace_s=3.0)
    task = _placed([0], time_limit_s=limit, ran_s=ran, signal=EarlySignal("USR1", 600.0))
    assert launch_message(task, task.allocation[0], settings)["signal"]["before_s"] == before


def test_a_task_that_shares_a_gpu_takes_no_more_of_it_than_it_needs_unless_it_says_so_itself() -> None:
    task = _placed([0], variables={"TF_FORCE_GPU_ALLOW_GROWTH": "false"})
    assert "XLA_PYTHON_CLIENT_PREALLOCATE" not in _seen(task, {})
    task.allocation = [Part("a", [0], "7.2.abc", gpu_mib=8000)]
    seen = _seen(task, {})
    assert (seen["XLA_PYTHON_CLIENT_PREALLOCATE"], seen["TF_FORCE_GPU_ALLOW_GROWTH"]) == ("false", "false")


def test_a_task_that_would_share_and_runs_alone_until_it_is_known_takes_no_more_than_it_needs_either() -> None:
    seen = _seen(_placed([0], share=True), {})
    assert seen["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false", "else all of the card would be learned"


def test_a_task_in_a_copy_of_code_is_told_of_what_it_is_one() -> None:
    copy = Snapshot("/lab/ann/net", "0" * 64, 3, 1200, "1a2b3c4d5e", changed=True)
    seen = _seen(_placed([], snapshot=copy), {})
    assert (seen["MUSTER_SNAPSHOT_OF"], seen["MUSTER_SNAPSHOT_COMMIT"]) == ("/lab/ann/net", "1a2b3c4d5e")
    assert not [name for name in _seen(_placed([]), {}) if "SNAPSHOT" in name]


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


def _conda_of(folder: Path) -> Path:
    """A conda that says which it is, and in which environment."""
    (folder / "bin").mkdir(parents=True)
    script = f'export WHOSE={shlex.quote(str(folder))} ENV_NAME="$1"\n'
    (folder / "bin" / "activate").write_text(script, encoding="utf-8")
    return folder


def _environment_of_condas(place: Path) -> str:
    (place / "conda-meta").mkdir(parents=True)
    return str(place)


def test_an_environment_of_condas_is_activated_by_its_path_and_by_the_conda_that_owns_it(tmp_path: Path) -> None:
    labs, own = _conda_of(tmp_path / "the 'lab's"), _conda_of(tmp_path / "home $(x) 中" / "miniforge3")
    for place, owner in (
        (labs / "envs" / "torch", labs),
        (own / "envs" / "torch", own),
        (tmp_path / "project" / "env", labs),  # made with `--prefix`
        (tmp_path / "micromamba" / "envs" / "torch", labs),  # a base without a script
    ):
        env = _environment_of_condas(place)
        for said in (env, f"{env}/"):
            code, out, err = bash('echo "$WHOSE|$ENV_NAME"', conda=str(labs), env=said)
            assert (code, out, err) == (0, f"{owner}|{env}\n", "")


def test_one_that_no_conda_is_there_for_keeps_the_command_from_running(tmp_path: Path) -> None:
    env = _environment_of_condas(tmp_path / "project" / "env")
    code, out, err = bash("echo ran", conda="/nowhere", env=env)
    assert (code, out) == (CANNOT_START, "")
    assert f"muster: the environment {env} could not be activated" in err


def test_a_script_of_its_own_activates_an_environment_of_condas_too(tmp_path: Path) -> None:
    """A base has one, and so have environments of old versions."""
    base = _conda_of(tmp_path / "miniforge3")
    (base / "conda-meta").mkdir()
    assert bash('echo "$WHOSE|$ENV_NAME"', conda="/nowhere", env=str(base))[:2] == (0, f"{base}|\n")
