"""Start the master: in the foreground, or with --detach as a process of its own once its three ports answer."""

from __future__ import annotations

import os
import time

from client import address
from client.cli.screen.interrupt import LastWords
from client.refusals import coded_error
from client.session import Session
from wire import lab
from wire.harmless import harmless
from wire.state_folder import check_alone

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    import subprocess
    from typing import Any

    from client.cli.context import Context
    from client.cli.programs.beside import Program
    from wire.errors import MusterError
    from wire.message import Message

EXAMPLES = """examples:
  muster up                                  until Ctrl-C
  muster up --detach                         returns when it serves; `muster down` stops it
  muster up --conf /srv/lab/conf.json --detach"""
_STOPS = "`muster down` stops it"
_ONLY_ROOT = (
    'conf.json has `"local_admin": "root"`, so without a log-in only root may use it: log in as an admin (`muster '
    "login`), or have root add one (`sudo muster users add NAME --admin`) or stop it (`sudo muster down`)"
)
_START_S = 60.0
_LOOK_S = 0.05


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("--detach", "-d", action="store_true", help="return when all three ports answer")
    parser.add_argument(
        "--accept-edits", action="store_true", help="take queue files that somebody changed as they lie"
    )
    parser.add_argument("--skip-damaged", action="store_true", help="start without the records that cannot be read")


def run(context: Context) -> int:
    """Do it."""
    if context.options.master:
        raise coded_error("bad_request", "up_is_local")
    conf = os.path.abspath(address.conf_path(context.options.conf))
    where = address.read_conf(conf)
    running = _running(where)
    from client.cli.labs import lab_notes
    from client.cli.programs import beside

    wanted = [program for program in beside.ALL if program.is_configured(conf)]
    if running is not None:
        missing = [program for program in wanted if not program.runs(conf)]
        if not missing:
            raise coded_error("conflict", "master_runs_already", at=str(where), pid=running["pid"])
        begun = [_begun(context, conf, program) for program in missing]
        if not all(begun):
            return 1
        if context.json:
            context.print_json(running)
        names = " and ".join(program.name for program in missing)
        began = f"{names} did not, and {'was' if len(missing) == 1 else 'were'} started"
        context.say(f"a master runs at {where} already (pid {running['pid']}); {began}")
        return 0
    check_alone(conf, beside.task_info(conf), lab.read(conf))
    lab_notes.of_copy(context, conf, beside.task_info(conf))
    if context.options.detach:
        return _detached(context, conf, where, wanted)
    return _in_the_foreground(context, conf, wanted)


def _in_the_foreground(context: Context, conf: str, wanted: list[Program]) -> int:
    from client.cli.programs import master_process

    started = [(program, program.start(conf)) for program in wanted]

    def end() -> None:
        for _, process in started:
            process.terminate()

    try:
        with LastWords(end):
            for program, process in started:
                _await(context, conf, program, process)
            return master_process.run("--conf", conf, *_permits(context))
    finally:
        end()
        for _, process in started:
            process.wait()


def _permits(context: Context) -> list[str]:
    options = context.options
    return [
        word
        for word, given in (("--accept-edits", options.accept_edits), ("--skip-damaged", options.skip_damaged))
        if given
    ]


def _detached(context: Context, conf: str, where: address.Address, wanted: list[Program]) -> int:
    from client.cli.labs import lab_notes
    from client.cli.programs import master_process

    only_root = address.load(conf).get("local_admin") == "root" and os.geteuid() != 0
    log = _log_file(conf)
    begin = os.path.getsize(log) if os.path.exists(log) else 0
    process = master_process.start(log, "--conf", conf, *_permits(context))
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            return _died(context, process, log, begin)
        info = _serves(where, process.pid)
        if info is not None:
            if context.json:
                context.print_json(info)
            context.say(f"the master runs: pid {process.pid}, {where}; {_ONLY_ROOT if only_root else _STOPS}")
            for program in wanted:
                _begun(context, conf, program)
            lab_notes.of_identity(context, conf)
            return 0
        time.sleep(_LOOK_S)
    why, said = _why_not(where), _tail(log, begin)
    raise coded_error("unreachable", "master_not_answering", pid=process.pid, why=why, detail=said)


