"""Look at the host key that a machine shows, and pin it: from then on no other machine passes for it.

Compare the fingerprint with what `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` says on the machine itself.
"""

from __future__ import annotations

import argparse

from client.cli.several import by_name, node_each
from client.refusals import coded_error
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context
    from client.shapes import Trust

EXAMPLES = """examples:
  muster node trust a                        shows the key and asks
  muster node trust a --fingerprint SHA256:…
  muster node trust --all --yes              every machine that we do not know yet"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    node_each.add(parser, "*")
    parser.add_argument("--all", action="store_true", help="every ssh node whose key is not known yet")
    parser.add_argument("--fingerprint", metavar="SHA256:…", help="pin it if it is this one, without asking")
    by_name.add_yes(parser)


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Check what the parser cannot check itself."""
    if bool(options.names) == options.all:
        parser.error("say which nodes: their names, or --all")
    if options.fingerprint and len(options.names) != 1:
        parser.error("--fingerprint goes with the name of one node")


def run(context: Context) -> int:
    """Do it."""
    options = context.options
    names = options.names or [node["name"] for node in context.client.nodes() if node["driver"] == "ssh"]
    if not names:
        context.note("no node is reached by ssh")
    return by_name.each(context, names, lambda name: _trust(context, name))


def _trust(context: Context, name: str) -> Trust | None:
    told = context.client.trust(name, context.options.fingerprint)
    shown = harmless(name)
    offered = harmless(f"{told['offered']['fingerprint']} ({told['offered']['type']})")
    if told["pinned"]:
        context.say(f"node {shown}: {'pinned' if context.options.fingerprint else 'known already'}: {offered}")
        return told
    if told["known"] and context.options.all:
        raise coded_error("conflict", "pinned_key_differs", node=name)
    if told["known"]:
        context.say(f"node {shown} shows ANOTHER key than before: set up anew, or somebody in between?")
        context.say(f"  known  {harmless(told['known'])}")
    else:
        context.say(f"node {shown} shows a key that is not known yet:")
    context.say(f"  shown  {offered}")
    if not by_name.agreed(context, f"Trust node {shown} with the key {told['offered']['fingerprint']}?"):
        return None
    pinned = context.client.trust(name, told["offered"]["fingerprint"])
    context.say(f"node {shown}: pinned")
    return pinned
