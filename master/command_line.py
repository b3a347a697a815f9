"""`python -m master`: parse arguments, set up the log, run. Says on the terminal what a command of it came to."""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from wire.errors import ConfigError, MusterError
from wire.harmless import harmless

if TYPE_CHECKING:
    import argparse

    from master.config.config import Config


class Serving(NamedTuple):
    """To serve: with which configuration, and what this start may do (see `Permit`)."""

    conf: Path | None = None
    accept_edits: bool = False
    skip_damaged: bool = False


def main(arguments: list[str]) -> int:
    """Run the command; the exit status: 0 done, 1 refused or failed (one line on stderr), 2 wrong usage."""
    command = _only_serving(arguments) or _parsed(arguments)
    try:
        if not isinstance(command, Serving):
            gc.enable()
            return _run(command)
        _serve(command)
    except MusterError as error:
        print(f"error: {error.code}: {harmless(str(error))}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Nobody reads any more (`| head`); keep the interpreter's last flush from complaining about it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return 0


def _only_serving(arguments: list[str]) -> Serving | None:
    """Is it as units and `muster up` start a master? Then no parser is made: a restart is waited for, and `argparse`
    takes as long to load as twenty of our files. None: there is more to it, or something is wrong."""
    conf, said = None, [*arguments]
    if "--conf" in said[:-1]:
        at = said.index("--conf")
        conf = said[at + 1]
        del said[at : at + 2]
    if (conf is not None and conf.startswith("-")) or not set(said) <= {"--accept-edits", "--skip-damaged"}:
        return None
    return Serving(None if conf is None else Path(conf), "--accept-edits" in said, "--skip-damaged" in said)


def _parsed(arguments: list[str]) -> argparse.Namespace | Serving:
    """Return the parsed command line. Exits if it is wrong."""
    import argparse  # noqa: PLC0415  (see above)

    parser = argparse.ArgumentParser(prog="python -m master", description=__doc__)
    parser.add_argument("--conf", type=Path, help="the configuration; `muster` finds it, and knows whose it is")
    parser.add_argument(
        "--accept-edits", action="store_true", help="take queue files that somebody changed as they lie"
    )
    parser.add_argument(
        "--skip-damaged",
        action="store_true",
        help="pass over what cannot be read of the journal, and hold what is in doubt",
    )
    _add_commands(parser.add_subparsers(dest="command"))
    options = parser.parse_args(arguments)
    if options.command is None:
        return Serving(options.conf, options.accept_edits, options.skip_damaged)
    return options


def _run(options: argparse.Namespace) -> int:
    if options.command == "init":
        return _init(options)
    if options.command == "deploy":
        return _deploy(options)
    if options.command == "passwd":
        return _passwd(options)
    return _shell(_conf(options.conf), options.node)


def _add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    init = commands.add_parser("init", help="write a conf.json and a registry that work on this machine")
    init.add_argument("folder", type=Path, nargs="?", default=Path())
    init.add_argument("--force", action="store_true", help="write them anew if they are there")
    init.add_argument("--admin", metavar="NAME", help="with a first admin, who gets a link; tells it as JSON")
    init.add_argument("--password", action="store_true", help="with --admin: read the password from stdin instead")
    init.add_argument("--web", type=int, metavar="PORT", help="with a console for browsers there")
    init.add_argument("--ports", type=_three_ports, metavar="N,N,N", help="monitor_port, data_port, train_state_port")
    init.add_argument("--from", dest="old", type=Path, metavar="OLD", help="take over the lab of an old system instead")
    init.add_argument("--back", type=Path, metavar="OLD", help="go back to the old system")
    init.add_argument("--bind", help="with --from: the address to listen on")
    init.add_argument("--networks", help="with --from: where desktop clients may come from")
    init.add_argument("--dry-run", action="store_true", help="with --from: tell all and write nothing")
    init.add_argument("--yes", action="store_true", help="with --from: hold waiting tasks that seem to have run")
    init.add_argument("--json", action="store_true", help="with --from: tell it as JSON")
    deploy = commands.add_parser("deploy", help="write what the system around needs: units, NFS, Samba, InfluxDB")
    deploy.add_argument("folder", type=Path)
    deploy.add_argument("--force", action="store_true", help="also over files that somebody changed")
    deploy.add_argument("--json", action="store_true", help="tell it as JSON")
    passwd = commands.add_parser("passwd", help="set a user's password while the master is down")
    passwd.add_argument("name")
    passwd.add_argument("--remove", action="store_true", help="remove the password; else it is read from stdin")
    shell = commands.add_parser("shell", help="a shell on a node, with the master's way to it")
    shell.add_argument("node")


def _conf(named: Path | None) -> Path:
    """Return the named file. None is searched for: anybody may have put one into the current folder, and the caller's
    account would obey it."""
    if named is None:
        from wire.message import Message  # noqa: PLC0415  (a start has no use for sentences)

        raise ConfigError(Message("no_conf_named"))
    return named


def _three_ports(text: str) -> dict[str, int]:
    names = ("monitor_port", "data_port", "train_state_port")
    return dict(zip(names, map(int, text.split(",")), strict=True))


def _init(options: argparse.Namespace) -> int:
    if options.old is not None:
        return _take_over(options)
    if options.back is not None:
        from master.setup.init import going_back  # noqa: PLC0415  (see below)

        came = going_back.go_back(options.back)
        print(json.dumps(came._asdict()) if options.json else going_back.told(came), flush=True)
        return 0
    from master.setup.init.setup_folder import PORTS, init  # noqa: PLC0415  (the master itself has no use for it)

    if options.admin is not None:
        return _init_with_admin(options)
    for path in init(options.folder, force=options.force, web_port=options.web, ports=options.ports or PORTS):
        print(path)
    return 0


def _init_with_admin(options: argparse.Namespace) -> int:
    """Report all faults of the admin before anything is written."""
    from master.config.config import load_config  # noqa: PLC0415  (see above)
    from master.setup.init.setup_folder import CONF, PORTS, init  # noqa: PLC0415
    from master.setup.people.first_admin import add_first_admin, check_first_admin  # noqa: PLC0415
    from wire.console import url  # noqa: PLC0415

    password = _line() if options.password else None
    check_first_admin(options.folder.absolute() / "task_info", options.admin, password)
    written = init(options.folder, force=options.force, web_port=options.web, ports=options.ports or PORTS)
    config = load_config(options.folder.absolute() / CONF)
    made = add_first_admin(config, options.admin, password)
    told = {
        "written": list(map(str, written)), "name": made.name, "link": made.link, "until": made.until,
        "console": None if config.web is None else url(config.web, config.bind),
    }  # fmt: skip
    print(json.dumps(told, ensure_ascii=False))
    return 0


def _passwd(options: argparse.Namespace) -> int:
    from master.config.config import load_config  # noqa: PLC0415  (see above)
    from master.setup.people.lost_password import set_password  # noqa: PLC0415

    set_password(load_config(_conf(options.conf)), options.name, None if options.remove else _line())
    return 0


def _line() -> str:
    """Return the first line of stdin; nothing else reads stdin."""
    return sys.stdin.buffer.readline().removesuffix(b"\n").decode("utf-8", "replace")


def _take_over(options: argparse.Namespace) -> int:
    from master.setup.init import old_lab, takeover, takeover_text  # noqa: PLC0415  (see above)

    networks = None if options.networks is None else takeover.parse_networks(options.networks)
    wishes = takeover.Wishes(options.bind, networks, True if options.yes else None)
    lab = old_lab.read(options.old)
    if sys.stdin.isatty() and sys.stdout.isatty() and not options.json:
        _hear()
        try:
            wishes = takeover_text.ask(lab, wishes)
        except KeyboardInterrupt:
            print()
            return 130
    plan = takeover.plan(lab, wishes)
    if plan.changes_something and not options.dry_run:
        takeover.carry_out(plan, force=options.force)
    if options.json:
        print(json.dumps(takeover_text.as_json(plan, dry_run=options.dry_run), ensure_ascii=False), flush=True)
    else:
        print("\n".join(takeover_text.lines(plan, dry_run=options.dry_run)), flush=True)
    return 0


def _deploy(options: argparse.Namespace) -> int:
    from master.config.config import load_config  # noqa: PLC0415  (see above)
    from master.setup.deploy import plan  # noqa: PLC0415

    said = plan.deploy(load_config(_conf(options.conf)), options.folder, force=options.force)
    print(json.dumps(said, ensure_ascii=False) if options.json else "\n".join(plan.lines(said)), flush=True)
    plan.check_kept(said)
    return 0


def _shell(conf: Path, node: str) -> int:
    from master.config.config import load_config  # noqa: PLC0415
    from master.drivers import shell  # noqa: PLC0415  (paramiko takes its time to load)

    config = load_config(conf)
    _hear()
    return shell.main(config, node)


def _serve(serving: Serving) -> None:
    from master.app import main as serve  # noqa: PLC0415  (a wrong argument should be told without loading it all)
    from master.config.config import load_config  # noqa: PLC0415
    from master.durable.recovery import Permit  # noqa: PLC0415
    from master.start.server_log import guard  # noqa: PLC0415

    conf = _conf(serving.conf)
    config = load_config(conf)
    _log_to(config)
    tallies = guard(logging.getLogger().handlers)
    for key in config.not_yet_used:
        logging.getLogger("muster").warning("%s: %s is set and not used yet", conf, key)
    try:
        serve(config, Permit(edits=serving.accept_edits, damage=serving.skip_damaged))
    finally:
        for tally in tallies:
            tally.close()


def _log_to(config: Config) -> None:
    """Log into a rotating file, and on stderr when somebody looks at it."""
    from master.edited_files.ownership import make_folder  # noqa: PLC0415  (see above)
    from master.secrets.log_rights import LogFile, group_of  # noqa: PLC0415  (see above)

    path, group = config.server_log, group_of(config)
    try:
        make_folder(path.parent)
        file = LogFile(path, group)
    except OSError as error:
        from wire.message import Message  # noqa: PLC0415  (see above)

        raise ConfigError(Message("server_log_refused", path=str(path), detail=error.strerror)) from None
    handlers: list[logging.Handler] = [file]
    if sys.stderr.isatty():
        handlers.append(logging.StreamHandler())
    logging.basicConfig(level=logging.INFO, handlers=handlers)


def _hear() -> None:
    """From here on Ctrl-C is an exception: what was done to the terminal is undone."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
