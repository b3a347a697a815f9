"""`report`: dials the master again and again, and lets it talk to the agent here, which it starts when needed.

A process of its own beside the agent, so that neither OpenSSL nor the token is in the process whose forks become tasks.
It owns when to call again and when to give up; what runs here runs on whatever becomes of it.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import subprocess
import sys
import time
from typing import Callable, List, NoReturn

from . import report_archive as archives
from . import report_lock
from .daemon import Log, detach
from .folder import Folder, FolderError
from .report_call import CallError, OutdatedError, RefusedError, carry, fetch_archive, learn_master, report
from .report_settings import TOKEN_VARIABLE, Settings, SettingsError, make_base, read_token, state_base
from .report_unit import agent_words, unit
from .server import boot_id

EXIT_CONFIG, EXIT_REFUSED, EXIT_BUSY, EXIT_GAVE_UP, EXIT_INTERRUPTED = 78, 77, 75, 69, 130
"""Exit statuses, as sysexits.h numbers them: EX_CONFIG, EX_NOPERM, EX_TEMPFAIL, EX_UNAVAILABLE; and the shells' one."""
REFUSED = "the token is refused: `muster node token` makes one; --new-token takes it"
BUSY = "another process reports as this node from here already"
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0
LASTED_S = 30.0
"""A conversation that lasted for so long was one: the next pause is a first one."""
START_S = 20.0


