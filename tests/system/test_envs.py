"""Environments as labs have them, asked through a real agent: conda's, virtual ones, broken and moved ones."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cases import each_case
from tests.faults import in_words
from tests.system.lab import ROOT, Lab
from tests.waiting import until
from wire.errors import ConflictError, MusterError, NotFoundError
from wire.message import Message

VERSION = "{}.{}.{}".format(*sys.version_info[:3])
MANY = 1000

ACTIVATE = """_PREFIX="{prefix}"
. "$_PREFIX/etc/profile.d/conda.sh" || return $?
conda activate "$@"
"""
CONDA_SH = """export CONDA_EXE="{prefix}/bin/conda"
__ask() {{
    local lines
    lines="$(PS1="$PS1" "$CONDA_EXE" shell.posix "$@")" || return $?
    eval "$lines"
    hash -r
}}
conda() {{
    case "$1" in activate|deactivate) __ask "$@" ;; *) "$CONDA_EXE" "$@" ;; esac
}}
if [ -z "${{CONDA_SHLVL+x}}" ]; then export CONDA_SHLVL=0; PS1="${{PS1-}}"; fi
"""
CONDA = """#!{prefix}/bin/python
import os, shlex, sys
name = sys.argv[3] if len(sys.argv) > 3 else "base"
place = "{prefix}" if name == "base" else os.path.join("{prefix}/envs", name)
if not os.path.isdir(place + "/conda-meta"):
    print("\\nEnvironmentNameNotFound: Could not find conda environment: " + name, file=sys.stderr)
    print("You can list all discoverable environments with `conda info --envs`.\\n\\n", file=sys.stderr)
    sys.exit(1)
print("export PATH=" + shlex.quote(place + "/bin:" + os.environ["PATH"]))
print("export CONDA_PREFIX=" + shlex.quote(place))
print("export CONDA_SHLVL=1")
for folder, _, scripts in os.walk(place + "/etc/conda/activate.d"):
    for script in scripts:
        print(". " + shlex.quote(folder + "/" + script))
"""
"""What conda puts into a shell, as far as it matters here: its activation asks a Python program what to set."""


def conda_environment(place: Path, *packages: str) -> None:
    """A folder as conda makes them: a Python whose prefix it is, `conda-meta`, and no script of its own."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, timeout=60)
    (place / "bin/activate").unlink()
    (place / "conda-meta").mkdir()
    for package in packages:
        (place / "conda-meta" / f"{package}.json").touch()


def module(place: Path, name: str, text: str) -> None:
    """Something that can be imported there."""
    site = next((place / "lib").glob("python*")) / "site-packages"
    (site / f"{name}.py").write_text(text, encoding="utf-8")


def distribution(place: Path, name: str, version: str) -> None:
    """What pip notes down of a package."""
    site = next((place / "lib").glob("python*")) / "site-packages"
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")


def fill(prefix: Path) -> None:
    """A shared prefix with conda in it, and environments of all kinds."""
    conda_environment(prefix, "conda-24.5.0-py311_0", "python-3.11.2-h955ad1f_0_cpython")
    (prefix / "etc/profile.d").mkdir(parents=True)
    for name, text in (("bin/activate", ACTIVATE), ("etc/profile.d/conda.sh", CONDA_SH), ("bin/conda", CONDA)):
        (prefix / name).write_text(text.format(prefix=prefix), encoding="utf-8")
    (prefix / "bin/conda").chmod(0o755)
    torch = prefix / "envs/训练-1"
    conda_environment(torch, "some_thing-1.0-py_0", "_libgcc_mutex-0.1-main")
    scripts = torch / "etc/conda/activate.d"
    scripts.mkdir(parents=True)
    (scripts / "hello.sh").write_text("echo welcome; [ $# = 0 ] || echo words: $@\n", encoding="utf-8")
    module(torch, "torch", TORCH)
    for number in range(MANY):
        distribution(torch, f"package-{number:04}", "1.2.3")
    distribution(torch, "some-thing", "1.5")
    for name in ("envs/venv", "envs/liar", "envs/has space"):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix / name)], check=True, timeout=60)
    module(prefix / "envs/venv", "tensorflow", TENSORFLOW)
    module(prefix / "envs/liar", "torch", 'print("\\n\\x1emuster:{}")\nimport os\nos._exit(0)\n')
    subprocess.run(["cp", "-a", str(prefix / "envs/venv"), str(prefix / "envs/copied")], check=True)


TORCH = """__version__ = "2.1.0+cu121"
class version: cuda = "12.1"
class cuda:
    is_available = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 2)
    get_device_name = staticmethod(lambda index: f"NVIDIA GeForce RTX 3090 ({index})")
"""
TENSORFLOW = """import sys
print("2024-01-01 cuda_dnn.cc: Unable to register cuDNN factory", file=sys.stderr)
__version__ = "2.15.0"
class sysconfig: get_build_info = staticmethod(lambda: {"cuda_version": "12.2"})
class config: list_physical_devices = staticmethod(lambda kind: [])
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two nodes, the second with GPUs, and the prefix."""
    made = Lab(tmp_path_factory.mktemp("envs") / "lab", nodes=2)
    entries = json.loads(made.registry.read_text(encoding="utf-8"))
    made.write_registry([{**entries[0], "gpu_count": 0}, entries[1]])
    made.write_conf(conda="envs/miniconda3", limits={"env_requests_per_minute": 1000})
    fill(made.folder / "envs/miniconda3")
    try:
        made.start()
        with made.client() as client:
            until("both nodes", lambda: all(node["state"] == "online" for node in client.nodes()))
        yield made
    finally:
        left = made.close()
    assert left == []


