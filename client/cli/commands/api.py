"""Ask the master for any verb, by its name on the wire; the answer is JSON. Without a verb, or with --describe: what it
can be asked, who may, what each verb takes and gives, as this version of Muster knows it, which asks no master.
"""

from __future__ import annotations

import sys
from collections import Counter

from client.caller import new_request_id
from client.cli.arguments import pairs, params
from client.cli.screen.terminal import terminal_width

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from client.cli.context import Context
    from client.verbs import Verbs

EXAMPLES = """examples:
  muster api                                   every verb
  muster api task                              those of a noun
  muster api task.submit --describe            one in full, with a request
  muster api server.info
  muster api task.list states=failed,lost limit=3
  muster api task.edit id=7 changes='{"priority": 5}'
  muster api task.show id=7 --curl              the same over HTTP
  muster api --openapi > openapi.json

VALUE is JSON where JSON is what the verb takes there, else text; of a list the items, with commas."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("verb", nargs="?", metavar="VERB", help="ask this; of a noun, list the verbs")
    pairs.add(parser, "params", params.pair, str.isidentifier, nargs="*", text="what the verb takes")
    parser.add_argument("--describe", action="store_true", help="tell all about VERB, and ask no master")
    parser.add_argument("--openapi", action="store_true", help="print the OpenAPI 3.1 document of all verbs")
    parser.add_argument("--curl", action="store_true", help="print the request for the HTTP interface, and ask nobody")


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    options = parser.parse_args(argv)
    if options.curl and (options.verb is None or options.describe or options.openapi):
        parser.error("--curl prints the request for a VERB, with its KEY=VALUE")
    if options.openapi and options.verb:
        parser.error("--openapi prints the document of all verbs: leave VERB out")
    if options.params and options.describe:
        parser.error("--describe asks no master: leave KEY=VALUE out")
    twice = [key for key, count in Counter(key for key, _ in options.params).items() if count > 1]
    if twice:
        parser.error(f"{twice[0]} is given twice")
    return options


def run(context: Context) -> int:
    """Do it."""
    from client.verbs import Verbs, openapi

    options = context.options
    if options.openapi:
        sys.stdout.write(openapi())
        return 0
    verbs = Verbs()
    if options.curl:
        sys.stdout.write(_curl(context, verbs, verbs.one(options.verb)))
        return 0
    if options.params or (options.verb in verbs.names and not options.describe):
        context.print_json(_ask(context, verbs, verbs.one(options.verb)))
    else:
        _describe(context, verbs)
    return 0


def _ask(context: Context, verbs: Verbs, name: str) -> Any:
    """Return the master's answer. After a lost connection, a call that must not happen twice is only repeated with the
    same `request_id`."""
    asked = params.typed(verbs, name, context.options.params)
    told = verbs.brief(name)
    if "request_id" in told["params"]:
        asked.setdefault("request_id", new_request_id())
    return context.client.call(name, asked, repeatable=told["repeatable"] or "request_id" in asked)


def _curl(context: Context, verbs: Verbs, name: str) -> str:
    """The same call over HTTP. The token is for the shell to fill in: what is printed gets into histories."""
    import json
    import shlex

    from client import address

    conf = address.conf_in_use(context.options.conf, context.options.master)
    host, port, authority = address.find(conf, context.options.master).host, address.CONSOLE_PORT, ""
    if conf is not None:
        web = address.load(conf).get("web")
        if isinstance(web, dict):
            port, hosts = web.get("port", port), web.get("hosts") or [host]
            host = str(hosts[0])
        authority = f"--cacert {shlex.quote(address.console_authority(conf))} "
    url = f"https://{f'[{host}]' if ':' in host else host}:{port}/api/v1/rpc/{name}"
    body = json.dumps(params.typed(verbs, name, context.options.params), ensure_ascii=False)
    return (
        f'curl -sS {authority}-H "Authorization: Bearer $MUSTER_TOKEN" -H "Content-Type: application/json" '
        f"-d {shlex.quote(body)} {url}\n"
    )


def _describe(context: Context, verbs: Verbs) -> None:
    from client.text.verbs import verb_page, verbs_table

    asked = context.options.verb
    wanted = verbs.of(asked)
    told = verbs.whole(asked) if asked in wanted else [verbs.brief(name) for name in wanted]
    if context.json:
        context.print_json(told)
    elif isinstance(told, dict):
        sys.stdout.write(verb_page(told, terminal_width()))
    else:
        sys.stdout.write(verbs_table(told, terminal_width()))
