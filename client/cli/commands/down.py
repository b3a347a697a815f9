"""Stop the master. Tasks run on; the next start finds them again."""

from __future__ import annotations

import os
import time

from client.dialling import Place, places
from client.refusals import coded_error
from client.states import ALIVE
from wire.harmless import harmless
from wire.other_end import is_local
from wire.state_folder import LOCK, holder_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from client.address import Address
    from client.cli.context import Context

EXAMPLES = """examples:
  muster down
  muster cancel --all && muster down     (nothing runs on)"""
_STOP_S = 30.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """This command has no options of its own."""


def run(context: Context) -> int:
    """Do it."""
    from wire.errors import ConflictError, UnreachableError

    client = context.client
    try:
        info = client.info()
        _check_lab(context, info)
    except ConflictError:
        if _end_own(context):
            return _say_stopped(context, None)
        raise
    except UnreachableError as error:
        pid = _end_one_that_listens_elsewhere(context)
        _end_what_was_left_behind(context)
        if pid is not None:
            return _say_stopped(context, None)
        if not client.address.same_machine or not _nobody_listens(client.address.host, client.address.data):
            raise
        raise coded_error("unreachable", "master_down_already", at=str(client.address)) from error
    counts = info.get("tasks") or {}
    alive = sum(counts.get(state, 0) for state in ALIVE)
    try:
        client.stop_master()
    except UnreachableError:
        # The master may close the connection before its answer is out; whether it is gone is looked up below.
        client.close()
    if not _gone(client.address):
        raise coded_error("unreachable", "master_still_listens", at=str(client.address))
    if client.address.same_machine and info.get("task_info"):
        _end_beside(context, info["task_info"], info.get("conf") or client.address.conf or "")
    return _say_stopped(context, alive)


def _end_beside(context: Context, folder: str, conf: str) -> None:
    """End what `up` started beside the master; the master is down, whatever becomes of it."""
    from client.cli.programs import beside
    from wire.errors import ConflictError

    for program in beside.ALL:
        try:
            program.stop(folder, conf)
        except ConflictError as error:
            context.note(f"note: {harmless(str(error))}")


def _check_lab(context: Context, info: dict[str, Any]) -> None:
    """A master of a version before labs had identities is compared by its conf.json. Raises OtherLabError."""
    where = context.client.address
    if where.end.lab is not None and not where.end.is_named:
        from client.other_lab import check_conf

        check_conf(where.end.lab, info, (where.host, where.data))


def _end_own(context: Context) -> bool:
    """The port is another lab's: end the master of this lab where it listens elsewhere; whether there was one."""
    from client.cli.programs import beside, master_process

    conf = beside.conf_of(context.options)
    pid = holder_of(os.path.join(beside.task_info(conf), LOCK)) if conf is not None else None
    if pid is None or master_process.listens(pid, context.client.address.data):
        return False  # or both have one task_info, and it is the other lab's that works there
    ended = _end_one_that_listens_elsewhere(context) is not None
    if ended:
        _end_what_was_left_behind(context)
    return ended


def _say_stopped(context: Context, alive: int | None) -> int:
    """`alive`: how many tasks run on; None: it was not there to be asked."""
    if context.json:
        context.print_json({"stopped": True, "running": alive})
    context.say("stopped" + (f"; {alive} {'tasks run' if alive != 1 else 'task runs'} on" if alive else ""))
    return 0


def _end_one_that_listens_elsewhere(context: Context) -> int | None:
    """conf.json may have been given another address or port since the master began: it listens where it said then."""
    from client.cli.programs import beside

    conf = beside.conf_of(context.options)
    if conf is None:
        return None
    pid = beside.end_holder(os.path.join(beside.task_info(conf), LOCK), "the master", conf)
    if pid is not None:
        from wire.message import Message

        context.note(Message("master_listened_elsewhere", pid=pid, conf=conf))
    return pid


def _end_what_was_left_behind(context: Context) -> None:
    """The master died otherwise: what `up` started beside it has no use any more."""
    from client.cli.programs import beside

    conf = beside.conf_of(context.options)
    if conf is None:
        return
    from wire.message import Message

    for program in beside.ALL:
        if program.stop(beside.task_info(conf), conf):
            context.note(Message("program_left_behind", name=program.name))


def _nobody_listens(host: str, port: int) -> bool:
    try:
        return all(map(_refuses, places(host, port)))
    except OSError:
        return False


def _refuses(place: Place) -> bool:
    """Raises OSError where it says neither yes nor no."""
    try:
        place.connect().close()
    except ConnectionRefusedError:
        return True
    return False


def _gone(address: Address) -> bool:
    """Does the master listen no more? Nothing is said."""
    deadline = time.monotonic() + _STOP_S
    while time.monotonic() < deadline:
        try:
            found = places(address.host, address.data)
        except OSError:
            return True
        if not any(_listens(address, place) for place in found):
            return True
        time.sleep(0.02)
    return False


def _listens(address: Address, place: Place) -> bool:
    """Does the master, or whoever may be it, listen there? Another account may have its port by now."""
    try:
        with place.connect() as sock:
            return not (is_local(sock) and address.end.is_strangers(sock))
    except OSError:
        return False
