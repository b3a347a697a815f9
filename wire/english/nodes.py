"""Faults of a node."""

from __future__ import annotations

NODES: dict[str, str] = {
    "not_registered": "not in the registry any more: add it again, or give its tasks up with `muster node lost`",
    "link_said": "{said}",
    "agent_without_run_as": (
        "the agent of {node} is root and of a version that cannot run anything as {account}: "
        "`muster agents restart {node:quoted}`"
    ),
    "agent_cannot_become": (
        "the agent of {node} is root without the right to become {account}: in a container give it CAP_SETUID, "
        "CAP_SETGID, CAP_CHOWN and CAP_KILL, or let it run as an ordinary account"
    ),
    # Why tasks there get no token.
    "agent_without_tokens": "its agent is of a version that cannot give a task a token: an admin brings it up to date "
    "with `muster agents restart`, once the machine's Python takes it",
    "master_out_of_reach": "a task there could not submit others, for the master listens on its own machine only: an "
    "admin can let others in with `bind` in conf.json, or say in its `task_env` how nodes reach the master "
    "(`MUSTER_MASTER`)",
    "tokens_need_tls": "a task there would send its token as plain text, and none is sent so: leave `tls` on in "
    "conf.json",
    # Reasons for which a node gets no tasks.
    "not_schedulable": "`schedulable` is false in the registry",
    "leaving": "it left the registry: no new tasks, and it goes when its last one ended",
    "left": "it left the registry while tasks ran there",
    "changing": "its {keys: and } changed in the registry: no new tasks before its last one ended",
    "drained": "drained by {by}: {said}",
    "agent_stopped": "its agent was stopped by {by}",
    "agent_refused": "{said}",
    "agent_runs_as_us": (
        "it is the master's own machine, its tasks run as {account}, who can do there what the master can: they could "
        "read its keys and command it, and conf.json's desktop_client.networks lets in {networks:, }, who show no "
        'password. Let them run as another account of this machine (in the registry `"driver": "ssh", "ip": '
        '"127.0.0.1", "user_name": OTHER`), or take the node out of the registry, or leave only this machine in '
        "`desktop_client.networks`, or accept it with `desktop_client.local_nodes`: `allow`"
    ),
    "sick": "it could not start {count} tasks one after the other: {said}",
    "set_aside": "set aside: {said}; mend it, then `muster node resume {name:quoted}`",
    "resting": "it could not start task {task} ({said}) and is tried again in {seconds} s",
    "no_account_there": (
        "{owner} has no SSH account for tasks there: an admin names one in `accounts` of the node's entry in the "
        "registry, or of conf.json"
    ),
    "account_not_said": (
        "its executor has not said as which account it runs tasks, so it takes only tasks of the account that runs the "
        "master: name another node, or ask an admin for an executor that says it"
    ),
    "no_account_of_yours": (
        "{node} runs commands over an SSH account of each user, and you have none there: an admin names one in "
        "`accounts` of its entry in the registry, or of conf.json"
    ),
    "account_begins": "the agent of the account {account} there is being begun",
    "account_away": "the agent of the account {account} there is away: {why}",
    "account_closed": "no new task over the account {account} there: {why:; }",
    "account_rests": (
        "the account {account} there could not start task {task} ({said}) and is tried again in {seconds} s"
    ),
    "account_elsewhere": "it is on another machine than the agent of node {node}, or in an earlier run of it",
    "account_is_ours": (
        "its account is {account}, who can do there what the master can, or root: name another one in `accounts`"
    ),
    "account_not_named": (
        "tasks run over the account {account}, and neither the entry of {node} in the registry nor conf.json names it "
        "in `accounts` any more: write it back until they have ended, or give them up with `muster node lost "
        "{node:quoted} --account {account}`"
    ),
    "machine_was": "it is the machine that {node} was, whose last tasks must end first",
    "machine_is": (
        "it says that it is the machine that {node} is, which had this identity first: {name} gets no tasks, since "
        "both entries would give out the same GPUs. If they are one machine, keep one of the two entries; if not, one "
        "of them reports the ids of the other: compare `/etc/machine-id` and `/proc/sys/kernel/random/boot_id` on both"
    ),
    "machine_is_over": (
        "it says that it is the machine that {node} is, reached as {user} in place of {other}. {node} had this "
        "identity first: {name} gets no tasks, since both entries would give out the same GPUs. If they are one "
        "machine, keep one of the two entries, and name the SSH accounts of users in its `accounts`; if not, one of "
        "them reports the ids of the other: compare `/etc/machine-id` and `/proc/sys/kernel/random/boot_id` on both"
    ),
    "machine_changed": (
        "it had a machine id of its own and now reports that of {node}, which had it first: where both claim one boot, "
        "{node} is served and {name} is not"
    ),
    "remnants": "{count} attempt{count:|s} that nobody owns any more must end first",
    "unknown_attempts": (
        "{count} attempt{count:|s} of unknown origin run{count:s|} there, and nobody can say which GPUs "
        "{count:it has|they have}: no new tasks before an admin has adopted or ended {count:it|them} (`muster node "
        "attempts {node:quoted}`)"
    ),
    "unproven_there": (
        "records of attempts were lost, and processes there may be of them, which nothing proves: pid {pids:, }. No "
        "new tasks before they have ended: look at them there, and end them (`kill PID`)"
    ),
    "folders_looked_at": "its shared folders are being looked at",
    "folders_not_asked": "{said}",
    "folders_hang": "the shared folders do not answer ({said}): is the NFS server up? ({folders:, })",
    "folders_unreadable": "the shared folders cannot be looked at: {said!r}",
    "folders_defect": "its shared folders cannot be looked at: a defect of Muster ({said})",
    "folder_missing": "the shared folder {folder} is not there on this node: mount it there (`mount {folder:quoted}`)",
    "folder_closed": (
        "the shared folder {folder} may not be entered on this node: mount it there (`mount {folder:quoted}`)"
    ),
    # Reasons for which a GPU is not given out.
    "gpu_aside": "{said}",
    "gpu_unknown_attempt": (
        "held by attempt {launch} of unknown origin until an admin has adopted or ended it (`muster node attempts "
        "{node:quoted}`)"
    ),
    "gpu_fault": "{said}",
    "gpu_not_registered": "not in the registry",
    "gpu_unseen": "no sample has told of it yet",
    "gpu_returned": "it was returned, and the next sample tells whether it is well",
    "gpu_missing": "the machine shows {shown} GPUs and the registry counts {count}",
    "gpu_other_model": "GPU {gpus:, } is {real!r} and the registry says {model!r}",
    "gpus_differ": "{faults:; }",
    "gpu_used": "used by {users:, }{more:and more}",
    "gpu_used_by_others": "used by others",
    "process": "{user} (pid {pid})",
    "gpu_strays": "used by {tasks:, }, which {tasks:was|were} not given it",
    "gpu_left": "task {task} was given up and is still alive on it",
    "task_process": "task {task} (pid {pid})",
    "gpu_not_free_yet": "the memory of task {task} is not free yet",
    "gpu_not_free": "the memory of task {task} is not free yet ({mib} MiB)",
    "gpu_stayed": "its memory stayed in use: {mib} MiB for {seconds} s after task {task} ended",
}
