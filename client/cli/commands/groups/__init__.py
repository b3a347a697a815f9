"""Manage groups of users and their mentors: a mentor sees, cancels, holds and moves the tasks of the members."""

from __future__ import annotations

from client.cli.arguments import family

EXAMPLES = """examples:
  muster groups add nlp
  muster groups edit nlp --add wang,li --add-mentor chen
  muster groups list"""
ACTIONS = {
    "list": "groups, with members and mentors; for who is no admin, one's own",
    "add": "add groups of nobody",
    "edit": "say who belongs to a group, and who looks after it",
    "rm": "remove groups; their users stay",
}

arguments, parse, run = family.of(__name__, ACTIONS)
