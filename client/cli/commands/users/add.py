"""Add a user, or all of a CSV file. From the first one on callers must log in, and
each user owns the tasks that they submit.

A file has a head: name,display,mail,role,groups,expires, in any order; only name must be there. Groups have blanks
between them. Every row is looked at before the first is added."""

from __future__ import annotations

import argparse
import os
import sys

from client.cli.arguments import fields, user_rows
from client.cli.labs import closed_nodes
from client.cli.labs.invitation import invitation, page, tell_reach, write_links
from client.cli.screen import asking
from client.refusals import coded_error
from client.text.people import links_table
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.cli.context import Context
    from client.people import People

EXAMPLES = """examples:
  muster users add chen --admin --display 陈静 --links
  muster users add wang --groups nlp --expires 2027-07-31
  muster users add --from lab.csv --links
  muster users add --from lab.csv --links-to links.csv      a file of mode 0600, to be sent on"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="small letters, digits, `_` and `-`")
    parser.add_argument("--from", dest="file", metavar="FILE.csv", help="add all of a file (`-`: stdin)")
    role = parser.add_mutually_exclusive_group()
    role.add_argument("--role", choices=user_rows.ROLES, help="viewers look on (default: user)")
    role.add_argument("--admin", dest="role", action="store_const", const="admin", help="the role admin")
    parser.add_argument("--display", metavar="TEXT", help="the full name, for example 王伟")
    parser.add_argument("--mail", metavar="ADDRESS", help="the address for mail")
    parser.add_argument("--language", choices=user_rows.LANGUAGES, help="the language of messages")
    parser.add_argument("--expires", type=fields.until, metavar="TIME", help="the end of access: 2027-07-31, 90d")
    parser.add_argument("--groups", type=fields.words, default=[], metavar="NAME[,…]", help="the groups of the user")
    parser.add_argument(
        "--again", action="store_true", help="this is the removed user of the same name, and gets the tasks back"
    )
    links = parser.add_mutually_exclusive_group()
    links.add_argument("--links", action="store_true", help="print a link for each, for choosing a password")
    links.add_argument("--links-to", metavar="FILE", help="write the links into FILE as CSV (`-`: stdout)")
    asking.add_option(parser)


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """One, or a file of many."""
    if (options.name is None) == (options.file is None):
        parser.error("users add: give a NAME, or --from FILE.csv")
    of_one = ("role", "display", "mail", "language", "expires", "groups", "password_file", "again")
    said = [f"--{word.replace('_', '-')}" for word in of_one if getattr(options, word)]
    if options.file is not None and said:
        parser.error(f"users add --from: {said[0]} is for one user; a file has it in a column")


def run(context: Context) -> int:
    """Do it."""
    options, people = context.options, context.client.people
    if options.links_to not in (None, "-") and os.path.lexists(options.links_to):
        raise coded_error("conflict", "links_file_exists", path=options.links_to)
    rows = _of_file(options.file, people) if options.file is not None else [_of_options(options)]
    added = _add(context, people, rows)
    if any(row.get("role", "user") == "user" for row in rows if row["name"] in added):
        closed_nodes.tell(context)
    links = [people.link(name) for name in added] if options.links or options.links_to else []
    if context.json:
        found = {user["name"]: dict(user) for user in people.users()}
        for link in links:
            found[link["name"]].update(link)
        context.print_json([found[name] for name in added] if options.file is not None else found[options.name])
    elif options.links_to:
        write_links(context, options.links_to, {row["name"]: row for row in rows}, links)
    elif links:
        sys.stdout.write(links_table(links, invitation(context), page(context)))
        context.note("each link is for its user alone, works once, and for three days")
    if links and not context.json:
        tell_reach(context)
    return 0 if len(added) == len(rows) else 1


def _of_options(options: argparse.Namespace) -> dict[str, Any]:
    said = {"role": options.role, "display": options.display, "mail": options.mail, "language": options.language,
            "expires_at": options.expires, "again": options.again or None}  # fmt: skip
    row = {"name": options.name, "groups": options.groups}
    if options.password_file is not None:
        row["password"] = asking.read_password(options.password_file)
    return {**row, **{key: value for key, value in said.items() if value is not None}}


def _of_file(path: str, people: People) -> list[dict[str, Any]]:
    """The rows of a file, all of which could be added. Raises BadRequestError with what is wrong."""
    with open(0 if path == "-" else path, "rb", closefd=path != "-") as file:
        said = file.read()
    names = {user["name"] for user in people.users() if not user["is_owner_only"]}
    return user_rows.read(path, said, names, {group["name"] for group in people.groups()})


def _add(context: Context, people: People, rows: list[dict[str, Any]]) -> list[str]:
    """Add them, one after the other, and then to their groups; the names of those who are there now."""
    from wire.errors import MusterError

    added: list[str] = []
    try:
        for row in rows:
            people.add(**{key: value for key, value in row.items() if key != "groups"})
            added.append(row["name"])
            context.note(f"user {harmless(row['name'])}: added")
        for group in dict.fromkeys(group for row in rows for group in row["groups"]):
            people.edit_group(group, add=[row["name"] for row in rows if group in row["groups"]])
    except MusterError as error:
        if not added:
            raise
        context.note(f"error: {error.code}: {harmless(str(error))}")
        context.note(f"added by then: {', '.join(added)}")
    return added
