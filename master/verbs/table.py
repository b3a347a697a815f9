"""All verbs, a line each, by the name they have on the wire, in the client and in the tests.

A line says, in this order: the parameters, the result, the function, the least role that may call it, the scope that a
caller needs who is confined to some, and whose task it may be used on (`group`: also by a mentor of its owner). What is
not in this table cannot be called.
"""

from __future__ import annotations

from master.core.task import TaskPage, TaskView
from master.files.jail import Entry, Listing, Piece
from master.files.tree import Tally
from master.files.upload import Begun
from master.nodes.environments import Framework, Packages, Python
from master.verbs import (
    agents,
    archived,
    audit,
    auth,
    doctor,
    envs,
    files,
    groups,
    logs,
    nodes,
    places,
    server,
    tasks,
    tokens,
    user_tokens,
    users,
)
from master.verbs.archived import (
    ArchivedTasks,
    ListArchived,
    list_archived,
    named,
    or_after,
    or_read,
    or_recalled,
    told_whole,
    told_why,
)
from master.verbs.base import Done, Nothing, Verb
from master.verbs.files import Received, UploadPiece
from master.verbs.node_trust import Trust, Trusted, trust
from master.verbs.submit import Batch, Preview, Submit, SubmitBatch, Submitted, submit, submit_batch
from master.verbs.subscribe import Subscribe, Subscribed, subscribe
from master.verbs.task_list import ListTasks, SparseTaskList, TaskList, list_tasks
from master.verbs.tasks import OneTask
from master.views.nodes import NodePage, NodeView

