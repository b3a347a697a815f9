"""The master's own files, conf.json and the registry, from afar: look at them, change them, put an earlier version
back. A change is checked as at a start, and shown as a difference first; the earlier file is kept. For admins."""

from __future__ import annotations

from client.cli.arguments import family

EXAMPLES = """examples:
  muster conf show
  muster conf edit                              in $VISUAL or $EDITOR
  muster conf edit registry --from nodes.json --dry-run
  muster conf kept
  muster conf restore conf.json.20261124T081500Z-0a1b2c3d"""
ACTIONS = {
    "show": "the text, with marks for secrets, or its version",
    "edit": "change it in an editor, or from a file",
    "kept": "the versions that changes have replaced",
    "restore": "put one of these back",
}

arguments, parse, run = family.of(__name__, ACTIONS)
