"""Why a task waits, what there is to say of its end, and what looks wrong with it."""

from __future__ import annotations

WAITS: dict[str, str] = {
    # The whole reason.
    "held": "held: release it with `muster release {id}`",
    "held_because": "held, for it {why}: release it with `muster release {id}`",
    "held_when_filed": "held until `muster release`",
    "waits_for": "waits for {tasks:, }",
    "never": "can never start: {why}",
    "no_node_ready": "no node is ready{obstacles:colon}",
    "next": "next: the planner is about to start it",
    "needs": "needs {request}{obstacles:colon}",
    # What it waits for.
    "to_succeed": "task {id} to succeed",
    "to_fail": "task {id} to fail",
    "to_end": "task {id} to end",
    "predecessor_is": "task {id} is {state}",
    "ahead": "{count} waiting {count:task stands|tasks stand} before it in the queue",
    # What it asks for.
    "asked": "{what: and }",
    "asked_on": "{what} on node {node}",
    "nothing_asked": "nothing",
    "amount": "{count} {unit}{count:|s}",
    "pieces": "{unit} {numbers:, }",
    "one_slot": "a slot",
    # Why that can never be.
    "asks_beyond": "it asks for {request}, but {beyond:, }{more:and more}",
    "no_such_node": "there is no node {node!r} (nodes: {nodes:or none})",
    "no_such_node_but": "there is no node {node!r} (did you mean {meant!r}? nodes: {nodes:or none})",
    "no_nodes": "the registry has no nodes: add one with `muster node add`",
    "another_node": "another node is asked for",
    "is_leaving": "{nodes:subject} {nodes:are} leaving: it is not in the registry any more",
    "has": "{nodes:subject} {nodes:has} {amount}",
    "has_no_slots": "{nodes:subject} {nodes:has} no slots for tasks without GPUs",
    "has_no_piece": "{nodes:subject} {nodes:has} no {unit} {number} (only 0 to {last})",
    "has_no_pieces": "{nodes:subject} {nodes:has} no {unit} {number} (it has none)",
    # What stands in its way now.
    "obstacle": "{nodes}: {what}",
    "obstacle_because": "{nodes}: {what} ({because:; })",
    "cluster_obstacle": "the cluster: {what}",
    "more_obstacles": "and on {count} more nodes for other reasons, see `muster nodes`",
    "takes_no_tasks": "takes no tasks ({why:; })",
    "link": "{state}",
    "link_because": "{state} ({said})",
    "could_not_start_it": "could not start it, and is tried again only where no other node could",
    "room": "room",
    "free": "{free} of {has} {unit}s free",
    "slots_taken": "{taken} of {has} slots taken",
    "pieces_held": "{unit} {numbers:, } held",
    "pieces_closed": "{pieces:, }",
    "closed": "{unit}{numbers:|s} {numbers}: {why}",
    "held_by": "task{tasks:|s} {tasks:few}",
    "none_held": "none held",
}

ENDS: dict[str, str] = {
    "exit_code": "exit code {code}",
    "not_executable": "exit code {code}: the command may not be executed",
    "command_not_found": "exit code {code}: the command was not found",
    "killed_from_outside": "exit code {code}: killed from outside (signal 9)",
    "env_failed": (
        "exit code {code}: the environment {env} does not exist there, or cannot be activated (unless the command "
        "itself ended so): its log says why"
    ),
    "time_limit": "its time limit ended it",
    "log_too_large": "log_too_large: {said} (scheduler.log_bytes): move it away, or print less",
    "not_started": "could not be started: {said}",
    "not_started_anywhere": "could not be started on {count} nodes: {tries:; }",
    "node_said": "{node}: {said}",
    "rebooted": "node_rebooted: the machine restarted during the attempt",
    "claim_gone": "node_rebooted: {node} restarted, or its state folder was replaced, during the attempt",
    "no_record": "the agent on {node} has no record of it any more",
    "exit_unknown": "exit unknown: what stood over the attempt was killed",
    "agent_said": "{said}",
    "given_up": "node {node} was given up by {by}",
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
    "large_log": "its log has {size:size}; at {limit:size} the task is ended (scheduler.log_bytes)",
    "warnings": "{warnings:; }",
    # Of what a submit names.
    "folder_absent": "the folder {path} does not exist (yet): the task fails unless it is there when it starts",
    "env_absent": "there is no environment {env} (yet): `muster env list` shows which there are",
}
