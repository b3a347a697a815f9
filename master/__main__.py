"""`python -m master`: parse arguments, set up the log, run. Says on the terminal what a command of it came to."""

from __future__ import annotations

import argparse
import json
import logging
import logging.handlers
import os
import sys
from pathlib import Path

from wire.errors import ConfigError, MusterError

LOG_BYTES = 10 << 20
LOG_FILES = 5
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def main(arguments: list[str]) -> int:
    """Run the command; the exit status: 0 done, 1 refused or failed (one line on stderr), 2 wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m master", description=__doc__)
    parser.add_argument("--conf", type=Path, default=Path("conf.json"), help="the configuration (default: conf.json)")
    commands = parser.add_subparsers(dest="command")
    _add_commands(commands)
    options = parser.parse_args(arguments)
    try:
        if options.command == "init":
            return _init(options)
        if options.command == "deploy":
            return _deploy(options)
        if options.command == "shell":
            return _shell(options.conf, options.node)
        _serve(options.conf)
    except MusterError as error:
        print(f"error: {error.code}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Nobody reads any more (`| head`); keep the interpreter's last flush from complaining about it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return 0


def _add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    init = commands.add_parser("init", help="write a conf.json and a registry that work on this machine")
    init.add_argument("folder", type=Path, nargs="?", default=Path())
    init.add_argument("--force", action="store_true", help="write them anew if they are there")
    init.add_argument("--from", dest="old", type=Path, metavar="OLD", help="take over the lab of an old system instead")
    init.add_argument("--bind", help="with --from: the address to listen on")
    init.add_argument("--networks", help="with --from: where desktop clients may come from")
    init.add_argument("--dry-run", action="store_true", help="with --from: tell all and write nothing")
    init.add_argument("--json", action="store_true", help="with --from: tell it as JSON")
    deploy = commands.add_parser("deploy", help="write what the system around needs: units, NFS, Samba, InfluxDB")
    deploy.add_argument("folder", type=Path)
    deploy.add_argument("--force", action="store_true", help="also over files that somebody changed")
    deploy.add_argument("--json", action="store_true", help="tell it as JSON")
    shell = commands.add_parser("shell", help="a shell on a node, with the master's way to it")
    shell.add_argument("node")


def _init(options: argparse.Namespace) -> int:
    if options.old is not None:
        return _take_over(options)
    from master.init.setup_folder import init  # noqa: PLC0415  (the master itself has no use for it)

    for path in init(options.folder, force=options.force):
        print(path)
    return 0


def _take_over(options: argparse.Namespace) -> int:
    from master.init import old_lab, takeover, takeover_text  # noqa: PLC0415  (see above)

    networks = None if options.networks is None else takeover.parse_networks(options.networks)
    wishes = takeover.Wishes(options.bind, networks)
    lab = old_lab.read(options.old)
    if sys.stdin.isatty() and sys.stdout.isatty() and not options.json:
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
    from master.config import load_config  # noqa: PLC0415  (see above)
    from master.deploy import plan  # noqa: PLC0415

    said = plan.deploy(load_config(options.conf), options.folder, force=options.force)
    print(json.dumps(said, ensure_ascii=False) if options.json else "\n".join(plan.lines(said)), flush=True)
    plan.check_kept(said)
    return 0


def _shell(conf: Path, node: str) -> int:
    from master.config import load_config  # noqa: PLC0415
    from master.drivers import shell  # noqa: PLC0415  (paramiko takes its time to load)

    return shell.main(load_config(conf), node)


def _serve(conf: Path) -> None:
    from master.app import main as serve  # noqa: PLC0415  (a wrong argument should be told without loading it all)
    from master.config import load_config  # noqa: PLC0415

    config = load_config(conf)
    _log_to(config.server_log)
    for key in config.not_yet_used:
        logging.getLogger("muster").warning("%s: %s is set and not used yet", conf, key)
    serve(config)


class _LogFile(logging.handlers.RotatingFileHandler):
    """A log on a disk that may be full: said once where somebody may see it, never line by line with a traceback."""

    _told = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  (its name in the base class)
        """Say that the log has gaps; what is in the lines that are missing is not worth the work of the master."""
        error = sys.exception()
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._told:
            self._told = True
            print(f"the log {self.baseFilename} cannot be written: {error.strerror}; it has gaps now", file=sys.stderr)


def _log_to(path: Path) -> None:
    """Log into a rotating file, and on stderr when somebody looks at it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = _LogFile(path, maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"server_log_path: {path} cannot be written: {error.strerror}") from None
    handlers: list[logging.Handler] = [file]
    if sys.stderr.isatty():
        handlers.append(logging.StreamHandler())
    logging.basicConfig(level=logging.INFO, format=FORMAT, handlers=handlers)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
