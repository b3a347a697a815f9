"""Write a conf.json and a registry that work on this machine; with --from, take over the lab of an old system.

At a terminal it asks for a first admin, for labs of several people, who logs in from other machines, and whether to
add a console for browsers. The account that runs the master is admin on its own machine without one, and `muster users
add` adds users at any time."""

from __future__ import annotations

import os

from client import known_labs
from client.address import LOOPBACK, is_loopback
from client.cli.arguments import file_name
from client.cli.labs import which_lab
from client.cli.screen import asking
from client.cli.screen.terminal import said_yes
from client.refusals import coded_error
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from client.cli.context import Context

EXAMPLES = """examples:
  muster init                       here
  muster init lab && cd lab && muster up --detach
  muster init lab --admin wang                        prints a link with which wang chooses a password
  muster init lab --admin wang --web                  with the console for browsers
  muster init lab --no-admin                          asks nothing
  muster init --from ~/master --dry-run
  muster init --from ~/master --bind 192.168.36.10 --networks 192.168.36.0/24
  muster init --back ~/master       to the old system, with what has run meanwhile as run"""

WEB_PORT = 8443
_PORTS = 1 << 16
_FREE = -1
"""In the place of a port: one that is free."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("dir", type=file_name.folder, nargs="?", metavar="DIR", help="the folder (default: this one)")
    parser.add_argument(
        "--force", action="store_true", help="overwrite existing files; with --from: even if the old master runs"
    )
    admin = parser.add_mutually_exclusive_group()
    admin.add_argument("--admin", metavar="NAME", help="add a first admin (at a terminal: asked)")
    admin.add_argument("--no-admin", action="store_true", help="add none, and ask for none")
    parser.add_argument(
        "--password-file", metavar="FILE", help="their password (`-`: stdin; default: a link that lets them choose one)"
    )
    parser.add_argument(
        "--web", nargs="?", type=int, const=_FREE, metavar="PORT",
        help=f"with the console for browsers (`web` in conf.json; default: {WEB_PORT}, or one that is free)",
    )  # fmt: skip
    parser.add_argument(
        "-y", "--yes", action="store_true",
        help="ask nothing, add no admin but --admin's; with --from: hold waiting tasks that seem to have run",
    )  # fmt: skip
    group = parser.add_argument_group("taking over an old system")
    group.add_argument(
        "--from", dest="old", type=file_name.folder, metavar="OLD", help="its `master` folder, or the one above"
    )
    group.add_argument(
        "--back",
        type=file_name.folder,
        metavar="OLD",
        help="the way back: its files as they were, what has run marked as run",
    )
    group.add_argument("--bind", metavar="ADDRESS", help="where to listen (default: 127.0.0.1, or asked)")
    group.add_argument("--networks", metavar="NET,…", help="where desktop clients may come from: 192.168.36.0/24,…")
    group.add_argument("--dry-run", action="store_true", help="tell all, write nothing")


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Parse, and refuse options that mean nothing together."""
    options = parser.parse_args(argv)
    if options.old is not None and options.dir is not None:
        parser.error("--from takes the lab over where it lies: no DIR with it")
    if options.back is not None and (options.dir is not None or options.old is not None):
        parser.error("--back goes alone")
    if (options.admin or options.no_admin) and (options.old is not None or options.back is not None):
        parser.error("--admin is for a new queue: start the one taken over, then `muster users add NAME --admin`")
    if options.web is not None and (options.old is not None or options.back is not None):
        parser.error("--web is for a new queue: write `web` into the conf.json of the one taken over")
    if options.web not in (None, _FREE) and not 0 < options.web < _PORTS:
        parser.error(f"--web: found {options.web}, expected a port from 1 to {_PORTS - 1}")
    if options.password_file is not None and not options.admin:
        parser.error("--password-file goes with --admin")
    for name in ("bind", "networks", "dry_run"):
        if options.old is None and getattr(options, name):
            parser.error(f"--{name.replace('_', '-')} goes with --from")
    if options.yes and options.old is None and options.back is None and not options.admin:
        options.no_admin = True
    return options


def run(context: Context) -> int:
    """Do it."""
    if context.options.back is not None:
        return _go_back(context)
    return _take_over(context) if context.options.old is not None else _write(context)


def _write(context: Context) -> int:
    folder = os.path.abspath(context.options.dir or ".")
    conf = os.path.join(folder, "conf.json")
    is_new = not os.path.lexists(conf)
    other = which_lab.other_than(conf) if is_new else None
    if _asks(context) and not which_lab.is_new_one_meant(context, other, folder):
        return 1
    name, password = _admin(context, folder)
    web = _web(context, conf, asked=name)
    with known_labs.alone():  # nobody is asked anything meanwhile
        words = ["init", folder, *(["--force"] if context.options.force else []), *_port_words(context, conf, web)]
        status = _made(context, conf, words, name, password)
        if status == 0:
            known_labs.remember(conf)
    if status == 0 and not context.json:
        which_lab.tell(context, conf, context.options.dir, other)
    return status


def _port_words(context: Context, conf: str, web: int | None) -> list[str]:
    """The ports, as the master's program takes them: for `web` a port, `_FREE`, or None for no console. Raises
    ConflictError."""
    taken = _taken(conf)
    own = known_labs.own_ports(conf)
    if own is not None and web in own:
        raise coded_error("conflict", "web_port_is_masters", port=web, conf=conf)
    ports = own or known_labs.free_ports(taken if web is None else {*taken, web})
    words = ["--ports", ",".join(map(str, ports))]
    if web == _FREE:
        web = known_labs.free_port(WEB_PORT, taken.union(ports))
    elif web is not None and (web in taken or not known_labs.is_free(web)):
        from wire.message import Message

        port = Message("console_port_of_lab", port=web) if web in taken else Message("console_port_used", port=web)
        context.note(port)
    return words if web is None else [*words, f"--web={web}"]


