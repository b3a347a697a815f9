"""Why a task waits, what there is to say of its end, and what looks wrong with it."""

from __future__ import annotations

WAITS: dict[str, str] = {
    # The whole reason.
    "held": "held: release it with `muster release {id}`",
    "runs_already": (
        "runs on {node} already, as attempt {launch} of unknown origin, which an admin adopts or ends (`muster node "
        "attempts {node:quoted}`)"
    ),
    "held_because": "held, for it {why}: release it with `muster release {id}`",
    "held_when_filed": "held until `muster release`",
    "waits_for": "waits for {tasks:, }",
    "begins_at": "begins no sooner than {at:moment}",
    "tried_again_at": "is tried again at {at:moment} (attempt {no}: {why}; retry {retry} of {most})",
    "goes_on_at": "goes on no sooner than {at:moment} (attempt {no}: {why})",
    "never": "can never start: {why}",
    "waits_for_allocation": "waits for allocation {id} to be granted",
    "no_node_ready": "no node is ready{obstacles:colon}",
    "no_node_open": "no node that is ready may take it{obstacles:colon}",
    "next": "next: the planner is about to start it",
    "needs": "needs {request}{obstacles:colon}",
    "over_quota": "waits for a quota{obstacles:colon}",
    # Predecessors that it waits for.
    "to_succeed": "task {id} to succeed",
    "to_fail": "task {id} to fail",
    "to_end": "task {id} to end",
    "array_to_succeed": "all of array {id} to succeed",
    "array_to_fail": "all of array {id} to fail",
    "array_to_end": "all of array {id} to end",
    "predecessor_is": "task {id} is {state}",
    "array_has_left": "{left} of the tasks of array {id} have not ended: {tasks}",
    "ahead": "{count} waiting {count:task stands|tasks stand} before it in the queue",
    # Quotas that it has reached.
    "quota_reached": "{limit} of {kind} {name} is {most}, and {used} GPU{used: is|s are} in use ({by})",
    "allocated_enough": "max_manual_gpus of {kind} {name} is {most}, and {used} GPU{used: is|s are} allocated ({by})",
    "runs_enough": "max_running of {kind} {name} is {most}, and {used} task{used: runs|s run} ({by})",
    "cluster_runs_enough": "scheduler.max_running is {most}, and {used} task{used: runs|s run} ({by})",
    "array_runs_enough": "{used} of the tasks of array {id} run{used:s|}, and {most} may (`muster edit {id}/ cap=N`)",
    "array_failed": "{count} of the tasks of array {id} failed ({tasks}): `muster release {id}/` lets the rest go on",
    "array_failed_so": (
        "{count} of the tasks of array {id} failed ({tasks}), {times} of them so: {said}; `muster release {id}/` lets "
        "the rest go on"
    ),
    "array_failed_with": (
        "{count} of {owner}'s tasks of array {id} failed ({tasks}), {times} of them so: {said}; {logs} of their logs "
        "end{logs:s|} so: {line}; `muster release {id}/` lets the rest go on"
    ),
    "idle_holds_next": (
        "idle task{tasks:|s} {tasks} of {owner} hold{tasks:s|} GPUs, and their next tasks with GPUs wait until "
        "{tasks:it works|they work} or {tasks:ends|end} (scheduler.idle_action)"
    ),
    "used_by_tasks": "task{tasks:|s} {tasks}",
    "used_by": "{owners:, }{more:and more}",
    "used_by_one": "{name} {count}",
    "beyond_quota": (
        "it asks for {gpus} GPU{gpus:|s}, and {limit} of {kind} {name} is {most}: ask for fewer, or an admin raises it "
        "(`muster {kind}s edit {name} {limit}=N`)"
    ),
    "nothing_may_run": (
        "max_running of {kind} {name} is 0, until an admin raises it (`muster {kind}s edit {name} max_running=N`)"
    ),
    # The request.
    "asked": "{what: and }",
    "asked_on": "{what} on node {node}",
    "asked_on_one_of": "{what} on one of {nodes}",
    "asked_on_each": "{what} on each of {nodes} nodes",
    "asked_on_each_of": "{what} on each of {nodes}",
    "asked_on_some_of": "{what} on each of {count} of {nodes}",
    "nothing_asked": "nothing",
    "amount": "{count} {unit}{count:|s}",
    "licence": "licence {name}",
    "licences": "{count} {name} licence{count:|s}",
    "pieces": "{unit} {numbers:, }",
    "amount_range": "{least} to {most} {unit}s",
    "one_slot": "a slot",
    "memory": "{mib} MiB of memory",
    "tmp_disk": "{mib} MiB of temporary disk",
    "of_model": "{what} of model {models: or }",
    "with_memory": "{what} with {mib} MiB",
    "share_of": "{mib} MiB of {what}",
    "with_free_util": "{what}, {percent} % unused",
    # Why that can never be.
    "asks_beyond": "it asks for {request}, but {beyond:, }{more:and more}",
    "no_such_node": "there is no node {node!r} (nodes: {nodes:or none})",
    "no_such_node_but": "there is no node {node!r} (did you mean {meant!r}? nodes: {nodes:or none})",
    "too_few_nodes": "it asks for {request}, but only {able} node{able:|s} could ever take {able:it|part in it}",
    "no_nodes": "the registry has no nodes: an admin adds one with `muster node add`",
    "another_node": "another node is asked for",
    "is_excluded": "{nodes:subject} {nodes:are} excluded by the task",
    "has_of_model": "{nodes:subject} {nodes:has} {count} of model {models: or }",
    "has_only_models": "{nodes:subject} {nodes:has} only {there:, }",
    "gpus_too_small": "the GPUs of {nodes:subject} have no more than {most} MiB to give",
    "has_of_memory": "{nodes:subject} {nodes:has} {count} GPU{count:|s} with {mib} MiB",
    "is_leaving": "{nodes:subject} {nodes:are} leaving: it is not in the registry any more",
    "has": "{nodes:subject} {nodes:has} {amount}",
    "has_no_slots": "{nodes:subject} {nodes:has} no slots for tasks without GPUs",
    "has_no_piece": "{nodes:subject} {nodes:has} no {unit} {number} (only 0 to {last})",
    "has_no_pieces": "{nodes:subject} {nodes:has} no {unit} {number} (it has none)",
    # Obstacles now.
    "obstacle": "{nodes}: {what}",
    "obstacle_because": "{nodes}: {what} ({because:; })",
    "cluster_obstacle": "the cluster: {what}",
    "cluster_obstacle_because": "the cluster: {what} ({because:; })",
    "more_obstacles": "and on {count} more nodes for other reasons, see `muster nodes`",
    "takes_no_tasks": "takes no tasks ({why:; })",
    "link": "{state}",
    "link_because": "{state} ({said})",
    "could_not_start_it": "could not start it, and is tried again only where no other node could",
    "room": "has room for it",
    "kept_for_it": "{node}{gpus:gpus} is reserved for it, after task{tasks:|s} {tasks:few}; nobody knows when",
    "kept_for_it_until": "{node}{gpus:gpus} is reserved for it, by {until:by}, after task{tasks:|s} {tasks:few}",
    "kept_for_it_after": "{node}{gpus:gpus} is reserved for it, after task{tasks:|s} {tasks:few}",
    "kept_for_it_free": "{node}{gpus:gpus} is free, and reserved for it",
    "kept_for_another": "{node}{gpus:gpus} is reserved for task {task}, which waits for task{tasks:|s} {tasks:few}",
    "kept_for_another_until": "{node}{gpus:gpus} is reserved for task {task}; this may last beyond {until:minute}",
    "kept_for_another_still": "{node}{gpus:gpus} is reserved for task {task}",
    "kept_for_another_free": "{node}{gpus:gpus} is free, and reserved for task {task}",
    "free": "{free} of {has} {unit}s free",
    "licences_free": "{free} of {has} {name} licences free",
    "memory_free": "{free} of {has} MiB of memory free",
    "tmp_disk_free": "{free} of {has} MiB of temporary disk free",
    "cpus_unknown": "nobody knows how many CPUs it has: an admin can say so in the registry (cpus)",
    "memory_unknown": "nobody knows how much memory it has: name another node, or ask for no memory (`--mem`)",
    "slots_unknown": "nobody knows how many CPUs it has: an admin can say so in the registry (cpus, or slots)",
    "tmp_disk_unknown": "nobody knows the size of its temporary disk: an admin can say so in the registry (tmp_disk)",
    "suited": "{fitting} of {has} {unit}s fit",
    "gpu_held_whole": "held as a whole",
    "gpu_of_no_lease": "not of the allocation",
    "allocation_free": "{free} of {has} GPUs of allocation {id} free",
    "card_other_model": "it is of another model",
    "card_too_small": "it has {most} MiB to give",
    "card_not_free": "held",
    "card_memory_unknown": "nobody knows how much memory it has: an admin can say so in the registry (gpu_memory)",
    "card_busy": "{free} % of its time is unused",
    "card_tasks": "{tasks} tasks share it, and {most} may (scheduler.max_tasks_per_gpu)",
    "card_left": "{left} MiB left",
    "card_outgrown": "a task there uses more than it asked for",
    "slots_taken": "{taken} of {has} slots taken",
    "pieces_held": "{unit} {numbers:, } held",
    "pieces_closed": "{pieces:, }",
    "closed": "{unit}{numbers:|s} {numbers}: {why}",
    "holder": "task {id} of {owner}",
    "holder_named": "task {id} of {owner} ({name})",
    "held_by_tasks": "what it lacks is held by {holders:, }{more:and more}",
    "held_by": "task{tasks:|s} {tasks:few}",
    "have_some": "task{tasks:|s} {tasks:few} {tasks:has|have} some",
    "others_have_some": "others' tasks have some",
    "expected_to_end": "task {id} is expected to end by {at:by}",
    "ends_unknown": "nobody knows when task{tasks:|s} {tasks:few} end{tasks:s|}",
    "none_held": "none held",
    "would_all": "{conditions: and }",
    "would_end": "task{tasks:|s} {tasks:few} end{tasks:s|}{nodes:on}",
    "would_end_by": "task{tasks:|s} {tasks:few} end{tasks:s|}{nodes:on} (expected by {at:by})",
    "would_be_back": "{nodes:subject} {nodes:comes|come} back",
    "would_take_tasks": "{nodes:subject} {nodes:takes|take} tasks again",
    "would_one_be_back": "one of {nodes:subject} comes back",
    "would_one_take_tasks": "one of {nodes:subject} takes tasks again",
    "would_be_open": "GPUs that are closed on {nodes:subject} are free again",
    "would_not_be_kept": "nothing is reserved for task {task} any more",
    "would_pass": "its time limit ends before {at:minute}, or nothing is reserved for task {task} any more",
    "would_be_allowed": "its quotas allow it",
    "would_not_be_idle": "the idle task works or ends",
}

