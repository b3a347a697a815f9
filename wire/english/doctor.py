"""Findings of the doctor about nodes, and their remedies (`do_…`)."""

from __future__ import annotations

DOCTOR: dict[str, str] = {
    "doctor_said": "{said}",
    "doctor_last_try": "the last try: {why}",
    "doctor_not_asked": "the node is not connected",
    "doctor_not_reached": "its agent does not answer",
    "doctor_no_time": "there was no time left",
    "doctor_no_answer": "no answer in the time there was",
    "doctor_not_looked_at": "it was not looked at within {seconds:.0f} s",
    "do_name_fewer": "name fewer nodes at a time",
    "doctor_gone": "it is not in the registry any more, and goes when its last task has ended",
    "doctor_not_registered": "it is not in the registry",
    "do_write_back": "wait, or write it back into the registry",
    "do_mend_file": "mend that file",
    # The way to it.
    "doctor_own_machine": "it is a process of the master's own machine",
    "doctor_dials_in": "it dials in by itself",
    "doctor_reached": "{where} answers in {ms:.0f} ms",
    "doctor_reached_through": "{where} answers through its proxy in {ms:.0f} ms",
    "doctor_silent_port": "{where} does not answer within {seconds:.0f} s",
    "doctor_still_connected": "{why}; the connection that exists goes on",
    "do_look_at_sshd": (
        "look whether {ip} is on and runs sshd on port {port}; if the address is wrong: "
        "`muster node edit {name:quoted} ip=…`"
    ),
    "do_look_at_sshd_and_proxy": (
        "look whether {ip} is on and runs sshd on port {port}, and whether the proxy {proxy} works; if the address is "
        "wrong: `muster node edit {name:quoted} ip=…`"
    ),
    "doctor_key_hidden": "it shows none, since it cannot be reached",
    "doctor_key_known": "known: {type} {fingerprint}",
    "doctor_key_new": "it shows {type} {fingerprint}, which is not known yet",
    "doctor_key_other": (
        "it shows {type} {fingerprint}, known is {known}: it has several keys, or was set up anew after we connected"
    ),
    "doctor_key_untrusted": "its host key is not trusted",
    "doctor_no_key": "{where} shows no host key within {seconds:.0f} s",
    "do_trust": (
        "compare it with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the machine itself; if it is right, "
        "`muster node trust {name:quoted}`"
    ),
    "do_trust_in_registry": (
        "compare it with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the machine itself; if it is right, "
        "`muster node edit {name:quoted} host_key=SHA256:…` (the registry says which it must be)"
    ),
    "do_look_at_console": "look at its console: it is frozen, overloaded, or what answers is no sshd",
    "doctor_log_in_key": "as {user}, by the key {key_file}",
    "doctor_log_in_password": "as {user}, by password",
    "doctor_connecting": "it is being connected to",
    "doctor_not_dialled": "its agent has not dialled in",
    "doctor_nothing_said": "nothing was said",
    "do_wait_and_look": "wait some seconds, then look again",
    "do_start_agent": "`muster agents start {name:quoted}`",
    "do_read_its_log": "see on the machine whether the agent runs: its service (`systemctl status`), or its own log",
    "do_install_python": (
        "install Python 3.8 or newer there, or `muster node edit {name:quoted} python=/path/to/python3`; "
        "`muster agents start {name:quoted}` tries again at once"
    ),
    "do_look_at_network": (
        "look at the machine and at the network between; `muster agents start {name:quoted}` tries again at once"
    ),
    "do_mend_shell": (
        "look at the .bashrc and .profile of {user} there: nothing in them may exit or wait; `muster agents start "
        "{name:quoted}` tries again at once"
    ),
    "do_correct_log_in": (
        "correct `psw_file`, `key_file` or the account {user}, as it says; `muster agents start {name:quoted}` tries "
        "again at once"
    ),
    "do_make_room_for_agent": "make room on that disk; `muster agents start {name:quoted}` tries again at once",
    "do_one_master": (
        "another master uses this node: stop the one that should not, or use another account for one of them"
    ),
    "do_one_master_or_clear": (
        "another master uses this node: stop the one that should not, or use another account for one of them; if there "
        "is no other, task_info is a copy that was put back, or a task of that account made the agent obey it: as that "
        "account, on the node, `mv {folder:quoted} {aside:quoted}`; the agent ends, what runs there runs on, and "
        "`muster agents start {name:quoted}` tries again at once"
    ),
    "do_as_it_says": (
        "do what it says; `muster agents start {name:quoted}` tries again at once; `muster logs --server` has the "
        "history"
    ),
    # The machine.
    "doctor_no_facts": "it is online and has not said what it is",
    "do_look_and_ask_again": "look at its load, its storage and `dmesg` there, then ask the doctor again",
    "doctor_python": "Python {version}",
    "doctor_python_fails": "{python}: {said}",
    "doctor_agent_late": "its agent did not answer within {seconds:.0f} s",
    "doctor_agent": "version {version}{since}",
    "doctor_agent_other": "its version is {version}, the master's is {ours}{since}",
    "doctor_running_for": ", running for {span}",
    "do_restart_agent": "`muster agents restart {name:quoted}`",
    "do_read_why_not_taken_over": "the agent's own log on the machine says why it could not take over the master's",
    "doctor_as_owners": "tasks run as their owners, where these have an account there",
    "doctor_no_accounts": "tasks of {users} cannot start there: no account has {users:that name|one of these names}",
    "do_make_accounts": "make an account there for each (`sudo adduser --uid N NAME`, with the uid that it has on the "
    "other machines), or add the user under the name of the account",
    "doctor_over_accounts": "tasks run over the SSH accounts of their owners: {users}",
    "doctor_shared_account": "the account {account} is that of {users}: nothing keeps their tasks apart",
    "do_name_an_account_for_each": "name an account for each in `accounts`, or leave it if that is meant",
    "doctor_waits_for_account": "{user}'s tasks wait: {why}",
    "do_mend_ssh_account": (
        "put that right, in `accounts`, in {key} or with the account {account} there, whose ~/.ssh/authorized_keys "
        "must hold the public half; `muster agents start {name:quoted}` tries again at once"
    ),
    "do_mend_or_give_up": (
        "{mend}; if nobody will have access to it again, `muster node lost {name:quoted} --account {account}` gives up "
        "what runs over it"
    ),
    "doctor_account_not_named": "tasks run over the account {account}, which nothing names in `accounts` any more",
    "do_name_again_or_give_up": (
        "write it back, in `accounts` of the node's entry or of conf.json, until they have ended; or give them up, "
        "with `muster node lost {name:quoted} --account {account}`"
    ),
    "doctor_account_unknown": "its agent does not say which account it runs as",
    "doctor_root_bound": "its agent is root and cannot run tasks as their owners",
    "do_give_capabilities": "in a container give it CAP_SETUID, CAP_SETGID, CAP_CHOWN and CAP_KILL",
    "doctor_one_account": "all tasks run as {account}, which keeps nobody's apart from another's",
    "doctor_own_account_open": (
        "everybody's tasks run as the master's own account, which commands the queue: an admin opened the node "
        "(`muster node resume --own-account`)"
    ),
    "doctor_keeps_out": (
        "tasks run as the account of the master itself, so only admins' tasks may: tasks of {users} do not run here"
    ),
    "do_let_users_in": (
        'let its tasks run as another account (in the registry `"driver": "ssh", "ip": "127.0.0.1", "user_name": '
        "OTHER`), or as their owners (an agent that is root, docs/run-as.md)"
    ),
    "do_use_another_account": (
        'let its tasks run as another account (in the registry `"driver": "ssh", "ip": "127.0.0.1", "user_name": '
        "OTHER`), or leave it if that is meant; the next user who is added closes the node again"
    ),
    "doctor_files_as_owners": "files and logs are touched with the rights of their owners by the master, too",
    "doctor_files_as_master": (
        "the master touches files and logs as itself: what is uploaded is not its owner's, whose tasks cannot write it"
    ),
    "do_let_master_act": (
        "let an agent of root's on the master's machine dial in, or run the master as root (docs/run-as.md)"
    ),
    "doctor_log_readers": (
        "desktop PCs may read logs with the master's own account, or one that is in the group {group} "
        "({accounts:or none})"
    ),
    "doctor_no_log_readers": (
        "desktop PCs cannot read logs over SSH: nobody but the master's own account is in the group {group}"
    ),
    "do_change_key": "change `{key}` in conf.json, and restart the master",
    "do_join_log_group": "`sudo usermod -aG {group:quoted} ACCOUNT`, where ACCOUNT is the one that the PCs use",
    "doctor_environment": "tasks begin with what `bash -l` of that account gives",
    "doctor_environment_of": "over the account {account}: {why}",
    "do_mend_profile": (
        "mend the .bash_profile or .profile of {user:quoted} there: nothing in it may wait, exit or start another "
        "shell; then `muster agents restart {name:quoted}`"
    ),
    "do_mend_profile_of_account": (
        "mend the .bash_profile or .profile of that account there: nothing in it may wait, exit or start another "
        "shell; then `muster agents restart {name:quoted}`"
    ),
    "doctor_clock_ahead": "{seconds:.1f} s ahead of the master's (to within {doubt:.1f} s)",
    "doctor_clock_behind": "{seconds:.1f} s behind the master's (to within {doubt:.1f} s)",
    "do_set_masters_clock": "set the clock of the master's machine; if it is right: `muster clock accept` there",
    "do_give_machine_id": (
        "compare `/etc/machine-id` on {name} and {node}. If they are equal, {name} was set up from a copy: give it an "
        "id of its own (`rm /etc/machine-id; systemd-machine-id-setup`, then `muster agents restart {name:quoted}`). "
        "If not, do not trust the agent of {name}: it reports an id that its machine does not have"
    ),
    "do_set_clock": (
        "let both follow a time server: `timedatectl set-ntp true`, then `timedatectl` shows whether they do"
    ),
    "doctor_not_schedulable": "`schedulable` is false in the registry",
    "doctor_takes_tasks": "it may be given tasks",
    "do_resume": "when it may: `muster node resume {name:quoted}`",
    "do_mend_and_resume": "find out why with the words above, mend it, then `muster node resume {name:quoted}`",
    "do_wait_or_resume": "mend what it says, or wait; `muster node resume {name:quoted}` tries at once",
    "do_wait_or_register": "wait for its last task, or write it back into the registry",
    "do_wait_or_put_back": "wait for its last task, or put the registry back",
    "do_show_node": "`muster node show` has more",
    "do_schedule": "when it may: `muster node edit {name:quoted} schedulable=`",
    # Disks.
    "doctor_disk_error": "{path}: {said}",
    "do_look_at_path": "look at {path} there: tasks and the agent need it",
    "doctor_disk": "{paths:, }: {free} free of {size}",
    "doctor_ids": "of the master: {said}",
    "do_let_ids_be_written": (
        "let the master's account write that file and its folder (`lsattr`, `ls -ld`); it is tried again by itself"
    ),
    "doctor_disk_no_files": "{paths:, }: no more files can be made (its inodes are used up)",
    "do_make_room": "make room there; `du -xh --max-depth=1 {path:quoted} | sort -h` shows what takes it",
    # Whether tasks could start.
    "doctor_conda": "base can be activated in {prefix}: Python {version}",
    "do_look_at_conda": (
        "look at {prefix} on {name:quoted}: is it whole, is its disk up? Tasks with an `env` would fail there"
    ),
    "doctor_only_venvs": "{prefix} holds no conda of its own; what lies in {prefix}/envs is used without one",
    "doctor_no_conda_as_admin": "what runs there is root, or who runs the master, as which none is activated",
    "doctor_no_conda_as_root": "its agent is root, and you have no account there as which to activate it",
    "doctor_no_conda": "the lab has no conda in {prefix} (conf.json's `conda`)",
    "doctor_needs_folder": "it needs {folder}, see {check}",
    "doctor_start": "bash started in {root} and could make a log in {logs}",
    "doctor_no_log_folder": "the folder of the logs, {logs}, is not there",
    "do_mount": "mount it there (`mount {folder:quoted}`)",
    "doctor_no_log": "no log can be made in {logs}",
    "do_let_write": "let {who} write into {logs} (owner, mode, a mount that is read-only, a full disk)",
    "doctor_no_start": "no task can start in {said}",
    "do_mount_and_let_in": "mount it there, and let {who} enter it",
    "do_install_bash": "install bash there: every task is run by it",
    "doctor_bash_failed": "bash could not do its work: {said}",
    "doctor_account_there": "the account there",
    # Shared folders.
    "doctor_blind": "it is looked at with the node's Python, see {check}",
    "doctor_folders": "the same here and there: {folders:, }",
    "doctor_folder_own": (
        "{folder} is the node's own, with shared folders in it: a task that may run anywhere starts from one of those"
    ),
    "doctor_folder_absent": "{folder} is not there on the master's own machine, so no node is asked for it",
    "doctor_folder_silent": "{folder} does not answer there: {said}",
    "do_look_at_file_server": ("is the file server up? `stat {folder:quoted}` there hangs as long as it is not"),
    "doctor_folder_missing": "{folder} is not there",
    "do_mount_folder": "mount it there (`mount {folder:quoted}`); tasks start by themselves once it is there",
    "doctor_folder_closed": "{who} may not enter {folder} there",
    "do_correct_mode": "correct owner and mode of the folder",
    "doctor_folder_silent_here": "{folder}: {said}",
    "do_look_at_masters_mounts": "look at `mount` and `dmesg` on the master's machine",
    "doctor_folder_not_back": "{folder} is there, but what {who} writes there is not seen here: {said}",
    "do_mount_right_folder": (
        "it is another folder of the same name, or not mounted: mount it there (`mount {folder:quoted}`); tasks start "
        "by themselves once it is there"
    ),
    "doctor_folder_untried": (
        "{folder} is there; whether it is the same could not be tried: neither the master nor {who} may write ({here}; "
        "{there})"
    ),
    "doctor_folder_other": "{folder} is there, but not what the master writes into it ({said})",
    "doctor_reads_other": "it reads something else",
    "doctor_silent_here": "it does not answer on the master's machine within {seconds:.0f} s",
    "doctor_folder_late": "{folder} is shared, but what {who} writes there is not seen here soon: {said}",
    "do_look_at_caches": "look at the caches of both mounts (`actimeo`, `lookupcache` for NFS)",
    # GPUs.
    "doctor_gpus_unseen": "the registry counts {count} {count:GPU|GPUs}, and no sample has told of them yet",
    "doctor_gpus_declared": "`gpu_probe` is `declared`: the registry is believed, it counts {count} {count:GPU|GPUs}",
    "doctor_smi_fails": "nvidia-smi fails: {said}",
    "doctor_no_gpus": "the registry counts none, and the machine shows none",
    "doctor_gpus_gone": "the registry counts {count} {count:GPU|GPUs}, and the machine shows none",
    "doctor_gpus_gone_no_smi": (
        "the registry counts {count} {count:GPU|GPUs}, and the machine shows none; nvidia-smi is not there"
    ),
    "doctor_gpus_differ": "the machine shows {shown} {shown:GPU|GPUs}, the registry counts {count}",
    "doctor_gpus": "{count} {count:GPU|GPUs}, as the registry says: {models:, }",
    "doctor_gpu_closed": "{gpus:GPU|GPUs} {gpus:, } {gpus:gets|get} no tasks: {why}",
    "do_install_driver": (
        "install the driver that fits its kernel, or reboot; `dmesg | grep -iE 'nvrm|xid'` there says more"
    ),
    "do_install_driver_or_declare": (
        "install the driver that fits its kernel, or reboot; `dmesg | grep -iE 'nvrm|xid'` there says more; where they "
        "are not NVIDIA's: `muster node edit {name:quoted} gpu-probe=declared`"
    ),
    "do_find_lost_gpu": (
        "look for the one that fell off (install the driver that fits its kernel, or reboot; `dmesg | grep -iE "
        "'nvrm|xid'` there says more), or `muster node edit {name:quoted} gpus={shown}`"
    ),
    "do_use_all_gpus": "`muster node edit {name:quoted} gpus={shown}` lets tasks use all of them",
    "do_say_model": "`muster node edit {name:quoted} gpu-model=…` says which they are",
    "do_resume_gpus": "when it is mended: `muster node resume {name:quoted} --gpu {gpus}`",
    "do_wait_or_restart": ("wait some seconds, then look again; if it stays so: `muster agents restart {name:quoted}`"),
    "do_wait_for_users": "tasks get it when they have ended",
    "do_wait_or_aside": "wait; it is set aside if that stays so",
}
