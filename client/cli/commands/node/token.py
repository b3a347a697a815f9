"""Make the token with which a node's agent dials in, where the master cannot reach the machine (driver `report`).

It is shown this once, with what to type on the machine. A token that is rotated opens for ten minutes more.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys

from client.cli.arguments.file_name import STREAM
from client.refusals import not_written
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.cli.context import Context

EXAMPLES = """examples:
  muster node add far --driver report --gpus 8
  muster node token far
  muster node token far --at gate.example.org:63005     how the machine reaches the master
  muster node token far --write muster-agent.pyz        the agent, to be carried there
  muster node token far --rotate
  muster node token far --revoke"""
_FETCH = (
    "import hashlib,socket,ssl;"
    "s=ssl._create_unverified_context().wrap_socket(socket.create_connection(({host},{port})));"
    's.sendall(b"{{\\"op\\":\\"archive\\"}}\\n");d=s.makefile("rb").read({size});'
    'assert hashlib.sha256(d).hexdigest()=="{sha256}";open("muster-agent.pyz","wb").write(d)'
)
"""For a line of any shell: without a single quote. The connection is closed once the whole archive has arrived."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("name", metavar="NAME", help="the node's name, see `muster nodes`")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--rotate", action="store_true", help="make another one; the old one opens for ten minutes more")
    what.add_argument("--revoke", action="store_true", help="let no token of the node open any more; tasks run on")
    what.add_argument(
        "--write", metavar="FILE", help="write the agent into FILE (`-`: stdout); it holds no secret, no token is made"
    )
    parser.add_argument(
        "--at", metavar="HOST[:PORT]", help="how the machine reaches the master (default: what we know)"
    )


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """On stdout there is one thing."""
    if options.write == STREAM and options.json:
        parser.error("--write - prints the agent itself: leave out --json")


def run(context: Context) -> int:
    """Do it."""
    options = context.options
    if options.write:
        return _write(context)
    host, port = _split(options.at)  # before a token is made that nobody would see
    action = "rotate" if options.rotate else "revoke" if options.revoke else "make"
    told = context.client.node_token(options.name, action)
    if host:
        told["master"] = f"{host}:{port or told['master'].rpartition(':')[2]}"
    if context.json:
        context.print_json(told)
    elif action == "revoke":
        context.say(f"node {harmless(options.name)}: its tokens are revoked; its tasks run on")
    else:
        _tell(context, told)
    return 0


def _write(context: Context) -> int:
    import base64

    told = context.client.call("node.archive", {})
    path, content = context.options.write, base64.b64decode(told["content"])
    if path == STREAM:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return 0
    _put(path, content)
    if context.json:
        context.print_json({"file": path, "version": told["version"], "sha256": told["sha256"]})
    context.say(f"{harmless(path)}: the agent, version {harmless(told['version'])}; it holds no secret")
    return 0


def _put(path: str, content: bytes) -> None:
    draft = f"{path}.{os.getpid()}.new"
    try:
        with open(draft, "wb", opener=_new) as file:
            file.write(content)
        os.replace(draft, path)
    except OSError as error:
        if os.path.exists(draft):
            os.unlink(draft)
        raise not_written(path, error) from None


def _new(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_EXCL | os.O_NOFOLLOW, 0o666)


def _split(at: str | None) -> tuple[str, str]:
    """HOST and PORT of `--at`; an IPv6 address in brackets, and what was not said empty. Raises ConfigError."""
    if not at:
        return "", ""
    from client.address import parse

    found = parse(at)
    is_bare = at in (found.host, f"[{found.host}]")
    return f"[{found.host}]" if ":" in found.host else found.host, "" if is_bare else str(found.data)


def _tell(context: Context, told: dict[str, Any]) -> None:
    name = context.options.name
    if not told["outside"]:
        context.note("note: this master listens on its own machine only: `bind` in conf.json lets others in")
    context.say(f"node {harmless(name)}: its token, shown this once:\n")
    context.say(f"  {told['token']}\n")
    if told["old_until"]:
        context.say("The one before it opens for ten minutes more. On the machine, while its agent runs:\n")
        context.say(f"  python3 muster-agent.pyz report --node {shlex.quote(name)} --new-token\n")
        return
    for line in _steps(name, told):
        context.say(line)


def _steps(name: str, told: dict[str, Any]) -> list[str]:
    """Return the commands to type on that machine. None contains a secret: the agent asks for the token."""
    host, _, port = told["master"].rpartition(":")
    place = {"host": f'"{host.strip("[]")}"', "port": int(port)}
    fetch = _FETCH.format(**place, sha256=told["archive"]["sha256"], size=told["archive"]["size"])
    report = f"python3 muster-agent.pyz report --node {shlex.quote(name)}"
    unit = f"muster-{''.join(char if char.isascii() and char.isalnum() else '-' for char in name)}.service"
    return [
        "On the machine, as the user that tasks shall run as (Python 3.8 or newer; no root, nothing to install):\n",
        "1. Fetch the agent (or carry it there: --write). The command checks its SHA-256.\n",
        f"  python3 -c {shlex.quote(fetch)}\n",
        "2. Start it. It asks for the token and remembers it, in a file of mode 0600.\n",
        f"  {report} --new-token --detach \\",
        f"    --master {shlex.quote(told['master'])} --authority {told['authority']}\n",
        "3. To have it there after a reboot: a user's service, or the system's. It takes over when that one ends.\n",
        f"  mkdir -p ~/.config/systemd/user && {report} --unit user > ~/.config/systemd/user/{unit}",
        f"  systemctl --user enable --now {unit} && loginctl enable-linger",
        f"  {report} --unit system | sudo tee /etc/systemd/system/{unit} && sudo systemctl enable --now {unit}",
    ]