def ask(lab: Lab, verb: str, **params: Any) -> Any:
    """What a verb answers."""
    with lab.client() as client:
        return client.call(f"env.{verb}", params)


def test_what_is_listed_can_be_used(lab: Lab) -> None:
    found = json.loads(lab.muster("env", "list", "--json").stdout)
    names = [env["name"] for env in found]
    assert names == ["base", "copied", "liar", "venv", "训练-1"]
    for name in set(names) - {"copied"}:
        done = lab.muster("env", "check", name)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"{name} can be used on node0: Python {VERSION}\n"
    path = str(lab.folder / "envs/miniconda3/envs/has space")
    assert lab.muster("env", "python", path, "--node", "node1").stdout == (
        f"Python {VERSION}, {path}/bin/python on node1\n"
    )


def test_what_is_checked_is_what_a_task_gets(lab: Lab) -> None:
    with lab.client() as client:
        for name in ("base", "venv", "训练-1"):
            facts = ask(lab, "check", env=name)
            task_id = client.submit(["python", "-c", "import sys; print(sys.prefix)"], env=name)
            assert client.wait([task_id])[task_id]["state"] == "succeeded"
            assert facts["prefix"] in b"".join(client.logs(task_id)).decode().splitlines()


def test_a_thousand_packages_each_once(lab: Lab) -> None:
    packages = [tuple(package) for package in ask(lab, "packages", env="训练-1")["packages"]]
    assert len(packages) == MANY + 2
    assert ("package-0999", "1.2.3", "pip") in packages
    assert ("some_thing", "1.0", "conda") in packages
    assert not [name for name, _, _ in packages if name == "some-thing"], "it is the same one"
    shown = lab.muster("env", "packages", "训练-1").stdout.splitlines()
    assert shown[0].split() == ["PACKAGE", "VERSION", "BY"]
    assert len(shown) == MANY + 3


def test_frameworks_are_asked_where_gpus_are(lab: Lab) -> None:
    done = lab.muster("env", "cuda", "训练-1")
    assert done.returncode == 0
    assert done.stdout == (
        "训练-1 on node1: torch 2.1.0+cu121, CUDA 12.1; GPUs it sees: NVIDIA GeForce RTX 3090 (0), "
        "NVIDIA GeForce RTX 3090 (1)\n"
    )
    done = lab.muster("env", "cuda", "venv", "--framework", "tensorflow", "--node", "node0")
    assert (done.returncode, done.stdout) == (
        0,
        "venv on node0: tensorflow 2.15.0, CUDA 12.2; GPUs it sees: none\n",
    )
    done = lab.muster("env", "cuda", "venv")
    assert done.returncode == 1
    assert done.stdout == "venv on node1: torch cannot be imported: No module named 'torch'\n"


def test_what_conda_says_is_told(lab: Lab) -> None:
    with pytest.raises(NotFoundError) as told:
        ask(lab, "check", env="gone")
    assert (told.value.key, told.value.values["node"]) == ("env_not_activated", "node0")
    assert "EnvironmentNameNotFound: Could not find conda environment: gone" in told.value.values["said"]


def test_an_environment_that_was_copied_is_found_out(lab: Lab) -> None:
    """Its `activate` names the old place, so a task in it would get another Python."""
    done = lab.muster("env", "check", "copied")
    assert done.returncode == 1
    assert done.stderr.startswith("error: conflict: copied on node0: ")
    assert "moved or copied" in done.stderr
    assert not ask(lab, "python", env="copied")["own"]


def test_an_environment_is_believed_only_in_the_shape_that_was_asked_for(lab: Lab) -> None:
    with pytest.raises(ConflictError, match="answers something else"):
        ask(lab, "cuda", env="liar")


@pytest.mark.parametrize(
    "env", ["a b", "../base", "..", "-base", "$(id)", "a;b", "a/b", "/etc", "{root}/../x", "{root}", "{root}/a\nb", ""]
)
def test_what_is_no_environment_reaches_no_node(lab: Lab, env: str) -> None:
    with pytest.raises(MusterError) as told:
        ask(lab, "check", env=env.format(root=lab.folder))
    assert told.value.code == "bad_request"
    assert "\n" not in str(told.value)
    with pytest.raises(NotFoundError) as unknown:
        ask(lab, "check", env="base", node="none")
    assert unknown.value.values["node"] == "none"