class EndError(Exception):
    """There is no use in calling again."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def main(words: List[str], version_of: Callable[[str], str]) -> int:
    """Run the command; gives the exit status."""
    options = _parser().parse_args(words)
    try:
        return _main(options, version_of)
    except (SettingsError, FolderError) as error:
        return _fail(str(error), EXIT_CONFIG)
    except EndError as error:
        return _fail(str(error), error.status)
    except KeyboardInterrupt:
        os.write(2, b"\n")
        return EXIT_INTERRUPTED


def _main(options: argparse.Namespace, version_of: Callable[[str], str]) -> int:
    archive = os.path.abspath(sys.argv[0])
    version = version_of(archive)
    if version == "source":
        return _fail("this works from the archive only: `muster node token NAME` says where to get it", EXIT_CONFIG)
    base = os.path.abspath(options.state) if options.state else state_base()
    make_base(base)
    settings = Settings(base, options.node)
    if options.unit:
        started = agent_words(os.path.join(base, archives.STABLE_NAME), options.node, base)
        sys.stdout.write(unit(options.unit, options.node, started, (EXIT_REFUSED, EXIT_CONFIG)))
        return 0
    is_told = _take_what_is_said(options, settings)
    try:
        own = archives.settle(archive, version, base)
        is_busy = report_lock.is_taken(settings.lock)
    except OSError as error:
        return _fail(f"{error.filename or base}: {error.strerror}", EXIT_CONFIG)
    if is_busy and is_told:
        say(f"{BUSY}: it takes the new token at its next call")
        return 0
    if is_busy:
        return _fail(BUSY, EXIT_BUSY)
    if own != archive or _shows_token():
        _become(own, options)
    if options.detach:
        return _detached(options, settings, version, own)
    return Reporter(options, settings, version, own).run()


def _take_what_is_said(options: argparse.Namespace, settings: Settings) -> bool:
    """Remember what the command says of the master; whether a token was among it. Raises SettingsError."""
    settings.point_to(options.master, options.authority)
    is_told = bool(options.token_file or options.new_token or TOKEN_VARIABLE in os.environ)
    if is_told or not settings.token:
        settings.token = read_token(options.token_file)
    settings.save()
    return is_told


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="agent report",
        description="Let the master run tasks on this machine, by dialling it. What is said once is remembered.",
        epilog=f"Exit status {EXIT_REFUSED}: token refused; {EXIT_GAVE_UP}: given up; {EXIT_BUSY}: another process "
        f"reports as this node; {EXIT_CONFIG}: set up wrongly.",
    )
    parser.add_argument("--node", required=True, metavar="NAME", help="the node's name in the registry")
    parser.add_argument("--master", metavar="HOST:PORT", help="the master's data port")
    parser.add_argument("--authority", metavar="sha256:…", help="the fingerprint of the authority to believe")
    parser.add_argument("--token-file", metavar="FILE", help=f"where the token is (else {TOKEN_VARIABLE}, or stdin)")
    parser.add_argument("--new-token", action="store_true", help="ask for the token, although one is remembered")
    parser.add_argument("--state", metavar="DIR", help="where to keep things (default: ~/.local/state/muster)")
    parser.add_argument("--give-up-after", type=int, metavar="N", help="end after N failures in a row (default: never)")
    parser.add_argument("--detach", action="store_true", help="go on in the background after the first call")
    parser.add_argument("--unit", choices=("user", "system"), help="print a systemd unit that does this, and end")
    parser.add_argument("--stays", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--logged", action="store_true", help=argparse.SUPPRESS)
    return parser


def _detached(options: argparse.Namespace, settings: Settings, version: str, archive: str) -> int:
    """Go on in the background, once it is known how the first call went."""
    options.detach, options.logged = False, True
    is_ready: List[bool] = []

    def serve(ready: Callable[[], None]) -> None:
        def tell() -> None:
            is_ready.append(True)
            ready()

        try:
            Reporter(options, settings, version, archive).run(tell)
        except EndError as error:
            if not is_ready:
                raise FolderError(str(error)) from None
            Log(settings.log).say(str(error))

    problem = detach(settings.log, serve)
    if problem:
        return _fail(problem, {REFUSED: EXIT_REFUSED, BUSY: EXIT_BUSY}.get(problem, EXIT_CONFIG))
    say(f"node {settings.node}, in the background from here on: {_last_line(settings.log)}")
    say(f"its log: {settings.log}")
    return 0


class Reporter:
    """Calls the master as one node, for ever."""

    def __init__(self, options: argparse.Namespace, settings: Settings, version: str, archive: str) -> None:
        self._options = options
        self._settings = settings
        self._version = version
        self._archive = archive
        self._say = Log(settings.log).say if options.logged else say
        self._stays = bool(options.stays)
        self._ready: Callable[[], None] = _nothing

    def run(self, ready: Callable[[], None] = lambda: None) -> NoReturn:
        """Until the token is refused, or the patience is at its end; `ready` is called once the first call was heard
        or failed. Raises EndError."""
        lock = report_lock.take(self._settings.lock)
        if lock is None:
            raise EndError(BUSY, EXIT_BUSY)
        self._ready = ready
        failures = pauses = 0
        while True:
            began = time.monotonic()
            try:
                self._say(self._one_call())
                failures, pauses = 0, 0 if time.monotonic() - began > LASTED_S else pauses + 1
            except (CallError, SettingsError, FolderError, OSError) as error:
                self._say(f"refused: {error}" if isinstance(error, RefusedError) else str(error))
                if isinstance(error, RefusedError) and error.final and not self._has_another_token():
                    raise EndError(REFUSED, EXIT_REFUSED) from None
                failures, pauses = failures + 1, pauses + 1
            self._tell_ready()
            if self._options.give_up_after and failures >= self._options.give_up_after:
                raise EndError(f"given up after {failures} failures", EXIT_GAVE_UP)
            longest = min(FIRST_PAUSE_S * 2 ** min(max(pauses - 1, 0), 16), LONGEST_PAUSE_S)
            time.sleep(longest * (0.5 + random.random() / 2))  # noqa: S311  (jitter)

    def _one_call(self) -> str:
        """From dialling to the end of the conversation; how it ended. Raises CallError, SettingsError, FolderError,
        OSError."""
        self._settings = settings = self._remembered()
        if not settings.certificate:
            learn_master(settings)
        folder = Folder(settings.folder)
        folder.make()
        who = {"state_id": folder.state_id(), "boot_id": boot_id(), "version": self._version, "stays": self._stays}
        try:
            master = report(settings, who)
        except OutdatedError as wanted:
            self._tell_ready()
            self._follow(wanted)
            return f"staying at version {self._version}"
        with master, self._agent(folder) as agent:
            self._say(f"reporting to {settings.master} as node {settings.node}, version {self._version}")
            self._tell_ready()
            try:
                return carry(master, agent)
            except OSError as error:
                return f"the connection broke: {error.strerror or error}"

    def _remembered(self) -> Settings:
        """What the file says now: a token that was given meanwhile counts from the next call on."""
        try:
            settings = Settings(self._settings.base, self._settings.node)
            settings.point_to(None, None)
        except SettingsError:  # somebody removed or spoilt the file: what we know still holds
            return self._settings
        return settings

    def _has_another_token(self) -> bool:
        """Was one given while this one was being refused?"""
        return self._remembered().token != self._settings.token

    def _tell_ready(self) -> None:
        ready, self._ready = self._ready, _nothing
        ready()

    def _agent(self, folder: Folder) -> socket.socket:
        """A connection to the agent, which is started where there is none. Raises CallError."""
        try:
            return folder.connect()
        except OSError:
            words = [sys.executable, "-I", self._archive, "serve", "--state", folder.path]
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=START_S, check=False, close_fds=True
            )
            if done.returncode:
                raise CallError(f"the agent cannot be started: {done.stderr.decode('utf-8', 'replace').strip()}")
            return folder.connect()
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CallError(f"the agent cannot be started: {error}") from None

    def _follow(self, wanted: OutdatedError) -> None:
        """Become the version that the master has; or stay, if that one does not run here. Raises CallError, OSError."""
        path = archives.path_of(self._settings.base, wanted.version)
        if not archives.is_whole(path, wanted.sha256):
            self._say(f"fetching version {wanted.version} of the agent")
            archives.write(path, fetch_archive(self._settings, wanted))
        if not archives.runs_here(path, wanted.version):
            self._say(f"version {wanted.version} of the agent does not run on this Python: staying at {self._version}")
            self._stays = True
            return
        archives.keep_stable(path, self._settings.base)
        self._options.stays = False
        _become(path, self._options)


def _nothing() -> None:
    """Nobody waits to be told."""


def _last_line(log: str) -> str:
    """What was said last, without the time."""
    with open(log, encoding="utf-8", errors="replace") as file:
        return (file.read().splitlines() or [""])[-1][len("2026-01-01 00:00:00 ") :]


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
    words += ["--logged"] if options.logged else []
    sys.stdout.flush()
    os.execv(sys.executable, words)  # noqa: S606  (no shell is wanted)


def say(text: str) -> None:
    """A line, with the time, for whoever watches."""
    os.write(2, f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n".encode("utf-8", "replace"))


def _fail(text: str, status: int) -> int:
    os.write(2, f"agent: {text}\n".encode("utf-8", "replace"))
    return status
