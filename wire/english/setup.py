"""Why `init`, the take-over of an old lab, `deploy`, or a change of users of a stopped master cannot go on."""

from __future__ import annotations

SETUP: dict[str, str] = {
    # The take-over of an old lab.
    "no_old_conf": (
        "there is neither a conf.json nor a master/conf.json in it; give the folder that holds the old system's "
        "main.py, or the one above"
    ),
    "no_object_here": "expected an object {example}, found something else",
    "old_folders_missing": (
        "this machine does not have the folders of {folders:, }: run this where the old master ran, or change these "
        "keys first"
    ),
    "passwords_no_file": "it is no file; conf.json's `psw_file` says where the passwords lie",
    "passwords_not_yours": "others may read it, and it is not yours to change: run this as its owner",
    "mode_not_changed": "its mode cannot be changed: {detail}; type `chmod 600 {path}`",
    "y_or_n": "y or n is expected",
    "process_runs": "process {pid} runs {program}",
    "ports_in_use": "its ports are in use: {ports:, }",
    "our_master_seems_to_run": "Muster's master seems to run still: {signs:; }",
    "old_master_seems_to_run": "the old master seems to run still: {signs:; }",
    "our_master_runs": "{why}. `muster down` stops it; --force goes on all the same",
    "old_master_runs": "{why}. Stop it, and what starts it (cron, systemd); --force goes on all the same",
    "old_queues_unwritten": (
        "the old master was stopped before it wrote its queues again: {traces:; }. --yes takes the lab over and keeps "
        "these held; or start the old master, wait for two minutes, and stop it again"
    ),
    "old_trace": "task {id} {what}",
    "seems_deleted": "seems to have been deleted: {path} says so",
    "seems_ended": "seems to have ended: {path} says so",
    "seems_started": "seems to have started: {path} says so",
    "seems_started_by_log": "seems to have started: {path} was written",
    # The way back to it.
    "master_runs": "a master seems to run: {signs:; }. `muster down` stops Muster's",
    "queues_not_taken_over": (
        "{folder}: Muster's master has not taken these queues over: only conf.json has to go back"
    ),
    "went_back_before": "{folder} is there already, from an earlier way back: move it away",
    "tasks_alive": "these tasks are alive: {tasks:, }. `muster up`, then cancel or await them",
    # Users of a stopped master.
    "queue_is_there": "{folder} holds a queue: start it, then `muster users add {name} --admin` adds an admin",
    "no_queue_yet": "{folder}: there is no queue yet: `muster up` begins one",
    "queue_of_another": "{folder} belongs to {owner}: while the master is down only {owner} and root change it",
    "master_holds_queue": (
        "the master (pid {pid}) has {folder} and does not answer: if it is just starting, try again; else its log says "
        "what it does, and `kill {pid}` ends it"
    ),
    "master_holds_queue_unseen": (
        "the master, whose pid is unknown, has {folder} and does not answer: if it is just starting, try again; else "
        "its log says what it does, and a signal ends it"
    ),
    "bind_elsewhere": (
        "bind: {address} is no address of this machine ({detail}); `ip -brief address` lists them, 0.0.0.0 means all"
    ),
    "no_network": "networks: {found!r} is no network; expected ADDRESS/BITS, such as 192.168.36.0/24",
    "no_network_but": (
        "networks: {found!r} is no network (did you mean {meant}?); expected ADDRESS/BITS, such as 192.168.36.0/24"
    ),
    # `init` and `deploy`.
    "no_folder_here": "it is there, and no folder: name another one",
    "file_unwritable": "cannot be written: {detail}",
    "folder_unmakable": "cannot be made: {detail}",
    "link_in_the_way": "{path} is a link: nothing is written through it; remove it, or name another folder",
    "path_for_units": (
        "{key}: {found!r} cannot be written into units, fstab and smb.conf; allowed are paths without control "
        "characters and backslashes, and without a blank at a name's end"
    ),
    "setup_exists": (
        "{files: and } {files:exists already and is left as it is|exist already and are left as they are}; --force "
        "writes both anew"
    ),
    "changed_files_kept": (
        "{folder}: kept as somebody changed them: {files:, }; the others are up to date. Move them away and run it "
        "again to see ours, or --force writes over them"
    ),
    "influx_url_for_deploy": "influx.url: http://HOST:PORT is expected, without user and password",
    # Notes of commands about the lab and its environments.
    "no_env_yet": "there is none yet; in the folder that conf.json's `conda` names: python3 -m venv envs/NAME",
    "env_of_lab_meant": "note: the environment {env} is the lab's; the one in this folder is ./{env}",
    "env_of_folder_meant": (
        "note: the environment is {path}: the master sees none of the lab's of this name. One that only nodes have is "
        "named by its path"
    ),
    "console_port_of_lab": (
        "note: port {port} is another lab's of yours: there is no console as long as that has it (web.port in "
        "conf.json)"
    ),
    "console_port_used": (
        "note: port {port} is in use: there is no console as long as that has it (web.port in conf.json)"
    ),
    "queue_is_yours": (
        "The queue is yours, on this machine without a log-in. For a lab of several people it has users."
    ),
    "lab_has_port_too": (
        "note: another lab of yours has port {ports:, }, too: only one of the two can run until you change socket_info "
        "in the conf.json of the other"
    ),
    "this_machine_only": "note: the master listens on this machine only, until conf.json has another `bind`",
    "queue_is_copy": (
        "note: {folder} is a copy of the queue of {of}: the same tasks are in both, and each lab runs what waits. For "
        "an empty queue stop this master (`muster down`) and remove the copy"
    ),
    "lab_file_odd": (
        "note: {path} is not the file in which the master keeps which lab this is, and cannot be replaced: remove it, "
        "and start the master anew. Until then labs are told apart by where conf.json lies"
    ),
    "no_lab_made": "nothing was made. The lab that is there: `{command}`",
    "lab_of_variable": "note: commands use {lab}, until you `unset {variable}` or give --conf {conf}",
    "lab_of_folder": (
        "note: there is another lab, {lab}: a command uses the lab of the folder in which it is typed, or of "
        "--conf FILE"
    ),
}
