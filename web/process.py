"""`python -m web --conf FILE`: the console of a lab, until a signal ends it.

Owns the process: its log, and the lock that keeps a lab to one console.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import logging
import os
import resource
import socket
import ssl
import sys
import time
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from web.app import console
from web.certificates import Certificates
from web.condition import FILE, Condition
from web.hall import Hall
from web.listening import Server, bound
from web.newcomer import Newcomer
from web.settings import Settings, load
from web.timely import Timely
from wire.console import url
from wire.errors import ConfigError, LockedError, MusterError
from wire.file_fault import fault
from wire.lab import read as read_lab
from wire.listener import holder
from wire.message import Message
from wire.state_folder import check_alone

log = logging.getLogger("muster.web")

LOCK = "web.lock"
LOCK_S = 2.0
LOOK_AT_CERTIFICATE_S = 3600.0
END_S = 5


def main() -> int:
    """Run it. Gives the exit code; what is wrong is one line on stderr."""
    parser = argparse.ArgumentParser(prog="muster web", description="the console of a lab")
    parser.add_argument("--conf", required=True)
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    try:
        settings = load(Path(options.conf), options.port)
        check_alone(str(settings.conf), str(settings.task_info), read_lab(str(settings.conf)))
        lock = _lock(settings)
        return _run(settings, lock)
    except MusterError as error:
        sys.stderr.write(f"error: {error.code}: {error}\n")
        return 1


def _lock(settings: Settings) -> int:
    """The file that says which process is the console of this lab. Raises LockedError, ConfigError."""
    path = settings.task_info / LOCK
    try:
        settings.task_info.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise fault(path, Message("file_unwritable", detail=error.strerror)) from None
    deadline = time.monotonic() + LOCK_S  # who looks whether one runs holds it for a moment
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(fd)
                raise LockedError(Message("console_held", path=str(path))) from None
            time.sleep(0.05)
    return fd


def _refused(settings: Settings, error: OSError) -> Message:
    """Return why the console's port cannot be opened."""
    place, found = f"{settings.bind}:{settings.web.port}", holder(settings.bind, settings.web.port)
    if found:
        return Message("web_port_held", place=place, detail=error.strerror, holder=found)
    return Message("web_port_refused", place=place, detail=error.strerror)


def _run(settings: Settings, lock: int) -> int:
    # A page is a descriptor, and so is a log-in's line; what a shell gives is enough for neither.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    certificates = Certificates(settings)
    where = url(settings.web, settings.bind)
    condition = Condition(settings.task_info / FILE, where, certificates)
    shown = _Shown(certificates, condition)
    try:
        sock = bound(settings.bind, settings.web.port)
    except OSError as error:
        raise fault(settings.conf, _refused(settings, error)) from None

    def ready() -> None:
        condition.tell()
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        log.info("the console is at %s", where)

    config = configured(console(Hall.of(settings, certificates)))
    asyncio.run(_serve(config, sock, shown, ready))
    return 0


def configured(app: ASGIApp) -> uvicorn.Config:
    """Return the settings of uvicorn."""
    return uvicorn.Config(
        app,
        # Named, for else uvicorn takes httptools where somebody has it, and that bounds no header's size.
        http=Timely,
        lifespan="on",
        ws=Newcomer,
        ws_max_size=16 << 20,
        ws_per_message_deflate=False,
        ws_ping_interval=20.0,
        ws_ping_timeout=20.0,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=END_S,
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_config=None,
        h11_max_incomplete_event_size=64 << 10,
    )


async def _serve(config: uvicorn.Config, sock: socket.socket, shown: _Shown, ready: object) -> None:
    await Server(config, sock, shown.context, ready).serve()  # type: ignore[arg-type]


class _Shown:
    """The TLS of new connections, looked at now and then: a certificate is renewed while we run. One that cannot be
    read any more is told, and the one before it shown on."""

    def __init__(self, certificates: Certificates, condition: Condition) -> None:
        self._certificates = certificates
        self._condition = condition
        self._context = certificates.context()
        self._looked_at = time.monotonic()

    def context(self) -> ssl.SSLContext:
        """For a new connection."""
        if time.monotonic() - self._looked_at > LOOK_AT_CERTIFICATE_S:
            self._looked_at = time.monotonic()
            try:
                self._context = self._certificates.context()
            except ConfigError as error:
                log.warning("the certificate is shown as it was: %s", error)
                self._condition.tell(str(error))
            else:
                self._condition.tell()
        return self._context
