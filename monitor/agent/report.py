"""`report`: dials the master again and again, and lets it talk to the agent here, which it starts when needed.

A process of its own beside the agent, so that neither OpenSSL nor the token is in the process whose forks become tasks.
It owns when to call again, when to give up, and how an archive of another version is taken over; what runs here runs
on whatever becomes of it.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from typing import Callable, List, NoReturn, Optional

from .daemon import detach
from .folder import Folder, FolderError
from .report_call import CallError, OutdatedError, RefusedError, carry, fetch_archive, fetch_certificate, report
from .report_settings import TOKEN_VARIABLE, Settings, SettingsError, make_base, read_token, state_base

EXIT_CONFIG, EXIT_REFUSED, EXIT_GAVE_UP = 78, 77, 69
"""Exit statuses, as sysexits.h numbers them: EX_CONFIG, EX_NOPERM, EX_UNAVAILABLE."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0
LASTED_S = 30.0
"""A conversation that lasted for so long was one: the next failure is a first one."""
START_S = 20.0
STABLE_NAME = "muster-agent.pyz"
_UNIT = """[Unit]
Description=Muster: node {node}
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={command}
Restart=always
RestartSec=10
RestartPreventExitStatus={refused} {config}
# Tasks run on when this ends; the next one takes them over.
KillMode=process
{account}
[Install]
WantedBy={target}
"""


def main(words: List[str], version_of: Callable[[str], str]) -> int:
    """Run the command; gives the exit status."""
    options = _parser().parse_args(words)
    archive = os.path.abspath(sys.argv[0])
    version = version_of(archive)
    if version == "source":
        return _fail("this works from the archive only: `muster node token NAME` says where to get it", EXIT_CONFIG)
    base = os.path.abspath(options.state) if options.state else state_base()
    try:
        make_base(base)
        settings = Settings(base, options.node)
        if options.unit:
            return _print_unit(options, settings)
        settings.point_to(options.master, options.authority)
        if options.token_file or options.new_token or TOKEN_VARIABLE in os.environ or not settings.token:
            settings.token = read_token(options.token_file)
        settings.save()
        own = _settle(archive, version, base)
    except (SettingsError, FolderError) as error:
        return _fail(str(error), EXIT_CONFIG)
    except OSError as error:
        return _fail(f"{error.filename or base}: {error.strerror}", EXIT_CONFIG)
    if own != archive or _shows_token():
        _become(own, options)
    start = _detached if options.detach else _run
    return start(options, settings, version, own)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agent report",
        description="Let the master run tasks on this machine, by dialling it. What is said once is remembered.",
        epilog=f"Exit status {EXIT_REFUSED}: token refused; {EXIT_GAVE_UP}: given up; {EXIT_CONFIG}: set up wrongly.",
    )
    parser.add_argument("--node", required=True, metavar="NAME", help="the node's name in the registry")
    parser.add_argument("--master", metavar="HOST:PORT", help="the master's data port")
    parser.add_argument("--authority", metavar="sha256:…", help="the fingerprint of the authority to believe")
    parser.add_argument("--token-file", metavar="FILE", help=f"where the token is (else {TOKEN_VARIABLE}, or stdin)")
    parser.add_argument("--new-token", action="store_true", help="ask for the token, although one is remembered")
    parser.add_argument("--state", metavar="DIR", help="where to keep things (default: ~/.local/state/muster)")
    parser.add_argument("--give-up-after", type=int, metavar="N", help="end after N failures in a row (default: never)")
    parser.add_argument("--detach", action="store_true", help="go on in the background")
    parser.add_argument("--unit", choices=("user", "system"), help="print a systemd unit that does this, and end")
    parser.add_argument("--stays", action="store_true", help=argparse.SUPPRESS)
    return parser


def _run(options: argparse.Namespace, settings: Settings, version: str, archive: str) -> int:
    try:
        return Reporter(options, settings, version, archive).run()
    except FolderError as error:
        return _fail(str(error), EXIT_CONFIG)


def _detached(options: argparse.Namespace, settings: Settings, version: str, archive: str) -> int:
    log = os.path.join(settings.base, f"{os.path.basename(settings.folder)}.log")

    def serve(ready: Callable[[], None]) -> None:
        options.detach = False
        Reporter(options, settings, version, archive).run(ready)

    problem = detach(log, serve)
    if problem:
        return _fail(problem, EXIT_CONFIG)
    say(f"reporting as node {settings.node} in the background; see {log}")
    return 0


