"""Options of every command, beside its own: the address of the master, the caller's token, and --json."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def declare(module: Any, parser: Any) -> None:
    """Tell a parser (argparse's, or the quick one) all that a command takes."""
    module.arguments(parser)
    shared = parser.add_argument_group("everywhere")
    shared.add_argument(
        "--conf", metavar="FILE", help="the master's conf.json (default: MUSTER_CONF, conf.json here or above)"
    )
    shared.add_argument("--master", metavar="HOST[:PORT]", help="a master elsewhere (default: MUSTER_MASTER)")
    token = {"metavar": "TOKEN", "help": "who you are (better: MUSTER_TOKEN, or `muster login`)"}
    shared.add_argument("--token", **{**token, **getattr(module, "TOKEN", {})})
    shared.add_argument(
        "--proxy", dest="socks", metavar="URL", help="the way there: socks5://HOST:PORT (or MUSTER_PROXY)"
    )
    shared.add_argument("--ca-fingerprint", metavar="sha256:…", help="at the first use: whose authority to pin")
    shared.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
