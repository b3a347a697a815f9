"""What a task's environment begins with: the account's own log-in on this machine, whatever its shell does, and never
that of whoever started the agent."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from master.drivers.agent_archive import build
from tests.agent.small_master import Link, Node
from tests.waiting import until

ROOT = Path(__file__).parents[3]
ACCOUNTS = "root:x:{uid}:{gid}::{home}:/bin/bash\n"
INSIDE = 'mount --bind "$1/passwd" /etc/passwd && shift && exec "$@"'


class Homely(Node):
    """A node whose account has a home of its own in the test's folder, with a profile."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.home = folder / "home"
        self.home.mkdir()
        account = ACCOUNTS.format(uid=os.getuid(), gid=os.getgid(), home=self.home)
        (folder / "passwd").write_text(account, encoding="utf-8")
        self._folder = folder

    def clean(self) -> None:
        super().clean()
        for pid in _left(self):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def profile(self, text: str) -> None:
        (self.home / ".bash_profile").write_text(text + "\n", encoding="utf-8", errors="surrogateescape")

    def serve(self, **env: str) -> subprocess.CompletedProcess[str]:
        words = [self.python, "-I", "-S", str(self.archive), "serve", "--state", str(self.state)]
        inside = ["unshare", "--mount", "sh", "-c", INSIDE, "sh", str(self._folder), *words]
        whole = {**self.env, **env}
        done = subprocess.run(inside, env=whole, capture_output=True, text=True, check=False, timeout=60)
        if done.returncode == 0:
            self.agents.append(int((self.state / "lock").read_text(encoding="ascii")))
        return done

    def variables(self, link: Link, launch_id: str = "t1", **env: str) -> dict[str, str]:
        """What a task finds in its environment."""
        assert self.run(link, launch_id, ["/usr/bin/env", "-0"], env=env)["code"] == 0
        text = self.log(launch_id).read_bytes().decode(errors="surrogateescape").rpartition("\0")[0]
        return dict(line.split("=", 1) for line in text.split("\0"))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Homely]:
    made = Homely(tmp_path)
    yield made
    made.clean()


def test_a_task_finds_what_the_accounts_log_in_gives(home: Homely) -> None:
    home.profile(
        "export https_proxy=http://proxy.lab:3128 PATH=/opt/cuda/bin:$PATH WORDS='值 \"1\n2'\n"
        'module() { echo "loads $1"; }; export -f module; not_exported=1; export MUSTER_TOKEN=x'
    )
    link = home.up()
    assert link.welcome["login_fault"] == ""
    found = home.variables(link, COLOUR="blue")
    assert (found["https_proxy"], found["COLOUR"], found["WORDS"]) == ("http://proxy.lab:3128", "blue", '值 "1\n2')
    assert found["PATH"].startswith("/opt/cuda/bin:/")
    assert (found["HOME"], found["USER"], found["LOGNAME"], found["SHELL"]) == (
        *(str(home.home), "root", "root"), "/bin/bash",
    )  # fmt: skip
    assert {"not_exported", "MUSTER_TOKEN", "_", "OLDPWD"} & set(found) == set()
    home.run(link, "t2", "module cuda")
    assert home.text("t2").startswith("loads cuda\n")
    probed = link.probe(["/bin/bash", "-c", "echo $https_proxy; module nccl"])
    assert probed["output"] == "http://proxy.lab:3128\nloads nccl\n"


def test_nothing_of_whoever_started_the_agent_is_among_it(home: Homely) -> None:
    link = home.up(
        OF_SOMEBODY="not yours",
        HOME="/home/somebody",
        VIRTUAL_ENV="/venv",
        PATH="/venv/bin:/usr/bin:/bin",
        LANG="xx_XX",
        BASH_ENV="/nowhere",
    )
    found = home.variables(link)
    assert {"OF_SOMEBODY", "VIRTUAL_ENV", "BASH_ENV"} & set(found) == set()
    assert found["HOME"] == str(home.home)
    assert "/venv" not in found["PATH"]
    assert found["LANG"] != "xx_XX"


def test_the_machines_own_settings_are_there(home: Homely, tmp_path: Path) -> None:
    """As PAM gives them to who comes in over SSH."""
    (tmp_path / "settings").write_text(
        '# the site\nhttp_proxy="http://proxy:1"\nexport no_proxy=a,b \nnonsense\n', encoding="utf-8"
    )
    words = [home.python, "-I", "-S", str(home.archive), "serve", "--state", str(home.state)]
    inside = f"mount --bind {tmp_path}/settings /etc/environment && {INSIDE}"
    subprocess.run(["unshare", "--mount", "sh", "-c", inside, "sh", str(tmp_path), *words], env=home.env, check=True)
    home.agents.append(int((home.state / "lock").read_text(encoding="ascii")))
    found = home.variables(home.link())
    assert (found["http_proxy"], found["no_proxy"]) == ("http://proxy:1", "a,b")


def test_bytes_that_are_no_text_arrive_as_they_are(home: Homely) -> None:
    home.profile("export ODD=$'\\xff\\xfe'")
    assert os.fsencode(home.variables(home.up())["ODD"]) == b"\xff\xfe"


