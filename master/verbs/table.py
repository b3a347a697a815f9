"""All verbs, by the name they have on the wire, in the client and in the tests; with the least role that may call them.

What is not in this table cannot be called.
"""

from __future__ import annotations

from master.verbs import logs, nodes, server, tasks
from master.verbs.base import Nothing, Verb

VERBS: dict[str, Verb] = {
    "server.info": Verb(Nothing, server.info, "viewer"),
    "server.stop": Verb(Nothing, server.stop, "admin"),
    "task.submit": Verb(tasks.Submit, tasks.submit),
    "task.submit_batch": Verb(tasks.SubmitBatch, tasks.submit_batch),
    "task.list": Verb(tasks.ListTasks, tasks.list_tasks, "viewer"),
    "task.show": Verb(tasks.OneTask, tasks.show, "viewer"),
    "task.why": Verb(tasks.OneTask, tasks.why, "viewer"),
    "task.cancel": Verb(tasks.Cancel, tasks.cancel),
    "task.edit": Verb(tasks.Edit, tasks.edit),
    "task.hold": Verb(tasks.OneTask, tasks.hold),
    "task.release": Verb(tasks.OneTask, tasks.release),
    "task.move": Verb(tasks.Move, tasks.move),
    "task.start": Verb(tasks.OneTask, tasks.start),
    "task.retry": Verb(tasks.OneTask, tasks.retry),
    "task.remove": Verb(tasks.Remove, tasks.remove),
    "log.read": Verb(logs.Read, logs.read, "viewer"),
    "node.list": Verb(Nothing, nodes.list_nodes, "viewer"),
    "node.show": Verb(nodes.OneNode, nodes.show, "viewer"),
}
