"""The sentences of `muster init` about labs: which other lab is known, what was created, and the next command."""

from __future__ import annotations

import os
import shlex

from client import known_labs
from client.address import above, load, logins_folder
from client.cli.screen.terminal import said_yes
from wire.errors import ConfigError
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context


class Other:
    """A lab that existed before the new one. `name`: its conf.json or address, as `option` takes it; `why`: how it is
    known; `is_first`: commands use this lab even in the folder of the new one."""

    def __init__(self, name: str, why: str, option: str = "--conf", *, is_first: bool = False) -> None:
        self.name = name
        self.why = why
        self.option = option
        self.is_first = is_first

    def __str__(self) -> str:
        return f"{harmless(self.name)} ({self.why})"

    @property
    def command(self) -> str:
        """Return the command that shows this lab."""
        return f"muster status {self.option} {shlex.quote(self.name)}"


def other_than(conf: str) -> Other | None:
    """Return the lab that commands use now, or one that this account created before; None if there is none."""
    master, named = os.environ.get("MUSTER_MASTER"), os.environ.get("MUSTER_CONF")
    if master:
        return Other(master, "MUSTER_MASTER names it", "--master", is_first=True)
    if named and not _is_same(named, conf):
        return Other(os.path.abspath(named), "MUSTER_CONF names it", is_first=True)
    found = above(os.path.dirname(conf))
    if found is not None:
        return Other(found, "the folder lies in it")
    made = [one for one in known_labs.known() if not _is_same(one, conf)]
    return Other(made[-1], "you made it before") if made else _logged_in()


def is_new_one_meant(context: Context, other: Other | None, folder: str) -> bool:
    """Ask at a terminal whether the user wants a new lab beside the `other` one. Without another lab: True."""
    if other is None or said_yes(
        f"You have a lab already: {other}.\nIs another, new one meant, in {harmless(folder)}?"
    ):
        return True
    from wire.message import Message

    context.note(Message("no_lab_made", command=other.command))
    return False


def tell(context: Context, conf: str, folder: str | None, other: Other | None) -> None:
    """Print what was created, and what to type next. `folder`: as the user typed it; None for the current folder."""
    context.note(f"made a lab {_described(conf)}")
    up = "muster up --detach"
    if other is not None and other.is_first:
        up += f" --conf {shlex.quote(conf)}"
    elif folder is not None:
        up = f"cd {shlex.quote(folder if not folder.startswith('-') else os.path.abspath(folder))} && {up}"
    context.note(f"next: {harmless(up)}")
    if other is None:
        return
    from wire.message import Message

    if other.is_first:
        variable = other.why.partition(" ")[0]
        context.note(Message("lab_of_variable", lab=str(other), variable=variable, conf=conf))
    else:
        context.note(Message("lab_of_folder", lab=str(other)))


def _described(conf: str) -> str:
    try:
        said = load(conf)
        registry = os.path.join(os.path.dirname(conf), str(said.get("slaver_file")))
        count = _gpus(registry)
    except ConfigError:
        return f"in {harmless(os.path.dirname(conf))}"
    ports = ", ".join(map(str, known_labs.own_ports(conf) or ()))
    web = said.get("web")
    console = f", console on port {web['port']}" if isinstance(web, dict) and "port" in web else ""
    gpus = "no GPU" if not count else f"{count} GPU{'s' if count > 1 else ''}"
    return f"on ports {ports}{console}, with this machine as node local ({gpus})"


def _gpus(registry: str) -> int:
    import json

    from wire.regular_file import read_regular

    try:
        return int(json.loads(read_regular(registry))[0]["gpu_count"])
    except (OSError, ValueError, LookupError, TypeError):
        return 0


def _logged_in() -> Other | None:
    """Return the lab of the last log-in; None if there is none."""
    folder = logins_folder()
    if not os.path.isdir(folder):
        return None
    from client.logins import Logins

    try:
        last = Logins(folder).last()
    except ConfigError:
        return None
    if last is None:
        return None
    why = "you logged in there"
    return Other(last.conf, why) if last.conf else Other(last.master, why, "--master")


def _is_same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