def _begun(context: Context, conf: str, program: Program) -> bool:
    """Start a program beside the master; whether it is at work."""
    return _await(context, conf, program, program.start(conf))


def _await(context: Context, conf: str, program: Program, process: subprocess.Popen[bytes]) -> bool:
    """Wait until it is at work; whether it is. It says so if it cannot start, which is no fault of the master's."""
    if program.awaited(conf, process):
        return True
    context.note(f"{program.without}: {harmless(program.last_word(conf))}")
    return False


def _running(where: address.Address) -> dict[str, Any] | None:
    """Return what a master that runs already tells of itself. Raises ConflictError if something else has its port, such
    as the master of another lab."""
    from wire.errors import ForbiddenError

    try:
        info = _ask(where, where.data)
    except ForbiddenError as error:
        why: Any = error.args[0]
        raise coded_error(
            "conflict", "port_taken", port=where.data, host=where.host, holder=_holder(where), why=why
        ) from None
    if info is not None and not isinstance(info.get("pid"), int):
        raise coded_error("conflict", "port_of_no_master", port=where.data, host=where.host, holder=_holder(where))
    return info


def _holder(where: address.Address) -> str | Message:
    from wire.listener import holder
    from wire.message import Message

    return holder(where.host, where.data) or Message("holder_unseen")


def _serves(where: address.Address, pid: int) -> dict[str, Any] | None:
    """Return what the master that we started tells of itself, once its three ports answer. If it tells this account
    nothing without a log-in, the kernel says whether the process holds the ports."""
    from client.cli.programs import master_process
    from wire.errors import UnauthenticatedError

    info: dict[str, Any] | None = None
    for port in (where.data, where.train_state, where.monitor):
        told = _answer(where, port) if port else None
        if isinstance(told, UnauthenticatedError) and master_process.listens(pid, port or 0):
            info = {"pid": pid, "master": str(where)}
        elif isinstance(told, dict) and told.get("pid") == pid:
            info = told
        else:  # if somebody else has that one, the master is about to say so, and to end
            return None
    return info


def _why_not(where: address.Address) -> Message:
    """Return what was wrong with the last answer, after waiting for a better one in vain."""
    from wire.message import Message

    for port in (where.data, where.train_state, where.monitor):
        told = _answer(where, port) if port else None
        if not isinstance(told, dict):
            return Message("port_said", port=port, why=None if told is None else told.args[0])
    return Message("another_process_answers")


def _ask(where: address.Address, port: int) -> dict[str, Any] | None:
    """Return what a master at this port tells of itself; None if none answers. Raises ForbiddenError where another
    account has the port, ConflictError where another lab's master has it."""
    from wire.errors import ConflictError, ForbiddenError

    told = _answer(where, port)
    if isinstance(told, (ForbiddenError, ConflictError)):
        raise told
    if isinstance(told, dict) and not where.end.is_named:
        from client.other_lab import check_conf

        check_conf(where.end.lab, told, (where.host, port))
    return told if isinstance(told, dict) else None


def _answer(where: address.Address, port: int) -> dict[str, Any] | MusterError:
    """Return what a master at this port tells of itself, or the error in its place."""
    from wire.errors import MusterError

    session = Session(where.host, port, patience=0, trust=where.trust, end=where.end)
    try:
        info: Any = session.call("server.info", {}, timeout=5)
    except MusterError as error:
        return error
    finally:
        session.close()
    return info if isinstance(info, dict) else {}


def _log_file(conf: str) -> str:
    """Where the master's stdout and stderr go: beside its own log, whose rotation it would upset otherwise."""
    named = address.load(conf).get("server_log_path")
    path = os.path.join(os.path.dirname(conf), named if isinstance(named, str) and named else "server.log") + ".out"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path


def _died(context: Context, process: subprocess.Popen[bytes], log: str, begin: int) -> int:
    said = _tail(log, begin)
    context.note(said or f"error: internal: the master ended with {process.returncode} and said nothing")
    return 1


def _tail(log: str, begin: int) -> str:
    with open(log, "rb") as file:
        file.seek(begin)
        lines = file.read().decode(errors="replace").splitlines()
    return "\n".join(harmless(line) for line in lines[-20:])