def _made(context: Context, conf: str, words: list[str], name: str, password: str | None) -> int:
    """Have the master's program write the two files; its exit code. `name`: a first admin's, empty for none."""
    import subprocess

    from client.cli.programs import master_process

    folder = os.path.dirname(conf)
    if name:
        status = _with_admin(context, folder, [*words, "--admin", name], password)
    elif not context.json:
        status = master_process.run(*words)
    else:
        status = subprocess.run(
            master_process.command(*words), cwd=master_process.folder(), stdout=subprocess.DEVNULL, check=False
        ).returncode
        if status == 0:
            context.print_json({"conf": conf})
    return status


def _asks(context: Context) -> bool:
    """May anything be asked, and is there somebody to answer?"""
    options = context.options
    return not (options.admin or options.no_admin or context.json) and asking.is_terminal()


def _taken(conf: str) -> set[int]:
    """The ports of all other labs that are known here."""
    own = os.path.realpath(conf)
    return {port for one in known_labs.known() if one != own for port in known_labs.ports_of(one)}


def _admin(context: Context, folder: str) -> tuple[str, str | None]:
    """Return the first admin's name, empty for none, and the password, None for a link. An existing queue may have
    users already."""
    options = context.options
    if options.admin:
        return options.admin, asking.read_password(options.password_file) if options.password_file else None
    if not _asks(context) or os.path.exists(f"{folder}/task_info"):
        return "", None
    if os.path.exists(f"{folder}/conf.json") and not options.force:
        return "", None  # it is refused
    from wire.message import Message

    context.note(Message("queue_is_yours"))
    name = asking.ask("Name of a first admin, who logs in from other machines, too (Enter: none)")
    if not name:
        return "", None
    password = asking.ask_password(f"Password for {harmless(name)} (Enter: a link that lets them choose one)")
    if password:
        asking.ask_again(password)
    return name, password or None


def _web(context: Context, conf: str, asked: str) -> int | None:
    """The port of the console, `_FREE` for one that is free, None for no console. It is asked for where somebody that
    was `asked` for can log in there, and sits at the terminal."""
    options = context.options
    if options.web is not None or options.admin or not asked:
        said: int | None = options.web
        return said
    taken = _taken(conf)
    port = known_labs.free_port(WEB_PORT, taken.union(known_labs.own_ports(conf) or known_labs.free_ports(taken)))
    return _FREE if said_yes(f"A console for browsers, on port {port} (`web` in conf.json)?") else None


def _with_admin(context: Context, folder: str, words: list[str], password: str | None) -> int:
    import json
    import subprocess

    from client.cli.programs import master_process

    done = subprocess.run(
        master_process.command(*words, *(["--password"] if password else [])), cwd=master_process.folder(),
        env=master_process.environment(), input=f"{password or ''}\n".encode(), stdout=subprocess.PIPE, check=False,
    )  # fmt: skip
    if done.returncode:
        return done.returncode
    told: dict[str, Any] = json.loads(done.stdout)
    name, link = told["name"], told["link"]
    if context.json:
        context.print_json(
            {"conf": os.path.join(folder, "conf.json"), "admin": name, "link": link, "until": told["until"]}
        )
        return 0
    for path in told["written"]:
        context.say(path)
    _say_ways(context, os.path.join(folder, "conf.json"), harmless(name), link, told["console"])
    return 0


def _say_ways(context: Context, conf: str, name: str, link: str | None, console: str | None) -> None:
    """How the first admin logs in: the addresses are those at which the new master will listen."""
    from client.address import load, read_conf
    from client.cli.labs.invitation import login_line, reached_at
    from wire.message import Message

    bind = str(load(conf).get("bind") or LOOPBACK[1])
    place = reached_at(read_conf(conf), bind)
    if link is None:
        context.say(f"admin {name}: `muster login {place}` with that password, once `muster up` runs")
    else:
        context.say(f"admin {name}: once `muster up` runs, this lets them choose a password, once and for three days\n")
        context.say(f"  {login_line(place, link)}")
        if console is not None:
            context.say(f"  {console}#link={link}    (in a browser)")
    if is_loopback(bind):
        context.note(Message("this_machine_only"))


def _go_back(context: Context) -> int:
    from client.cli.programs import master_process

    words = ["init", "--back", os.path.abspath(os.path.expanduser(context.options.back))]
    return master_process.run(*words, *(["--json"] if context.json else []))


def _take_over(context: Context) -> int:
    from client.cli.programs import master_process

    options = context.options
    words = ["init", "--from", os.path.abspath(os.path.expanduser(options.old))]
    for name, value in (("--bind", options.bind), ("--networks", options.networks)):
        words += [f"{name}={value}"] if value is not None else []
    for name, wanted in (
        ("--force", options.force),
        ("--dry-run", options.dry_run),
        ("--yes", options.yes),
        ("--json", context.json),
    ):
        words += [name] if wanted else []
    status = master_process.run(*words)
    if status == 0 and not options.dry_run:
        _remember_old(context, os.path.abspath(os.path.expanduser(options.old)))
    return status


def _remember_old(context: Context, old: str) -> None:
    """The lab keeps its ports, and another one may have them."""
    for conf in (os.path.join(old, "conf.json"), os.path.join(old, "master", "conf.json")):
        if os.path.isfile(conf):
            with known_labs.alone():
                known_labs.remember(conf)
            both = sorted(_taken(conf) & known_labs.ports_of(conf))
            if both:
                from wire.message import Message

                context.note(Message("lab_has_port_too", ports=tuple(both)))
            return
