"""The command line of `report`: what is said once and remembered, which archive runs, and going into the background.

It is a process of its own beside the agent, so that neither OpenSSL nor the token is in the process whose forks become
tasks. It owns words and exit statuses; the calls are `reporter`'s.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from typing import Callable, List, NoReturn

from ..daemon import detach
from ..folder import FolderError
from ..log import Log
from . import archive as archives
from . import lock
from .reporter import (
    BUSY,
    EXIT_BUSY,
    EXIT_CONFIG,
    EXIT_GAVE_UP,
    EXIT_INTERRUPTED,
    EXIT_REFUSED,
    REFUSED,
    EndError,
    Reporter,
    become,
    say,
)
from .settings import TOKEN_VARIABLE, Settings, SettingsError, make_base, read_token, state_base
from .unit import agent_words, unit


def main(words: List[str], version: str) -> int:
    """Run the command; gives the exit status."""
    options = _parser().parse_args(words)
    signal.signal(signal.SIGINT, _interrupted)
    try:
        return _main(options, version)
    except (SettingsError, FolderError) as error:
        return _fail(str(error), EXIT_CONFIG)
    except EndError as error:
        return _fail(str(error), error.status)
    except KeyboardInterrupt:  # while it asked for the token
        os.write(2, b"\n")
        return EXIT_INTERRUPTED


def _interrupted(_number: int, _frame: object) -> NoReturn:
    """Ctrl-C ends it here and now. An exception would be lost where Python ignores them (in a destructor, say), and
    nothing is left to be done: what runs is the agent's, and every file is written so that a crash leaves it whole."""
    os.write(2, b"\n")
    os._exit(EXIT_INTERRUPTED)


def _main(options: argparse.Namespace, version: str) -> int:
    archive = os.path.abspath(sys.argv[0])
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
        own = archives.settle(archive, base)
        is_busy = lock.is_taken(settings.lock)
    except OSError as error:
        return _fail(f"{error.filename or base}: {error.strerror}", EXIT_CONFIG)
    if is_busy and is_told:
        say(f"{BUSY}: it takes the new token at its next call")
        return 0
    if is_busy:
        return _fail(BUSY, EXIT_BUSY)
    if own != archive or _shows_token():
        become(own, options)
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
        description="Let the master run tasks on this machine, by dialling it. The options are remembered.",
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


def _last_line(log: str) -> str:
    """Return the last message, without the time."""
    with open(log, encoding="utf-8", errors="replace") as file:
        return (file.read().splitlines() or [""])[-1][len("2026-01-01 00:00:00 ") :]


def _shows_token() -> bool:
    """Whether the token stands in what the kernel tells of our environment."""
    with open("/proc/self/environ", "rb") as file:
        return f"\0{TOKEN_VARIABLE}=".encode() in b"\0" + file.read()


def _fail(text: str, status: int) -> int:
    os.write(2, f"agent: {text}\n".encode("utf-8", "replace"))
    return status
