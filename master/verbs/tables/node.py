"""The verbs `node.…`: see `master.verbs.table`."""

from __future__ import annotations

from master.core.tasks.task import TaskView
from master.verbs import attempts, doctor, node_tokens, nodes
from master.verbs.attempts import UnknownAttemptView
from master.verbs.base import Nothing, Verb
from master.verbs.node_trust import Trust, Trusted, trust
from master.views.nodes import NodePage, NodeView

VERBS: dict[str, Verb] = {
    "node.list": Verb(
        Nothing, list[NodeView], nodes.list_nodes, "viewer", "read", "none", repeatable=True, on_wall=True
    ),
    "node.show": Verb(nodes.OneNode, NodePage, nodes.show, "viewer", "read", "none", repeatable=True),
    "node.add": Verb(nodes.Add, nodes.NodeAdded, nodes.add, "admin", "nodes", "none"),
    "node.edit": Verb(nodes.Edit, nodes.NodeEdited, nodes.edit, "admin", "nodes", "none", repeatable=True),
    "node.remove": Verb(nodes.OneNode, nodes.NodeRemoved, nodes.remove, "admin", "nodes", "none"),
    "node.drain": Verb(nodes.Drain, NodeView, nodes.drain, "admin", "nodes", "none", repeatable=True),
    "node.resume": Verb(nodes.Resume, NodeView, nodes.resume, "admin", "nodes", "none"),
    "node.doctor": Verb(
        doctor.Names, list[doctor.Examined], doctor.doctor, "admin", "nodes", "none", repeatable=True, quiet=True
    ),
    "node.token": Verb(node_tokens.NodeToken, node_tokens.TokenTold, node_tokens.token, "admin", "nodes", "none"),
    "node.archive": Verb(
        Nothing, node_tokens.Archive, node_tokens.archive, "admin", "nodes", "none", repeatable=True, quiet=True
    ),
    "node.trust": Verb(Trust, Trusted, trust, "admin", "nodes", "none", repeatable=True),
    "node.attempts": Verb(
        nodes.OneNode, list[UnknownAttemptView], attempts.of_node, "admin", "nodes", "none", repeatable=True, quiet=True
    ),
    "node.adopt": Verb(attempts.Adopt, TaskView, attempts.adopt, "admin", "nodes", "none"),
    "node.end_attempt": Verb(
        attempts.EndAttempt, UnknownAttemptView, attempts.end, "admin", "nodes", "none", repeatable=True
    ),
    "node.dismiss_attempt": Verb(
        attempts.DismissAttempt, UnknownAttemptView, attempts.dismiss, "admin", "nodes", "none", repeatable=True
    ),
    "node.lost": Verb(nodes.GiveUp, nodes.Lost, nodes.lost, "admin", "nodes", "none"),
}
