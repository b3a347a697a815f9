"""Why a request about tasks, nodes or environments is refused, or any request."""

from __future__ import annotations

ERRORS: dict[str, str] = {
    # Events that a task's state forbids (`master/core/tasks/transitions`).
    "task_changed": "task {id} was changed since you saw it: look at it again, then edit it as it is now",
    "cannot_edit": "task {id} is {state} and cannot be edited: cancel it first, or submit a new one",
    "cannot_hold": "task {id} is {state}; only a waiting one can be held (one that runs: `muster pause {id}`)",
    "cannot_release": "task {id} is {state}, not held",
    "cannot_move": "task {id} is {state}; only a waiting one can be moved",
    "cannot_start": "task {id} is {state}; only a waiting one can be started",
    "cannot_pause": "task {id} is {state}; only one that runs can be paused (one that waits: `muster hold {id}`)",
    "cannot_resume": "task {id} is {state}, not paused (a held one: `muster release {id}`)",
    "is_being_ended": "task {id} is being ended, and is not paused any more",
    "agent_cannot_pause": (
        "the agent on node {node} is of a version that cannot pause tasks: ask an admin to restart it (`muster agents "
        "restart {node}`; tasks run on)"
    ),
    "has_ended": "task {id} has already ended ({state})",
    "cancel_unproven": (
        "nothing was signalled of task {id}: the record of its attempt on {node} was lost, and processes there may be "
        "of it, which nothing proves: pid {pids:, }. Look at them on {node}, and end them (`kill PID`): the task is "
        "cancelled once they have ended"
    ),
    "cancel_unreachable_command": (
        "nothing was signalled of task {id}: its command on {node} has become another account's (pid {pids:, }), and "
        "the agent may not signal it. Look at it on {node}, and end it (`kill PID`): the task is cancelled once it has "
        "ended"
    ),
    "cannot_retry": "task {id} is {state}; only an ended one can be tried again",
    "cannot_remove": "task {id} is {state} and cannot be removed: cancel it first",
    "cannot_archive": "task {id} is {state}; only an ended one moves to the monthly files",
    # Anything else.
    "signal_without_limit": "signal: {name} is sent before the time limit, and there is none: say `--time-limit`, too",
    "signal_before_start": (
        "signal: {name} would be sent {early:number} s before a time limit of {limit:number} s: the task would not "
        "have begun"
    ),
    "bad_array": "array {array!r} is none: write 0-9, 0-9:2, 1,5,7 or 0-9%2 (at most two of them run at once)",
    "array_index_twice": "array {array!r} names an index twice",
    "array_too_large": "it would be {count} tasks, and at most {most} may wait (limits.waiting_tasks): ask for fewer",
    "array_too_long": (
        "each of the {count} tasks would be about {size} bytes, and all together at most {most}: put what is long "
        "into a file"
    ),
    "too_many_predecessors": (
        "each of the {count} tasks would wait for {after} others, and together they may for at most {most}: let them "
        "wait for one task that waits for these, or for an array"
    ),
    "array_or_sweep": "give one of array and sweep",
    "array_unchanged": "say what to change: cap or max_fails",
    "cap_said_twice": "array says {cap} at once, and cap {other}: say one of them",
    "bad_sweep": (
        "sweep {name!r}: a name has letters, digits and _, begins with no digit and is not `index`; its values are one "
        "or more, each once, without a NUL"
    ),
    "sweep_value_for_bash": (
        "a value of sweep {name} in a text for bash takes letters, digits and _ . , : / + - = @ %, and not {value!r}: "
        'write "$MUSTER_SWEEP_{name}" instead, or give the command as words'
    ),
    "no_array": "there is no array {id}; `muster queue` lists the tasks, {id}/ names an array by its first task's id",
    "no_task": "there is no task {id}; `muster queue --all` lists all",
    "queue_full": (
        "{waiting} tasks wait already and limits.waiting_tasks is {most}: wait until some have started, or ask an "
        "admin to raise it (`muster set`)"
    ),
    "queue_share": (
        "{owner} has {waiting} waiting tasks, and {count} more would be beyond {most}: one user may take a part "
        "(limits.user_share) of what others leave of limits.waiting_tasks ({total}). Wait until some have started, "
        "cancel some, or ask an admin to raise one of the two"
    ),
    "tasks_too_large": (
        "large tasks that have not ended hold {size:size}, and {more:size} more would be beyond limits.task_bytes "
        "({most:size}): put what is long into a file, wait, or ask an admin to raise it (`muster set`)"
    ),
    "size_share": (
        "large tasks of {owner} that have not ended hold {size:size}, and {more:size} more would be beyond "
        "{most:size}: one user may take a part (limits.user_share) of what others leave of limits.task_bytes "
        "({total:size}). Put what is long into a file, cancel some, or ask an admin to raise one of the two"
    ),
    "no_setting": "there is no setting {name}; `muster set` lists all",
    "bad_setting": "{name} is {allowed}",
    "handshake_too_short": (
        "limits.handshake_s has to be more than the {seconds} s of desktop_client.silent_s in conf.json: only then is "
        "a silent desktop client recognised"
    ),
    # Allowed values of a setting.
    "one_of_words": "one of {words:, }",
    "whole_number": "a whole number",
    "number_of": "a number ({unit})",
    "at_least": "{what} of {least:number} or more{none}",
    "between": "{what} from {least:number} to {most:number}{none}",
    "size_at_least": "{what} of {least:whole size} or more{none}",
    "size_between": "{what} from {least:whole size} to {most:whole size}{none}",
    "or_none": ", or none",
    "no_predecessor": "there is no task {id} to come after",
    "waits_in_circle": "task {id} cannot wait for task {other}: that one waits for it",
    "diff_with_what": "task {id} is beside no other task of an array: say which other (`muster diff {id} ID`)",
    "diff_of_others": "you may not see what was asked for in task {id}, so the differences are not shown",
    "strictly_refused": "{faults:; } (without --strict this is a note, and the task is queued)",
    "never_met": "task {id} has ended as {state}: `{id}:{on}` can never be met",
    "account_answers": (
        "the agent of the account {account} on node {node} answers: cancel its tasks instead, or disable the user"
    ),
    "unknown_account": (
        "nothing on node {node} runs over an account {account!r} (accounts: {accounts:or none}); it is the account's "
        "name on the node, see `muster node show {node:quoted}`"
    ),
    "node_is_online": "node {node} is online: cancel its tasks instead, or drain it",
    "no_unknown_attempt": (
        "node {node} has no attempt {launch} of unknown origin: `muster node attempts {node:quoted}` lists those that "
        "it has"
    ),
    "unknown_is_several": (
        "the agents of several accounts on node {node} say that they have attempt {launch} (as {accounts: and }): say "
        "which is meant with --account NAME"
    ),
    "unknown_is_ending": "attempt {launch} is to end, for {by} said so",
    "unknown_not_begun": "attempt {launch} on {node} has not begun yet: look again in a moment, or end it",
    "unknown_has_owner": "attempt {launch} is of task {id}, which is in the queue and is of {owner}: leave --owner out",
    "unknown_is_known": "attempt {launch} is one of a task already",
    "unknown_gpus": (
        "nobody can say which GPUs attempt {launch} has: look on {node} (`nvidia-smi`), and name them with `--gpu`"
    ),
    "unknown_gpu_held": "GPU {gpu} of node {node} is held by task{tasks:|s} {tasks:few}: end one of the two",
    "unknown_away": "the agent of node {node} has not been heard since the master started: wait until it is there",
    "gpu_not_aside": "GPU {gpu} of node {node} is not set aside",
    "no_gpu": "node {node} has no GPU {gpu} (the registry counts {count})",
    "not_drained": "node {node} is not drained",
    "place_of_other_priority": (
        "place {position} belongs to tasks of another priority than {priority}: change it first with `muster edit "
        "{id} priority=N`"
    ),
    "disk_refuses": "{said}",
    "not_durable_yet": (
        "{said}. The change takes effect when writing works again, unless the master ends before: ask "
        "again with the same request_id"
    ),
    "too_many_requests": (
        "more than {most} {kind}.* requests a minute of {who} (conf.json: limits.{kind}_requests_per_minute): try "
        "again in {seconds} s"
    ),
    "no_log_ins": (
        "there are no log-ins yet: only the user who runs the master has access, and root, from the master's own "
        "machine (from another one, `ssh` there)"
    ),
    "needs_role": "{verb} needs the role {role}, and {user} has the role {has}: ask an admin",
    "admin_logs_in": "{verb} needs a log-in: tasks of {user} run as this account on the master's machine, so the "
    "account alone may only read and submit. `muster login` asks for the password; the account that runs the master "
    "makes a link for a first one (`muster users link {user:quoted}`)",
    "needs_scope": "{verb} needs the scope {scope}, and {user} is confined to {scopes:list or none}",
    "not_your_verb": "{verb} is not for {user}, whose verbs are {nouns:, }",
    "not_in_your_care": (
        "task {id} is {owner}'s: {verb} is for its owner, for mentors of the owner's group, and for admins"
    ),
    "not_your_task": "task {id} is {owner}'s: {verb} is for its owner, and for admins",
    "audit_unreadable": "the audit log in {folder} cannot be read: {why}",
    "defect": "the master met a defect; its log has the details",
    "other_lab": "this is the master of another lab ({lab}): nothing that is asked over this connection is done",
    "unnamed_lab": "this is the master of another lab: nothing that is asked over this connection is done",
    "no_verb": "there is no verb {verb!r}; this master knows {known:, }",
    "env_as_admin": "on node {node} this would run what lies in the environment as root, or as the account that runs "
    "the master, and others may have written it: name another node, or, where the agent is root, ask as a user with an "
    "account there. A task of yours may use it all the same",
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
    "retries_not_counted": "retry_on says after which ends, and max_retries not how often: give that, too",
    "no_limit_to_requeue_at": "on_timeout: nothing limits its time, so it never goes behind others: give time_limit_s",
    "limit_too_long": "time_limit_s: {asked:number} seconds, and {most:number} are allowed (scheduler.time_limit_max)",
    "bad_gpu_ids": "gpu_ids: [{gpus:, }] is empty or names a GPU twice",
    "nodes_and_node": "nodes: {nodes} nodes are asked for, and node names {node} alone: leave one of them out",
    "node_said_twice": "node_list: node names {node} already; leave one of them out",
    "too_few_named": "nodes: {nodes} are asked for at once, and node_list names {named}: name more, or ask for fewer",
    "named_twice": "node {node} is named twice; name each once",
    "named_and_excluded": "exclude: {node} is named as one to run on; take it out of one of them",
    "beside_gpus_on": "{field}: gpus_on says which nodes and which GPUs; leave {field} out",
    "bad_gpus_on": "gpus_on: of {node}, [{gpus:, }] names a GPU twice",
    "uneven_gpus_on": (
        "gpus_on: {count} GPU{count:|s} of {node} and {others} of {other}: a task has as many on each of its nodes"
    ),
    "gpus_and_gpus_on": "gpus is {gpus} and gpus_on names {named} on each node: leave gpus out",
    "nodes_and_gpus_on": "nodes is {nodes} and gpus_on names {named}: leave nodes out",
    "no_rank": "task {id} has no part {rank} (it has {count}: 0 to {last})",
    "needs_gpus": "{field} says something of GPUs, and the task asks for none: say how many (gpus)",
    "bad_gpus_max": "gpus_max: {most} is less than {least}, or gpu_ids says which: leave it out, or raise it",
    "elastic_without_range": "elastic: say between how many GPUs (gpus and gpus_max; `--gpus 1-4`)",
    "elastic_without_checkpoint": (
        "elastic: it is ended and started again with other GPUs, so say what it goes on from: checkpoint, a path with "
        "* for what changes in it (`--checkpoint 'out/*.pt'`)"
    ),
    "elastic_beside": "elastic: a task with {field} keeps the GPUs that it began with; leave one of them out",
    "checkpoint_for_nothing": "checkpoint: only an elastic task is started again from it: add elastic, or leave it out",
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
    "too_many_items": "{field}: {count:,} entries; at most {most:,} are allowed",
    "text_too_long": "{field}: {count:,} characters; at most {most:,} are allowed",
    "field_with_nul": "{field}: it holds a NUL character",
    "empty_batch": "the batch holds no command",
    "log_names_folder": "log: {path} names a folder, and a log is a file: name a file in it",
    "batch_with_log": "the tasks of a batch cannot share one log file: leave `log` out",
    "other_port": "tasks are streamed on the train-state port and nodes on the monitor port",
    "which_tasks": "say which tasks: ids, `all` or `mine`",
    "name_without_mine": "`name` goes with `mine`: a task of somebody else is named by its id",
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
    "env_elsewhere": "env: {env!r} is no path of an environment: name its folder straight, beneath {root} or elsewhere",
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
    "node_asked_much": (
        "node {node} is asked {most} questions of yours already, or many of others: try again when one is answered"
    ),
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
    "mark_elsewhere": (
        "{key}: the mark means no secret that stood here: leave it where it was, or write what is to stand there"
    ),
    "conf_key_fixed": (
        "{key} cannot be changed from afar, for it says who is who, which files are the master's, or what it runs: "
        "change it in {path} on the master's machine"
    ),
    "text_or_kept": "say what the file is to be: its whole `text`, or the name of an earlier version that was `kept`",
    "no_kept_file": "{name} is no version of {file} that was kept; `muster conf kept` lists them",
    "password_again": "show your password once more (`password`): this changes a file that the master obeys",
    "bad_frame": "{said}; the connection is closed",
    "no_request": "not a JSON-RPC request: {said}",
    "no_object": "not a JSON-RPC request: it does not begin with a brace; the connection is closed",
    "desktop_clients_only": "this port speaks the desktop client's dialect only (conf.json: desktop_client.ports)",
    "no_plain_text": "plain text is not accepted from other machines: this master speaks TLS (conf.json: tls)",
    "no_more_of_this_address": (
        "{address} has as many connections as the master's settings and its number of open files allow one address "
        "(limits.connections_per_address): close some, or ask an admin to raise it"
    ),
    "no_more_of_this_user": (
        "{user} has {most} connections, as many as the master's settings and its number of open files allow one user "
        "(limits.connections_per_user): close some, or ask an admin to raise it"
    ),
    "no_more_connections": (
        "the master has as many connections as its settings and its number of open files allow (limits.connections: "
        "{most} are in force): close some, or ask an admin to raise it"
    ),
    "no_jsonrpc": "not a JSON-RPC request: jsonrpc is {found!r}, allowed is '2.0'",
    "history_unusable": "the history in {path} cannot be used: {said}",
    "key_is_pinned": "the registry pins the key of {node}: change its `host_key` there",
    "unknown_node": "there is no node {node!r} (nodes: {nodes:or none}); `muster nodes` lists them",
    "request_id_used": (
        "request_id: {request_id!r} was used before, for {tasks}, which asked for something else; nothing was queued: "
        "give this one another id, or none"
    ),
    "no_allocation": "there is no allocation {name!r}: `muster alloc list` shows which there are",
    "allocation_has_ended": "allocation {name} (task {id}) has ended ({state}): `muster alloc` gets a new one",
    "allocation_name_taken": "allocation {name} is there already (task {id}): give this one another name",
    "allocation_name_in_use": "there is an allocation {name} of somebody else's: give this one another name",
    "allocation_of_another": "allocation {name} (task {id}) is {owner}'s: only tasks of {owner}'s run in it",
    "allocation_is_ending": "allocation {name} (task {id}) is about to end, and takes no more tasks",
    "allocation_keeps_owner": "task {id} belongs to an allocation, and has the owner of that until it has ended",
    "allocation_in_use": (
        "allocation {name} (task {id}) has task{count:|s} {tasks:few}: wait for {count:it|them} "
        "(`muster alloc release {name} --wait`), or end all of it (`muster cancel {id}`)"
    ),
    "allocation_not_granted": (
        "allocation {id} waits itself, and task{tasks:|s} {tasks:few} for it: `muster cancel {id}` ends all of it"
    ),
    "allocation_not_held": (
        "allocation {name} (task {id}) has no GPUs yet: `muster edit {id} gpus=N` says how many it is to have"
    ),
    "allocation_others_wait": (
        "node {node}: others wait who could use what is free there: ask for another allocation, which waits its turn"
    ),
    "allocation_no_more": (
        "node {node}: {count} of {asked} GPUs more could be had there now: ask for fewer, or again later"
    ),
    "allocation_beyond_quota": "a quota lets {owner} come to {most} GPUs in this allocation: ask for fewer",
    "allocation_would_be_empty": (
        "allocation {name} (task {id}) would have no GPU left: `muster alloc release {name}` gives all of it back"
    ),
    "allocation_needed_by": (
        "allocation {name}: with {left} GPU{left:|s} left, task{tasks:|s} {tasks:few} could never start in it: cancel "
        "or edit {tasks:it|them} first"
    ),
    "allocation_gpus_used": (
        "allocation {name}: {unused} of its GPUs on {node} {unused:is|are} not in use: give back no more, or wait for "
        "task{tasks:|s} {tasks:few}"
    ),
    "allocation_runs_nothing": "task {id} is an allocation: nothing of it runs; its tasks do",
    "allocation_edit": "task {id} is an allocation, which has no {keys:, }; what it has: {allowed:, }",
    "bad_allocation_name": (
        "{name!r} is no name for an allocation: letters, digits, and . _ - between them; not digits only"
    ),
    "beyond_allocation": (
        "it asks for more than allocation {name} has: {gpus} GPU{gpus:|s} on {nodes} node{nodes:|s} each"
    ),
    "one_task": "task {id}",
    "tasks_from": "tasks {first}-{last}",
    # Faults in the values of a request.
    "unknown_key": "{where:label}unknown key `{key}`; allowed are {known:, }",
    "unknown_key_but": "{where:label}unknown key `{key}` (did you mean `{meant}`?); allowed are {known:, }",
    "missing_key": "{where:label}the key `{key}` is missing",
    "wrong_value": "{where:label}found {found}, expected {expected}",
}
