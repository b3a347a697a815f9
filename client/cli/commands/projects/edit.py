"""Say to which group a project belongs, whose members alone may use it then, and what its tasks may have at a time, all
together (quotas; `none` is no bound). With nothing left to say of it, it is a name like any other."""

from __future__ import annotations

import argparse

from client.cli.arguments import pairs, quotas
from client.text.people import project_text
from wire.harmless import harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.cli.context import Context

EXAMPLES = """examples:
  muster projects edit crawl group=nlp
  muster projects edit crawl max_total_gpus=8 max_running=20
  muster projects edit crawl group= max_total_gpus=none max_running=none"""
_KEYS = ("group", *quotas.KEYS)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("name", metavar="PROJECT", help="which")
    pairs.add(parser, "changes", _change, _KEYS.__contains__, text=f"keys: {', '.join(_KEYS)}")


def _change(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or key not in _KEYS:
        raise pairs.none_such(text, _KEYS)
    return (key, value or None) if key == "group" else (key, quotas.value(value))


def run(context: Context) -> int:
    """Do it."""
    project = context.client.people.edit_project(context.options.name, **dict(context.options.changes))
    if context.json:
        context.print_json(project)
    context.say(f"project {harmless(project['name'])}: {project_text(project)}")
    return 0