# -- one rule for what is said of an environment ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Somebody's own: a conda in his home, outside of `root`, and a project with a virtual environment."""
    made = tmp_path_factory.mktemp("home")
    base = made / "miniforge3"
    conda_environment(base)
    (base / "etc/profile.d").mkdir(parents=True)
    for name, text in (("bin/activate", ACTIVATE), ("etc/profile.d/conda.sh", CONDA_SH), ("bin/conda", OWN_CONDA)):
        (base / name).write_text(text.format(prefix=base), encoding="utf-8")
    (base / "bin/conda").chmod(0o755)
    conda_environment(base / "envs/own", "python-3.11.2-h955ad1f_0_cpython")
    for place in ("project/env", "project/venv", "project/my env", "project/base"):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made / place)], check=True, timeout=60)
    return made


OWN_CONDA = """#!{prefix}/bin/python
import os, shlex, sys
place = sys.argv[3] if len(sys.argv) > 3 else "{prefix}"
if not os.path.isdir(place + "/conda-meta"):
    sys.exit("EnvironmentNameNotFound: " + place)
print("export PATH=" + shlex.quote(place + "/bin:" + os.environ["PATH"]))
print("export CONDA_PREFIX=" + shlex.quote(place))
"""
"""It knows environments by their paths."""


def said_in(lab: Lab, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command, typed in the project."""
    verb, *rest = words
    environment = {**lab.environment(), "HOME": str(home), "PWD": str(home / "project"), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "muster", verb, "--conf", str(lab.conf), *rest], cwd=home / "project", env=environment,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


MEANT = {
    "./env": "{home}/project/env",
    "env": "{home}/project/env",
    "my env": "{home}/project/my env",
    "../project/env/": "{home}/project/env",
    "~/project/env": "{home}/project/env",
    "~/miniforge3/envs/own": "{home}/miniforge3/envs/own",
    "../miniforge3": "{home}/miniforge3",
    "{home}/project/./env": "{home}/project/env",
    "./base": "{home}/project/base",
    "base": "{root}/envs/miniconda3",
    "venv": "{root}/envs/miniconda3/envs/venv",
    "{root}/envs/miniconda3/envs/训练-1": "{root}/envs/miniconda3/envs/训练-1",
}
"""What is typed in the project, and whose Python runs then."""


def test_submit_and_check_mean_the_same_by_the_same_words(lab: Lab, home: Path) -> None:
    with each_case() as cases:
        for words, place in MEANT.items():
            with cases.case(words):
                env, due = (text.format(home=home, root=lab.folder) for text in (words, place))
                checked = said_in(lab, home, "env", "check", env, "--json")
                assert checked.returncode == 0, checked
                assert json.loads(checked.stdout)["prefix"] == due
                command = ["python", "-c", "import sys; print(sys.prefix)"]
                ran = said_in(lab, home, "run", "--env", env, "--", *command)
                assert ran.returncode == 0, ran
                assert due in ran.stdout.splitlines(), ran
                assert "does not exist" not in ran.stderr + checked.stderr
                assert not in_words(ran.stderr, "folder_nowhere")


def test_an_edit_means_the_same(lab: Lab, home: Path) -> None:
    task = said_in(lab, home, "submit", "--hold", "--", "true").stdout.strip()
    assert said_in(lab, home, "edit", task, "env=./env").returncode == 0
    with lab.client() as client:
        assert client.show(int(task))["env"] == str(home / "project/env")
        client.cancel([int(task)])


def test_a_name_that_is_the_labs_stays_it_and_that_there_is_another_one_here_is_noted(lab: Lab, home: Path) -> None:
    done = said_in(lab, home, "env", "check", "venv")
    assert str(Message("env_of_lab_meant", env="venv")) in done.stderr


@pytest.mark.parametrize("option", ["--env", "--cwd"])
@pytest.mark.parametrize("path", ["C:\\Users\\li\\env", "d:/env", "\\\\server\\env", "~nobody-of-this-name/env"])
def test_a_path_that_no_node_can_have_is_refused(lab: Lab, home: Path, option: str, path: str) -> None:
    done = said_in(lab, home, "submit", option, path, "--", "true")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: bad_request: {option} ")


def test_a_folder_from_home_is_that_of_who_types_it(lab: Lab, home: Path) -> None:
    done = said_in(lab, home, "run", "--cwd", "~/project", "--", "pwd")
    assert done.stdout.splitlines()[0] == str(home / "project"), done


@pytest.mark.parametrize("words", [("--cwd", "/nope"), ("--env", "/nope/env"), ("--env", "./gone"), ("--cwd", "gone")])
def test_what_is_on_no_node_is_told_at_once(lab: Lab, home: Path, words: tuple[str, str]) -> None:
    # A submit waits for a moment only: nodes that do not answer by then may have it.
    def told(*options: str) -> bool:
        done = said_in(lab, home, "submit", *options, *words, "--", "true")
        is_told = any(in_words(done.stderr, key) for key in ("folder_nowhere", "env_nowhere"))
        assert done.returncode == (1 if is_told and "--strict" in options else 0), done
        assert done.stdout == "" if done.returncode else done.stdout.strip().isdigit()
        return is_told

    until("a submit is told", lambda: told("--hold"))
    until("a submit is refused", lambda: told("--hold", "--strict"))
    with lab.client() as client:
        client.cancel(everything=True)
