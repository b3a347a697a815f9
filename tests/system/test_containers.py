"""Master and console as containers: the files fit the repository and conf.json, and what they start is a lab.

With Podman, and in `make soak` alone, the image is built and run. Where the base image, or what pip needs, comes from
elsewhere, MUSTER_CONTAINER_BUILD has words for `podman build` (`--build-arg BASE=NAME`).
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import httpx
import jsonschema
import pytest

from tests import rights
from tests.people_here import MASTER, PeopleHere, as_person
from tests.ports import free_ports
from tests.system.containers import FOLDER, asked_for, composed, copied, options
from tests.system.lab import ROOT, Lab
from tests.waiting import PATIENCE_S, until
from wire.message import Message

SCHEMA = ROOT / "tests" / "data" / "compose" / "compose-spec.json"
IMAGES_PYTHON = "/opt/muster/bin/"
BUILD = shlex.split(os.environ.get("MUSTER_CONTAINER_BUILD", ""))


def values(lab: Lab, account: str = "1500:1500") -> dict[str, str]:
    """What .env says for a lab."""
    return {"MUSTER_ACCOUNT": account, "MUSTER_ROOT": str(lab.folder), "MUSTER_CONF": str(lab.conf)}


def test_the_compose_file_is_one_and_its_template_names_every_value(lab: Lab) -> None:
    schema = json.loads(SCHEMA.read_bytes())
    jsonschema.Draft202012Validator(schema).validate(composed(values(lab)))
    template = (FOLDER / "env.example").read_text(encoding="utf-8")
    assert {line.partition("=")[0] for line in template.splitlines() if line[:1] not in ("#", "")} == asked_for()


def test_the_image_is_made_of_the_packages_that_are_installed_and_of_nothing_else() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = {name.rstrip("*") for name in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    said = {project["project"]["readme"], *project["project"]["license-files"], "pyproject.toml"}
    assert set(copied()) == packages | said
    assert [name for name in copied() if not (ROOT / name).exists()] == []
    sent = (FOLDER / "Containerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert {line[1:] for line in sent if line.startswith("!")} == set(copied())


def test_nothing_is_given_to_a_container_that_it_does_not_need(lab: Lab) -> None:
    for service in composed(values(lab))["services"].values():
        words = options(service, {})
        mounts = [words[at + 1] for at, word in enumerate(words) if word == "--volume"]
        assert [one for one in mounts if not one.endswith(":ro")] == [f"{lab.folder}:{lab.folder}"]
        assert words[words.index("--cap-drop") + 1] == "ALL"
        assert "no-new-privileges:true" in words
        assert "--read-only" in words


def test_the_command_lines_of_the_containers_are_a_lab(lab: Lab) -> None:
    [port] = free_ports(1)
    lab.write_conf(web={"port": port})
    services = composed(values(lab))["services"]
    started = {name: subprocess.Popen(_here(one["command"]), cwd=ROOT, env=lab.environment(), stderr=subprocess.DEVNULL)
               for name, one in services.items()}  # fmt: skip
    try:
        word, *check = services["master"]["healthcheck"]["test"]
        assert word == "CMD"
        until("it is healthy", lambda: subprocess.run(_here(check), capture_output=True, check=False).returncode == 0)
        until("the console reaches it", lambda: _is_ready(port))
    finally:
        for process in started.values():
            process.terminate()
        codes = {name: process.wait(PATIENCE_S) for name, process in started.items()}
    assert codes == {"master": 0, "console": -signal.SIGTERM}  # as uvicorn ends, which does what it was asked first


def _here(command: list[str]) -> list[str]:
    """The same words with our Python and our `muster`."""
    return [word.replace(IMAGES_PYTHON, f"{Path(sys.executable).parent}/") for word in command]


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://localhost:{port}/readyz").status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


class Containers:
    """The services of a lab in Podman, by name. `names`: who has which account, in files instead of /etc."""

    def __init__(self, lab: Lab, names: Path) -> None:
        self.lab = lab
        self._instead = {f"/etc/{name}": names / name for name in ("passwd", "group")}
        self._services = composed(values(lab, f"{MASTER}:{MASTER}"))["services"]

    def _called(self, name: str) -> str:
        return f"muster-test-{os.getpid()}-{name}"

    def run(self, name: str) -> None:
        """Start one."""
        service = self._services[name]
        words = options(service, self._instead)
        podman("run", "--detach", "--name", self._called(name), *words, service["image"], *service["command"])

    def muster(self, *words: str) -> str:
        """Run a command of `muster` in the master's container."""
        return podman("exec", self._called("master"), "muster", "--conf", str(self.lab.conf), *words)

    def end(self) -> None:
        """Remove them."""
        for name in self._services:
            podman("rm", "--force", "--ignore", "--time", "10", self._called(name))

    def again(self, name: str) -> None:
        """Stop one as `docker compose stop` does, and start it."""
        podman("stop", "--time", "30", self._called(name))
        podman("start", self._called(name))


def podman(*words: str) -> str:
    done = subprocess.run(["podman", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def containers() -> Iterator[Containers]:
    """Of a lab whose node is not reached, in a folder that every account can pass through; the image is built anew."""
    rights.need_real_root()
    rights.need_program("podman", "podman")
    folder = Path(tempfile.mkdtemp(prefix="muster-containers-"))
    folder.chmod(0o755)
    PeopleHere(folder)
    podman("build", *BUILD, "--file", str(FOLDER / "Containerfile"), "--tag", "muster", str(ROOT))
    lab = Lab(folder / "lab", nodes=0)
    lab.write_registry([{"name": "far", "ip": "192.0.2.1", "user_name": "lab", "gpu_count": 0, "gpu_info": []}])
    [port] = free_ports(1)
    lab.write_conf(web={"port": port}, local_users="same name")
    for path in (lab.folder, *lab.folder.rglob("*")):
        shutil.chown(path, MASTER, MASTER)
    made = Containers(lab, folder / "accounts")
    try:
        yield made
    finally:
        made.end()
        shutil.rmtree(folder)


@pytest.mark.soak
def test_in_containers_the_accounts_of_the_machine_are_known_and_a_restart_loses_nothing(
    containers: Containers,
) -> None:
    lab = containers.lab

    def whoami(name: str) -> subprocess.CompletedProcess[str]:
        words = [*as_person(name), sys.executable, "-m", "muster", "whoami", "--conf", str(lab.conf)]
        env = {**lab.environment(), "HOME": str(lab.folder.parent / "accounts" / name)}
        return subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)

    containers.run("master")
    until("it answers", lambda: lab.muster("status").returncode == 0)
    containers.run("console")
    until("the console reaches it", lambda: _is_ready(lab.keys["web"]["port"]))
    containers.muster("users", "add", "alice")
    known, other = whoami("alice"), whoami("carol")
    assert known.stdout.splitlines()[:1] == ["user    alice"], known.stderr
    assert str(Message("account_not_added", account="carol")) in other.stdout
    containers.muster("submit", "--hold", "--gpus", "0", "--", "true")
    containers.again("master")
    until("it is there again", lambda: lab.muster("status").returncode == 0)
    [task] = json.loads(lab.muster("queue", "--json").stdout)
    assert (task["id"], task["owner"]) == (1, "queue")
    until("the console found it", lambda: _is_ready(lab.keys["web"]["port"]))
