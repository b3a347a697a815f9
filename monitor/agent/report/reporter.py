"""Dials the master again and again, and lets it talk to the agent here, which it starts when needed.

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
from typing import Callable, NoReturn

from wire.agent import agent_environment

from ..folder import Folder, FolderError
from ..log import Log, plain
from ..machine import boot_id
from . import archive as archives
from . import lock
from .call import CallError, OutdatedError, RefusedError, carry, fetch_archive, learn_master, report
from .settings import Settings, SettingsError

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


class Reporter:
    """Calls the master as one node, for ever."""

    def __init__(self, options: argparse.Namespace, settings: Settings, version: str, archive: str) -> None:
        self._options = options
        self.settings = settings
        self._version = version
        self._archive = archive
        self._say = Log(settings.log).say if options.logged else say
        self._stays = bool(options.stays)
        self._ready: Callable[[], None] = _nothing

    def run(self, ready: Callable[[], None] = lambda: None) -> NoReturn:
        """Until the token is refused, or the patience is at its end; `ready` is called once the first call was heard
        or failed. Raises EndError."""
        held = lock.take(self.settings.lock)
        if held is None:
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
        self.settings = settings = self._remembered()
        if not settings.certificate:
            learn_master(settings)
        folder = Folder(settings.folder)
        folder.make()
        who = {"state_id": folder.state_id(), "boot_id": boot_id(), "version": self._version, "stays": self._stays}
        who["master"] = settings.master
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
        """Return the settings of the file as it is now: a token that was given meanwhile counts from the next call
        on."""
        try:
            settings = Settings(self.settings.base, self.settings.node)
            settings.point_to(None, None)
        except SettingsError:  # somebody removed or spoilt the file: what we know still holds
            return self.settings
        return settings

    def _has_another_token(self) -> bool:
        """Was one given while this one was being refused?"""
        return self._remembered().token != self.settings.token

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
                words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=START_S, check=False, close_fds=True,
                env=agent_environment(os.environ),
            )  # fmt: skip
            if done.returncode:
                raise CallError(f"the agent cannot be started: {done.stderr.decode('utf-8', 'replace').strip()}")
            return folder.connect()
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CallError(f"the agent cannot be started: {error}") from None

    def _follow(self, wanted: OutdatedError) -> None:
        """Become the version that the master has; or stay, if that one does not run here. Raises CallError, OSError."""
        path = archives.path_of(self.settings.base, wanted.sha256)
        if not archives.is_whole(path, wanted.sha256):
            self._say(f"fetching version {wanted.version} of the agent")
            archives.write(path, fetch_archive(self.settings, wanted))
        if not archives.runs_here(path, wanted.version):
            self._say(f"version {wanted.version} of the agent does not run on this Python: staying at {self._version}")
            self._stays = True
            return
        archives.keep_stable(path, self.settings.base)
        self._options.stays = False
        become(path, self._options)


def _nothing() -> None:
    """Nobody waits to be told."""


def become(archive: str, options: argparse.Namespace) -> NoReturn:
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
    os.write(2, f"{time.strftime('%Y-%m-%d %H:%M:%S')} {plain(text)}\n".encode("utf-8", "replace"))