ELASTIC: dict[str, str] = {
    "to_grow": "it is being ended, to go on with {gpus} GPUs in place of {was}, for nobody waits for them",
    "to_shrink": (
        "it is being ended, to go on with {gpus} GPU{gpus:|s} in place of {was}, so that task {waiter} can start"
    ),
    "was_resized": "ended to go on with {gpus} GPU{gpus:|s} in place of {was}",
    "gives_up": "task {id}, which is elastic, gives up {count} GPU{count:|s}: it is being ended, to go on with fewer",
    "no_new_checkpoint": (
        "it could have another number of GPUs and is not resized: nothing that matches {pattern} is newer than its "
        "attempt, so it could not go on from there"
    ),
}

PAUSES: dict[str, str] = {
    "being_cancelled": "cancelled by {by}: it keeps what it has until all its processes are dead",
    "being_ended": "it is being ended: it keeps what it has until all its processes are dead",
    "to_be_paused": "{by} wants it paused: {nodes:, } {nodes:has|have} not said yet that it stands still",
    "paused": "paused by {by}; it keeps its GPUs, and its time limit goes on: `muster resume {id}`",
    "stands_still": "stopped on {nodes:, }, and nobody asked for that here: `muster resume {id}` lets it go on",
    "continued_by_hand": (
        "it was paused, and somebody continued it on {node} by hand: `muster pause {id}` stops it again"
    ),
}