VERBS: dict[str, Verb] = {
    "subscribe": Verb(Subscribe, Subscribed, subscribe, "viewer", "read", "any", repeatable=True),
    "server.info": Verb(Nothing, server.Info, server.info, "viewer", "read", "none", repeatable=True),
    "server.seen": Verb(Nothing, Done, server.seen, "admin", "admin", "none", repeatable=True),
    "server.stop": Verb(Nothing, Done, server.stop, "admin", "admin", "none"),
    "task.submit": Verb(Submit, Submitted | Preview, or_after(submit, named), "user", "submit", "none"),
    "task.submit_batch": Verb(SubmitBatch, Batch, or_after(submit_batch, named), "user", "submit", "none"),
    "task.places": Verb(
        places.Places, places.Missing, places.places, "user", "submit", "none", repeatable=True, quiet=True
    ),
    "task.list": Verb(ListTasks, TaskList | SparseTaskList, list_tasks, "viewer", "read", "any", repeatable=True),
    "task.archived": Verb(ListArchived, ArchivedTasks, list_archived, "viewer", "read", "any", repeatable=True),
    "task.show": Verb(OneTask, TaskPage, or_read(tasks.show, told_whole), "viewer", "read", "any", repeatable=True),
    "task.why": Verb(OneTask, tasks.Why, or_read(tasks.why, told_why), "viewer", "read", "any", repeatable=True),
    "task.cancel": Verb(tasks.Cancel, tasks.Cancelled, archived.cancelled, "user", "submit", "group", repeatable=True),
    "task.edit": Verb(tasks.Edit, TaskView, archived.edited, "user", "submit", "group", repeatable=True),
    "task.hold": Verb(OneTask, TaskView, or_recalled(tasks.hold), "user", "submit", "group", repeatable=True),
    "task.release": Verb(OneTask, TaskView, or_recalled(tasks.release), "user", "submit", "group", repeatable=True),
    "task.move": Verb(tasks.Move, TaskView, or_recalled(tasks.move), "user", "submit", "group", repeatable=True),
    "task.start": Verb(OneTask, TaskView, or_recalled(tasks.start), "user", "submit", "group"),
    "task.retry": Verb(OneTask, TaskView, or_recalled(tasks.retry), "user", "submit", "own"),
    "task.remove": Verb(tasks.Remove, tasks.Removed, archived.removed, "user", "submit", "own"),
    "auth.login": Verb(auth.LogIn, auth.LoggedIn, auth.login, "anyone", "account", "none", "auth"),
    "auth.token": Verb(auth.Shown, auth.Who, auth.token, "anyone", "account", "none", repeatable=True, quiet=True),
    "auth.redeem": Verb(auth.Redeem, auth.LoggedIn, auth.redeem, "anyone", "account", "none", "auth"),
    "auth.logout": Verb(Nothing, Done, auth.logout, "anyone", "account", "none"),
    "auth.whoami": Verb(Nothing, auth.Who, auth.whoami, "anyone", "account", "none", repeatable=True, quiet=True),
    "user.list": Verb(
        Nothing, list[users.UserView], users.list_users, "admin", "admin", "none", repeatable=True, quiet=True
    ),
    "user.add": Verb(users.AddUser, users.UserView, users.add, "admin", "admin", "none"),
    "user.edit": Verb(users.EditUser, users.UserView, users.edit, "admin", "admin", "none", repeatable=True),
    "user.disable": Verb(users.DisableUser, users.Disabled, users.disable, "admin", "admin", "none", repeatable=True),
    "user.enable": Verb(users.OneUser, users.UserView, users.enable, "admin", "admin", "none", repeatable=True),
    "user.remove": Verb(users.OneUser, Done, users.remove, "admin", "admin", "none"),
    "user.password": Verb(users.SetPassword, Done, users.password, "viewer", "account", "none", "auth"),
    "user.link": Verb(users.OneUser, users.Link, users.link, "admin", "admin", "none"),
    "user.claim": Verb(users.Claim, users.Claimed, users.claim, "admin", "admin", "none", repeatable=True),
    "group.list": Verb(Nothing, list[groups.GroupView], groups.list_groups, "viewer", "read", "none", repeatable=True),
    "group.add": Verb(groups.OneGroup, groups.GroupView, groups.add, "admin", "admin", "none"),
    "group.edit": Verb(groups.EditGroup, groups.GroupView, groups.edit, "admin", "admin", "none", repeatable=True),
    "group.remove": Verb(groups.OneGroup, Done, groups.remove, "admin", "admin", "none"),
    "token.list": Verb(
        user_tokens.ListTokens,
        list[user_tokens.TokenView],
        user_tokens.list_tokens,
        "viewer",
        "account",
        "none",
        repeatable=True,
        quiet=True,
    ),
    "token.new": Verb(user_tokens.NewToken, user_tokens.TokenMade, user_tokens.new, "viewer", "account", "none"),
    "token.revoke": Verb(
        user_tokens.RevokeTokens, user_tokens.Revoked, user_tokens.revoke, "viewer", "account", "none"
    ),
    "log.read": Verb(logs.Read, logs.LogPiece, logs.read, "viewer", "read", "group", repeatable=True),
    "file.roots": Verb(Nothing, files.Roots, files.roots, "viewer", "files", "none", repeatable=True),
    "file.list": Verb(files.List, Listing, files.list_folder, "viewer", "files", "none", repeatable=True),
    "file.stat": Verb(files.One, Entry, files.stat, "viewer", "files", "none", repeatable=True),
    "file.read": Verb(files.Read, Piece, files.read, "viewer", "files", "none", repeatable=True),
    "file.write": Verb(files.Write, files.Written, files.write, "user", "files", "none"),
    "file.make": Verb(files.Make, Done, files.make, "user", "files", "none"),
    "file.move": Verb(files.Transfer, Done, files.move, "user", "files", "none"),
    "file.copy": Verb(files.Transfer, Tally, files.copy, "user", "files", "none"),
    "file.delete": Verb(files.Delete, files.Deleted, files.delete, "user", "files", "none"),
    "file.upload_begin": Verb(files.UploadBegin, Begun, files.upload_begin, "user", "files", "none"),
    "file.upload_piece": Verb(
        UploadPiece, Received, files.upload_piece, "user", "files", "none", repeatable=True, quiet=True
    ),
    "file.upload_commit": Verb(files.UploadCommit, Entry, files.upload_commit, "user", "files", "none"),
    "file.upload_cancel": Verb(files.UploadCancel, Done, files.upload_cancel, "user", "files", "none"),
    "env.list": Verb(envs.ListEnvs, envs.EnvList, envs.list_envs, "viewer", "read", "none", "env", repeatable=True),
    "env.check": Verb(envs.OneEnv, Python, envs.check, "user", "submit", "none", "env", repeatable=True, quiet=True),
    "env.python": Verb(envs.OneEnv, Python, envs.python, "user", "submit", "none", "env", repeatable=True, quiet=True),
    "env.cuda": Verb(envs.Cuda, Framework, envs.cuda, "user", "submit", "none", "env", repeatable=True, quiet=True),
    "env.packages": Verb(
        envs.OneEnv, Packages, envs.packages, "user", "submit", "none", "env", repeatable=True, quiet=True
    ),
    "node.list": Verb(Nothing, list[NodeView], nodes.list_nodes, "viewer", "read", "none", repeatable=True),
    "node.show": Verb(nodes.OneNode, NodePage, nodes.show, "viewer", "read", "none", repeatable=True),
    "node.add": Verb(nodes.Add, nodes.NodeAdded, nodes.add, "admin", "nodes", "none"),
    "node.edit": Verb(nodes.Edit, nodes.NodeEdited, nodes.edit, "admin", "nodes", "none", repeatable=True),
    "node.remove": Verb(nodes.OneNode, nodes.NodeRemoved, nodes.remove, "admin", "nodes", "none"),
    "node.drain": Verb(nodes.Drain, NodeView, nodes.drain, "admin", "nodes", "none", repeatable=True),
    "node.resume": Verb(nodes.Resume, NodeView, nodes.resume, "admin", "nodes", "none"),
    "node.doctor": Verb(
        doctor.Names, list[doctor.Examined], doctor.doctor, "admin", "nodes", "none", repeatable=True, quiet=True
    ),
    "node.token": Verb(tokens.NodeToken, tokens.TokenTold, tokens.token, "admin", "nodes", "none"),
    "node.archive": Verb(
        Nothing, tokens.Archive, tokens.archive, "admin", "nodes", "none", repeatable=True, quiet=True
    ),
    "node.trust": Verb(Trust, Trusted, trust, "admin", "nodes", "none", repeatable=True),
    "node.lost": Verb(nodes.OneNode, nodes.Lost, nodes.lost, "admin", "nodes", "none"),
    "agent.stop": Verb(agents.SomeNodes, agents.AgentsDone, agents.stop, "admin", "nodes", "none", repeatable=True),
    "agent.start": Verb(agents.SomeNodes, agents.AgentsDone, agents.start, "admin", "nodes", "none", repeatable=True),
    "agent.restart": Verb(agents.SomeNodes, agents.AgentsDone, agents.restart, "admin", "nodes", "none"),
    "audit.read": Verb(
        audit.ReadAudit, audit.AuditPage, audit.read, "admin", "admin", "none", repeatable=True, quiet=True
    ),
}
