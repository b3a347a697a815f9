"""One machine, or several by their names: look at it, change its entry in the registry, set it aside, trust its key."""

from __future__ import annotations

from client.cli.arguments import family

EXAMPLES = """examples:
  muster node show a
  muster node add b --ip 192.168.36.131 --user lab --gpus 2 --gpu-model RTX3090
  muster node trust b
  muster node drain a --reason "new fan" --wait
  muster node add --help"""
ACTIONS = {
    "list": "all machines, as `muster nodes`",
    "show": "all that is known of a node",
    "add": "write a node into the registry",
    "edit": "change its entry in the registry",
    "rm": "take nodes out of the registry; busy ones go after their last task",
    "drain": "let nodes, or single GPUs, finish what they have and take nothing new",
    "resume": "let drained nodes, or GPUs that were set aside, take tasks again",
    "doctor": "find problems of nodes, with a cure for each finding",
    "trust": "look at a machine's host key and pin it",
    "token": "make the token with which a machine that the master cannot reach dials in",
    "attempts": "what runs on a node and is no task, since the lab lost its records: list, adopt, end",
    "lost": "give up what runs on machines that will not come back",
}

arguments, parse, run = family.of(__name__, ACTIONS)