ENDS: dict[str, str] = {
    "of_part": "part {rank} (on {node}): {why}",
    "exit_code": "exit code {code}{code:signal}",
    "not_executable": "exit code {code}: the command may not be executed",
    "command_not_found": "exit code {code}: the command was not found",
    # Of what an earlier version wrote down: it took a program's own 137 for a signal.
    "killed_from_outside": "exit code {code}{code:signal}",
    "oom_gpu": (
        "exit code {code}: out of memory on its GPU: a smaller batch or model needs less; `--gpu-model`, `--gpu-mem` "
        "ask for a GPU with more"
    ),
    "oom_gpu_own": (
        "exit code {code}: out of memory on its GPU: it had {own} of {total} MiB itself, so it needs a larger GPU "
        "(`--gpu-model`), several, or a smaller batch"
    ),
    "oom_gpu_others": (
        "exit code {code}: out of memory on its GPU, of which others had {others} of {total} MiB: `muster retry` tries "
        "it anew, where there may be more; `--gpu-mem` sets aside what it needs"
    ),
    "oom_host": (
        "exit code {code}: out of memory on the machine (not on a GPU): fewer workers need less; `--mem` asks for a "
        "node with more"
    ),
    "shm_full": (
        "exit code {code}: shared memory (/dev/shm) was full: fewer DataLoader workers need less; an admin can enlarge "
        "it (`mount -o remount,size=… /dev/shm`)"
    ),
    "disk_was_full": (
        "exit code {code}: a disk, or somebody's quota on it, was full: its log says where; see `df -h` and `quota`"
    ),
    "env_failed": (
        "exit code {code}: the environment {env} does not exist there, or cannot be activated (unless the command "
        "itself ended so): its log says why"
    ),
    "setup_failed": (
        "exit code {code}: its setup failed, so its command did not run (unless the command itself ended so): its log "
        "says why. A setup must end with status 0 (`|| true` where a failure does not matter)"
    ),
    "time_limit": "its time limit ended it",
    "time_limit_unheeded": (
        "its time limit ended it; the signal before it was sent to nobody, for none of its processes heeds it"
    ),
    "log_too_large": "log_too_large: {said} (scheduler.log_bytes): move it away, or print less",
    "ended_as_stray": (
        "stray_task: it computed on {node}{gpus:gpus} which it was not given, and is ended for that "
        "(scheduler.stray_tasks): ask for as many GPUs as it uses (`--gpus`), and leave CUDA_VISIBLE_DEVICES as Muster "
        "sets it"
    ),
    "ended_as_idle": (
        "idle_task: its GPU{gpus:|s} ({where:; }) did nothing and its log was silent since {since:minute}, and it is "
        "ended for that (scheduler.idle_action)"
    ),
    "ended_for_share": (
        "share_outgrown: it used {used} MiB of GPU {gpu} of {node}, had asked for {share}, and is ended for that "
        "(scheduler.end_outgrown_after_s): ask for as much as it needs (`--gpu-mem {used}`)"
    ),
    "not_started": "could not be started: {said}",
    "not_started_anywhere": "could not be started on {count} nodes: {tries:; }",
    "node_said": "{node}: {said}",
    "allocation_time_over": "its time is over: it was held for as long as was asked for",
    "allocation_node_lost": "a node of it was given up",
    "its_allocation_ended": "allocation {id} is to end, and with it what is within",
    "rebooted": "node_rebooted: the machine restarted during the attempt",
    "claim_gone": "node_rebooted: {node} restarted, or its state folder was replaced, during the attempt",
    "no_record": "the agent on {node} has no record of it any more",
    "exit_unknown": "exit unknown: what stood over the attempt was killed",
    "agent_said": "{said}",
    "given_up": "node {node} was given up by {by}",
    "account_given_up": "the account {account} of node {node} was given up by {by}",
    "predecessor_removed": "its predecessor {id} was removed before it ended",
    "predecessor_did_not_succeed": "its predecessor {id} had to succeed and ended as {state}",
    "predecessor_did_not_fail": "its predecessor {id} had to fail and ended as {state}",
    # In the old system, whose queues were taken over.
    "old_starting": "it was being started under the old system; how it ended is not known",
    "old_running": "it ran under the old system; how it ended is not known",
    "old_node_offline": "its node went offline under the old system",
    "old_no_end": "it stood in the old system's history without an end",
}