def _prints(home: Homely) -> None:
    home.profile("echo welcome; head -c 200000 /dev/zero | tr '\\0' x; echo A=b; echo err >&2; export FROM_PROFILE=1")


def _leaves_a_daemon(home: Homely) -> None:
    home.profile("(setsid sleep 1000 &); sleep 1000 & export FROM_PROFILE=1")


def _upsets_the_loader(home: Homely) -> None:
    """Which then complains at the start of every program."""
    home.profile("export LD_PRELOAD=/no/such.so FROM_PROFILE=1")


@pytest.mark.parametrize("does", [_prints, _leaves_a_daemon, _upsets_the_loader])
def test_a_shell_that_prints_or_leaves_something_behind_is_understood(
    home: Homely, does: Callable[[Homely], None]
) -> None:
    does(home)
    link = home.up()
    assert link.welcome["login_fault"] == ""
    assert home.variables(link)["FROM_PROFILE"] == "1"
    until("the end of what the shell left", lambda: not _left(home))


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        ("sleep 1000", "timed out after 5 s"),
        ("trap '' TERM HUP INT; setsid sleep 1000; read word < /dev/tty; sleep 1000", "timed out after 5 s"),
        ("exit 3", "ended without saying"),
        ("exec cat", "ended without saying"),
        ("kill -9 $$", "ended without saying"),
        ("head -c 2000000 /dev/zero", "ended without saying"),
        ("if", ""),
    ],
)
def test_whatever_the_shell_does_the_agent_starts_and_tells(home: Homely, profile: str, said: str) -> None:
    home.profile(profile)
    link = home.up(OF_SOMEBODY="not yours")
    assert said in link.welcome["login_fault"]
    assert bool(link.welcome["login_fault"]) == bool(said)
    found = home.variables(link)
    assert found["HOME"] == str(home.home)
    assert "/usr/bin" in found["PATH"].split(":")
    assert "OF_SOMEBODY" not in found
    assert said in (home.state / "agent.log").read_text(encoding="utf-8")
    until("the end of the shell", lambda: not _left(home))


@pytest.mark.parametrize(("profile", "said"), [("umask 027", "0027"), ("", "0077"), ("umask 027; exit 3", "0077")])
def test_a_task_has_the_umask_of_the_accounts_log_in(home: Homely, profile: str, said: str) -> None:
    """If its profile says none, it is that with which the agent began, as sshd gives it."""
    home.profile(profile)
    before = os.umask(0o077)
    try:
        link = home.up()
    finally:
        os.umask(before)
    for launch_id in ("t1", "t2"):
        assert home.run(link, launch_id, "umask")["code"] == 0
        assert home.text(launch_id).startswith(f"{said}\n")
    assert {path.stat().st_mode & 0o077 for path in home.state.rglob("*")} <= {0, 0o055}


def test_a_question_that_is_given_up_leaves_nothing_of_the_shell(home: Homely) -> None:
    home.profile("setsid sleep 1000")
    script = (
        "import os, signal; from monitor.agent import tree; from monitor.agent.probe.login import Login\n"
        "login = Login(); under = lambda: tree.descendants([login.pid], tree.everyone())\n"
        "lines = lambda: [tree.command_line(one.pid) for one in under()]\n"
        "while b'sleep\\0001000\\0' not in lines(): pass\n"
        "os.kill(login.pid, signal.SIGSTOP); print(login.give_up().fault)"
    )
    inside = ["unshare", "--mount", "sh", "-c", INSIDE, "sh", str(home.home.parent), home.python, "-c", script]
    done = subprocess.run(inside, cwd=ROOT, env=home.env, capture_output=True, text=True, check=False, timeout=60)
    assert "ended without saying what its environment is" in done.stdout, done.stderr
    until("the end of the shell", lambda: not _left(home))


def test_the_agent_counts_its_idle_time_from_when_it_can_be_reached(home: Homely) -> None:
    home.profile("sleep 1000")
    link = home.up(MUSTER_AGENT_IDLE_S="4")  # less than it waits for the shell
    assert "timed out" in link.welcome["login_fault"]


def test_an_account_that_no_directory_knows_has_an_environment_too() -> None:
    """As in a container that is run under a number."""
    script = "from agent.probe.login import first_variables as first; print(first()['USER'], first()['HOME'])"
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="muster-login-") as name:
        folder = Path(name)  # the sources may lie where nobody else may read
        folder.chmod(0o755)
        (folder / "agent.pyz").write_bytes(build().compiled.data)
        words = ["setpriv", "--reuid=54321", "--clear-groups", "/usr/bin/python3", "-c", script]
        env = {"PYTHONPATH": str(folder / "agent.pyz")}
        done = subprocess.run(words, cwd="/", env=env, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("54321 /\n", "")


def _left(home: Homely) -> list[int]:
    """Living processes with the account's home that belong to no task."""
    mark = f"HOME={home.home}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if mark in variables and not any(one.startswith(b"MUSTER_LAUNCH_ID=") for one in variables):
            found.append(int(entry.name))
    return found
