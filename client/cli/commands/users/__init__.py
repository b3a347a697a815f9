"""The users of the lab: who may log in, with which role, and how. For admins, except your own password."""

from __future__ import annotations

from client.cli.arguments import family

EXAMPLES = """examples:
  muster users list
  muster users add wang --display 王伟 --links
  muster users add --from lab.csv --links
  muster users edit wang role=admin
  muster users passwd
  muster users disable wang
  muster users add --help"""
ACTIONS = {
    "list": "all users: who they are, how they log in",
    "add": "add one, or all of a CSV file",
    "edit": "change role, display name, mail, language or the day of the end",
    "disable": "let users in no more, and hold what waits",
    "enable": "undo that",
    "rm": "remove users none of whose tasks waits or runs",
    "passwd": "set a password",
    "link": "make a link with which a user chooses a password, once",
    "claim": "give the tasks of an owner from before there were users to a user",
}

arguments, parse, run = family.of(__name__, ACTIONS)