WARNINGS: dict[str, str] = {
    "idle": "idle since {since:minute}: its GPU{gpus:|s} ({where:; }) {gpus:does|do} nothing and its log is silent",
    "gpus_on_node": "{numbers:, } on node {node}",
    "unproven": (
        "the record of its attempt on {node} was lost, and processes there may be of it, which nothing proves: pid "
        "{pids:, }. None of them is signalled, and its GPUs stay held. Look at them on {node}, and end them "
        "(`kill PID`)"
    ),
    "unreachable_command": (
        "its command on {node} has become another account's (pid {pids:, }), as with `sudo`, and the agent may not "
        "signal it: neither `muster cancel` nor a time limit ends it, and its GPUs stay held. Look at it on {node}, "
        "and end it (`kill PID`)"
    ),
    "large_log": "its log has {size:size}; at {limit:size} the task is ended (scheduler.log_bytes)",
    "stray_task": (
        "it computes on {node}{gpus:gpus} which it was not given, so nobody else gets that: ask for as many GPUs as it "
        "uses (`--gpus`), and leave CUDA_VISIBLE_DEVICES as Muster sets it"
    ),
    "share_outgrown": (
        "it uses {used} MiB of GPU {gpu} of {node} and was given {share}, so that GPU gets no other task: ask for as "
        "much next time (`--gpu-mem`)"
    ),
    "share_outgrown_so_far": (
        "it uses {used} MiB of GPU {gpu} of {node} and asked for {share}: if that stays so for {after:number} s, it is "
        "ended (scheduler.end_outgrown_after_s); ask for as much next time (`--gpu-mem`)"
    ),
    "warnings": "{warnings:; }",
    # Of what a submit names, and would fail by.
    "folder_absent": "the folder {path} does not exist (yet): the task fails unless it is there when it starts",
    "no_folder": "{path} is no folder, and no task can start in it",
    "file_absent": "the file {path} does not exist (yet): the task fails unless it is there when it starts",
    "file_is_folder": "{path} is a folder, and cannot be run: name the file in it",
    "log_is_folder": "{path} is a folder, and a log is a file: the task fails unless --log names a file in it",
    "log_as_it_stands": "{said} is part of the log's name as it stands: {meant} is the id of the task",
    "file_not_executable": "{path} may not be executed: `chmod +x {path:quoted}`, or name the program that reads it",
    "interpreter_absent": "{path} begins with #!{interpreter}, and there is no such program",
    "interpreter_with_line_end": (
        "the first line of {path} ends as on Windows (CR LF), so that its interpreter is not found: `sed -i 's/\\r$//' "
        "{path:quoted}`"
    ),
    "program_unknown": "node {node} finds no program {name}: give its path, or the environment that has it (--env)",
    "command_is_one_word": (
        "the command is one word with blanks in it ({word:quoted}), which is taken for the name of a program: leave "
        "the quotes away, or write `-- bash -c '…'` for what a shell is to read"
    ),
    "program_is_beside": (
        "no program is looked for in the folder: for the file there write ./{name}, or --script {name:quoted}"
    ),
    "script_is_beside": ("no program is looked for in the folder: for the file there write `{reader} {name:quoted}`"),
    "text_with_line_ends": "its lines end as on Windows (CR LF), and bash takes the CR for a part of its last words",
    "env_absent": "there is no environment {env} (yet): `muster env list` shows which there are",
    "folder_nowhere": (
        "the folder {path} is on none of the nodes that could run the task ({count}): the task fails unless it is "
        "there when it starts"
    ),
    "env_nowhere": (
        "the environment {env} is on none of the nodes that could run the task ({count}): `muster env list` shows "
        "which there are"
    ),
    "predecessor_is_doomed": "it waits for task {id} to succeed, which never will: task {other} is being cancelled",
    "gpu_memory_unknown": (
        "no node that could take it is known to have a GPU with {mib} MiB: it waits until one says so, or the registry "
        "does (gpu_memory)"
    ),
    "places_unseen": "{where} did not say within {seconds} s whether what the task names is there",
}