class Reporter:
    """Calls the master as one node, for ever."""

    def __init__(self, options: argparse.Namespace, settings: Settings, version: str, archive: str) -> None:
        self._options = options
        self._settings = settings
        self._version = version
        self._archive = archive
        self._folder = Folder(settings.folder)
        self._stays = bool(options.stays)
        self._lock: Optional[int] = None

    def run(self, ready: Callable[[], None] = lambda: None) -> int:
        """Until the token is refused, or the patience is at its end; the exit status. Raises FolderError."""
        self._folder.make()
        self._take_lock()
        ready()
        failures = 0
        while True:
            began = time.monotonic()
            try:
                say(self._one_call())
                failures = 0 if time.monotonic() - began > LASTED_S else failures + 1
                counts = False
            except RefusedError as error:
                say(f"refused: {error}")
                if error.final:
                    return _fail(
                        "the token is refused: `muster node token` makes one; --new-token takes it", EXIT_REFUSED
                    )
                failures, counts = failures + 1, True
            except CallError as error:
                say(str(error))
                failures, counts = failures + 1, True
            if counts and self._options.give_up_after and failures >= self._options.give_up_after:
                return _fail(f"given up after {failures} failures", EXIT_GAVE_UP)
            longest = min(FIRST_PAUSE_S * 2 ** min(max(failures - 1, 0), 16), LONGEST_PAUSE_S)
            time.sleep(longest * (0.5 + random.random() / 2))  # noqa: S311  (jitter)

    def _one_call(self) -> str:
        """From dialling to the end of the conversation; how it ended. Raises CallError."""
        if not self._settings.certificate:
            fetch_certificate(self._settings)
        try:
            master = report(self._settings, self._folder.state_id(), self._version, stays=self._stays)
        except OutdatedError as wanted:
            self._follow(wanted)
            return f"staying at version {self._version}"
        with master:
            say(f"reporting to {self._settings.master} as node {self._settings.node}, version {self._version}")
            with self._agent() as agent:
                try:
                    return carry(master, agent)
                except OSError as error:
                    return f"the connection broke: {error.strerror or error}"

    def _agent(self) -> socket.socket:
        """A connection to the agent, which is started where there is none. Raises CallError."""
        try:
            return self._folder.connect()
        except OSError:
            words = [sys.executable, "-I", self._archive, "serve", "--state", self._folder.path]
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=START_S, check=False, close_fds=True
            )
            if done.returncode:
                raise CallError(f"the agent cannot be started: {done.stderr.decode('utf-8', 'replace').strip()}")
            return self._folder.connect()
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CallError(f"the agent cannot be started: {error}") from None

    def _follow(self, wanted: OutdatedError) -> None:
        """Become the version that the master has; or stay, if that one does not run here. Raises CallError."""
        path = os.path.join(self._settings.base, f"agent-{wanted.version}.pyz")
        if not _is_whole(path, wanted.sha256):
            say(f"fetching version {wanted.version} of the agent")
            _write(path, fetch_archive(self._settings, wanted))
        tried = subprocess.run(
            [sys.executable, "-I", path, "version"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False
        )
        if tried.returncode or tried.stdout.decode("utf-8", "replace").strip() != wanted.version:
            say(f"version {wanted.version} of the agent does not run on this Python: staying at {self._version}")
            self._stays = True
            return
        _keep_stable(path, self._settings.base)
        self._options.stays = False
        _become(path, self._options)

    def _take_lock(self) -> None:
        """One caller a node: two would put each other out without end."""
        fd = os.open(os.path.join(self._folder.path, "report.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise FolderError(f"somebody reports as node {self._settings.node} from here already") from None
        self._lock = fd


def _settle(archive: str, version: str, base: str) -> str:
    """Where the running archive lies for good; the one that somebody fetched may be removed. Raises OSError."""
    own = os.path.join(base, f"agent-{version}.pyz")
    if archive != own and not os.path.exists(own):
        with open(archive, "rb") as file:
            _write(own, file.read())
    _keep_stable(own, base)
    return own


def _keep_stable(archive: str, base: str) -> None:
    """The name by which units start whatever version was the last one."""
    stable = os.path.join(base, STABLE_NAME)
    draft = f"{stable}.{os.getpid()}.tmp"
    shutil.copyfile(archive, draft)
    os.replace(draft, stable)


def _write(path: str, data: bytes) -> None:
    draft = f"{path}.{os.getpid()}.tmp"
    with open(draft, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def _is_whole(path: str, sha256: str) -> bool:
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest() == sha256
    except FileNotFoundError:
        return False


def _shows_token() -> bool:
    """Whether the token stands in what the kernel tells of our environment."""
    with open("/proc/self/environ", "rb") as file:
        return f"\0{TOKEN_VARIABLE}=".encode() in b"\0" + file.read()


def _become(archive: str, options: argparse.Namespace) -> NoReturn:
    """Run from this archive instead, with what is remembered and nothing secret in the environment."""
    words = [sys.executable, "-I", archive, "report", "--node", options.node]
    words += ["--state", os.path.abspath(options.state)] if options.state else []
    words += ["--give-up-after", str(options.give_up_after)] if options.give_up_after else []
    words += ["--detach"] if options.detach else []
    words += ["--stays"] if options.stays else []
    sys.stdout.flush()
    os.execv(sys.executable, words)  # noqa: S606  (no shell is wanted)


def _print_unit(options: argparse.Namespace, settings: Settings) -> int:
    words = [sys.executable, "-I", os.path.join(settings.base, STABLE_NAME), "report", "--node", settings.node]
    words += ["--state", settings.base]
    system = options.unit == "system"
    import getpass  # noqa: PLC0415

    account = f"User={getpass.getuser()}\n" if system else ""
    sys.stdout.write(
        _UNIT.format(
            node=settings.node.replace("%", "%%"),
            command=" ".join(_quoted(word) for word in words),
            refused=EXIT_REFUSED,
            config=EXIT_CONFIG,
            account=account,
            target="multi-user.target" if system else "default.target",
        )
    )
    return 0


def _quoted(word: str) -> str:
    """As systemd reads it."""
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{word}"' if " " in word or "'" in word or '"' in word else word


def say(text: str) -> None:
    """A line, with the time, for whoever watches."""
    os.write(2, f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n".encode("utf-8", "replace"))


def _fail(text: str, status: int) -> int:
    os.write(2, f"agent: {text}\n".encode("utf-8", "replace"))
    return status
