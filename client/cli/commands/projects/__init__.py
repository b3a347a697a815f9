"""Projects: which there are, to which group one belongs, and what its tasks may have at a time."""

from __future__ import annotations

from client.cli.arguments import family

EXAMPLES = """examples:
  muster projects list
  muster projects edit crawl group=nlp
  muster projects edit crawl max_total_gpus=8 max_running=20
  muster projects edit --help"""
ACTIONS = {
    "list": "projects, their groups and quotas, and what is in use",
    "edit": "say to which group one belongs, and what its tasks may have",
}

arguments, parse, run = family.of(__name__, ACTIONS)
