"""All verbs, by the name they have on the wire, in the client and in the tests; with the least role that may call them.

What is not in this table cannot be called.
"""

from __future__ import annotations

from master.verbs import agents, doctor, envs, files, logs, nodes, server, tasks, tokens
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
    "file.roots": Verb(Nothing, files.roots, "viewer"),
    "file.list": Verb(files.List, files.list_folder, "viewer"),
    "file.stat": Verb(files.One, files.stat, "viewer"),
    "file.read": Verb(files.Read, files.read, "viewer"),
    "file.write": Verb(files.Write, files.write),
    "file.make": Verb(files.Make, files.make),
    "file.move": Verb(files.Transfer, files.move),
    "file.copy": Verb(files.Transfer, files.copy),
    "file.delete": Verb(files.Delete, files.delete),
    "file.upload_begin": Verb(files.UploadBegin, files.upload_begin),
    "file.upload_piece": Verb(files.UploadPiece, files.upload_piece),
    "file.upload_commit": Verb(files.UploadCommit, files.upload_commit),
    "file.upload_cancel": Verb(files.UploadCancel, files.upload_cancel),
    "env.list": Verb(envs.ListEnvs, envs.list_envs, "viewer"),
    "env.check": Verb(envs.OneEnv, envs.check),
    "env.python": Verb(envs.OneEnv, envs.python),
    "env.cuda": Verb(envs.Cuda, envs.cuda),
    "env.packages": Verb(envs.OneEnv, envs.packages),
    "log.read": Verb(logs.Read, logs.read, "viewer"),
    "node.list": Verb(Nothing, nodes.list_nodes, "viewer"),
    "node.show": Verb(nodes.OneNode, nodes.show, "viewer"),
    "node.add": Verb(nodes.Add, nodes.add, "admin"),
    "node.edit": Verb(nodes.Edit, nodes.edit, "admin"),
    "node.remove": Verb(nodes.OneNode, nodes.remove, "admin"),
    "node.drain": Verb(nodes.Drain, nodes.drain, "admin"),
    "node.resume": Verb(nodes.Resume, nodes.resume, "admin"),
    "node.doctor": Verb(doctor.Names, doctor.doctor, "admin"),
    "node.token": Verb(tokens.NodeToken, tokens.token, "admin"),
    "node.archive": Verb(Nothing, tokens.archive, "admin"),
    "node.trust": Verb(nodes.Trust, nodes.trust, "admin"),
    "node.lost": Verb(nodes.OneNode, nodes.lost, "admin"),
    "agent.stop": Verb(agents.SomeNodes, agents.stop, "admin"),
    "agent.start": Verb(agents.SomeNodes, agents.start, "admin"),
    "agent.restart": Verb(agents.SomeNodes, agents.restart, "admin"),
}
