"""Why a request about tasks, nodes or environments is refused, or any request."""

from __future__ import annotations

ERRORS: dict[str, str] = {
    # What may not happen to a task in its state (`master/core/law`).
    "cannot_edit": "task {id} is {state} and cannot be edited: cancel it first, or submit a new one",
    "cannot_hold": "task {id} is {state}; only a waiting one can be held",
    "cannot_release": "task {id} is {state}, not held",
    "cannot_move": "task {id} is {state}; only a waiting one can be moved",
    "cannot_start": "task {id} is {state}; only a waiting one can be started",
    "has_ended": "task {id} has already ended ({state})",
    "cannot_retry": "task {id} is {state}; only an ended one can be tried again",
    "cannot_remove": "task {id} is {state} and cannot be removed: cancel it first",
    "cannot_archive": "task {id} is {state}; only an ended one moves to the monthly files",
    # Anything else.
    "no_task": "there is no task {id}; `muster queue --all` lists all",
    "queue_full": "{waiting} tasks wait already and limits.waiting_tasks is {most}: wait, or raise it",
    "no_predecessor": "there is no task {id} to come after",
    "waits_in_circle": "task {id} cannot wait for task {other}: that one waits for it",
    "never_met": "task {id} has ended as {state}: `{id}:{on}` can never be met",
    "node_is_online": "node {node} is online: cancel its tasks instead, or drain it",
    "gpu_not_aside": "GPU {gpu} of node {node} is not set aside",
    "no_gpu": "node {node} has no GPU {gpu} (the registry counts {count})",
    "not_drained": "node {node} is not drained",
    "place_of_other_priority": (
        "place {position} belongs to tasks of another priority than {priority}: change it first with `muster edit "
        "{id} priority=N`"
    ),
    "not_durable_yet": (
        "{said}. What was to be changed takes effect when writing works again, unless the master ends before: ask "
        "again with the same request_id"
    ),
    "too_many_requests": (
        "more than {most} {kind}.* requests a minute of {who} (conf.json: limits.{kind}_requests_per_minute): try "
        "again in {seconds} s"
    ),
    "no_log_ins": (
        "there are no log-ins yet: only the user who runs the master may come in, and root, from its own machine (so "
        "from another one, `ssh` there)"
    ),
    "needs_role": "{verb} needs the role {role}, and {user} has the role {has}: ask an admin",
    "needs_scope": "{verb} needs the scope {scope}, and {user} is confined to {scopes:list or none}",
    "not_your_verb": "{verb} is not for {user}, whose verbs are {nouns:, }",
    "not_your_task": "task {id} is {owner}'s: {verb} is for its owner, and for admins",
    "audit_unreadable": "the audit log in {folder} cannot be read: {why}",
    "defect": "the master met a defect; its log has the details",
    "no_verb": "there is no verb {verb!r}; this master knows {known:, }",
    "env_of_another": (
        "{env} on {node}: {executable} runs in it, which is not its own Python; was it moved or copied? Then make it "
        "anew in its place"
    ),
    "master_did_not_answer": "the master's own machine did not answer within {seconds:.0f} s",
    "no_node_online": "no node is online, so no environment can be asked; `muster nodes` tells why",
    "which_log": "say whose log: `id`, or `server`",
    "no_host_key": "node {node} shows no host key: {said}",
    "other_host_key": (
        "node {node} shows {shown}, not {expected}: nothing was pinned; `ssh-keygen -lf "
        "/etc/ssh/ssh_host_ed25519_key.pub` on the machine itself tells which is right"
    ),
    "host_key_in_registry": (
        "node {node}: `host_key` in the registry names another key, and goes before what is pinned: `muster node "
        "edit {node} host_key={shown}`, or `host_key=` to drop it"
    ),
    "host_key_not_written": "{path}: the key cannot be written down: {said}",
    "no_changes": "changes: expected at least one key with its new value (null takes the key out)",
    "not_drained_but_closed": (
        "node {node} is not drained; `schedulable` is false in the registry: `muster node edit {node} schedulable=`"
    ),
    "env_no_name": "env: {env!r} is neither the name of an environment nor an absolute path",
    "cannot_be_edited": "{keys:list or nothing} cannot be edited; what can: {allowed:, }",
    "no_sharing": "share: found true, and GPUs are not shared yet: every task has its own alone. Leave `share` out",
    "bad_gpu_ids": "gpu_ids: [{gpus:, }] is empty or names a GPU twice",
    "gpus_said_twice": "gpus is {gpus} and gpu_ids names {named}: leave one of them out",
    "no_command": "command: it is empty; say what to run, e.g. `muster submit -- python3 train.py`",
    "command_with_nul": "command: it holds a NUL character, which no program can be given",
    "command_too_long": (
        "command: {word} bytes in a word and {all} in all; a program can be given {most_word} and {most_all}: put it "
        "into a script, or the data into a file"
    ),
    "bad_variable": "variables: {name!r} is no name of an environment variable, or its value holds a NUL",
    "own_variable": "variables: {name} is set by Muster and cannot be given",
    "variables_too_long": "variables: a program can be given {most_word} bytes in one, {most_all} in all",
    "field_with_nul": "{field}: it holds a NUL character",
    "empty_batch": "the batch holds no command",
    "batch_with_log": "the tasks of a batch cannot share one log file: leave `log` out",
    "other_port": "tasks are streamed on the train-state port and nodes on the monitor port",
    "which_tasks": "say which tasks: ids, `all` or `mine`",
    "states_without_all": "`states` goes with `all` or `mine`: of ids it is known which they are",
    "needs_no_token": (
        "node {node} has the driver `{driver}`: only an agent that dials in needs a token (`muster node edit {node} "
        "driver=report`)"
    ),
    "token_without_tls": "{path} says `tls: off`, and agents dial in over TLS only: no token would open",
    "no_token": "node {node} has no token",
    "token_is_there": (
        "node {node} has a token, which was shown when {by} made it; `muster node token {node} --rotate` makes another"
    ),
    "env_elsewhere": "env: {env!r} does not lie beneath {root}",
    "env_no_name_but": "env: {env!r} is neither the name of an environment nor an absolute path; `muster env list`",
    "env_answers_otherwise": "{env} on {node}: its Python answers something else than was asked: {said}",
    "env_not_activated": "{env} could not be activated on {node}: {said}; see `muster env list`",
    "env_said": "{env} on {node}: {said}",
    "node_hangs": "node {node}: {said}; its storage or its Python may hang: try another node",
    "answer_too_long": "node {node}: the answer has more than {most:,} bytes",
    "node_left": "node {node} is not in the registry any more; its tasks keep their GPUs until they end",
    "driver_without_key": "node {node} has the driver `{driver}`: it has no host key to trust",
    "not_connected": "node {node} is not connected; `muster nodes` says why",
    "node_did_not_answer": "node {node} did not answer within {seconds:.0f} s",
    "question_broken": "node {node}: {said}",
    "node_is_there": "there is a node {node!r} already: change it with `muster node edit`",
    "node_keeps_its_name": "a node keeps its name, tasks go by it: add another node and remove this one",
    "node_not_in_registry": "there is no node {node!r} in the registry (nodes: {nodes:or none})",
    "registry_not_written": "{path}: cannot be written: {said}",
    "registry_hangs": "{path}: it does not come back from being read: does its disk, or its NFS server, answer?",
    "registry_locked": "{path}: another program keeps it locked: try again, or see who with `fuser {path}`",
    "registry_changed": "{path} was changed by somebody else in this moment: look at it and try again",
    "registry_not_ours": (
        "{path}: it belongs to user {user}, group {group}, and would not any more: change it with an editor, or give "
        "it to the user who runs the master (`chown`)"
    ),
    "bad_frame": "{said}; the connection is closed",
    "no_request": "not a JSON-RPC request: {said}",
    "no_jsonrpc": "not a JSON-RPC request: jsonrpc is {found!r}, allowed is '2.0'",
    "history_unusable": "the history in {path} cannot be used: {said}",
    "key_is_pinned": "the registry pins the key of {node}: change its `host_key` there",
    "unknown_node": "there is no node {node!r} (nodes: {nodes:or none}); `muster nodes` lists them",
    "request_id_used": (
        "request_id: {request_id!r} was used before, for {tasks}, which asked for something else; nothing was queued: "
        "give this one another id, or none"
    ),
    "one_task": "task {id}",
    "tasks_from": "tasks {first}-{last}",
    # What is wrong with the values of a request.
    "unknown_key": "{where:label}unknown key `{key}`; allowed are {known:, }",
    "unknown_key_but": "{where:label}unknown key `{key}` (did you mean `{meant}`?); allowed are {known:, }",
    "missing_key": "{where:label}the key `{key}` is missing",
    "wrong_value": "{where:label}found {found}, expected {expected}",
}
