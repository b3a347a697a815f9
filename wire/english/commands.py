"""Why a command, or a method of the Python API, refuses something before it asks the master."""

from __future__ import annotations

COMMANDS: dict[str, str] = {
    # Tasks by their names, folders and files.
    "not_one_id": "{found!r} is not the id of one task",
    "no_task_named": "no active task of yours is called {name!r}: `muster queue --mine` shows yours",
    "task_named_has_ended": (
        "no active task of yours is called {name!r}; task {id} of this name has ended: give its id"
    ),
    "task_named_is_anothers": (
        "no active task of yours is called {name!r}; task {id} of this name is {owner}'s: give its id"
    ),
    "tasks_named_alike": "{count} of your active tasks are called {name!r}: {tasks}; give an id",
    "array_named_alike": (
        "{count} of your active tasks are called {name!r}: {tasks}; give an id, or {array}/ for the whole array"
    ),
    "folder_deleted": "{path}: this folder was deleted: change to one that exists, or name one",
    "current_folder_deleted": "the current folder was deleted: change to one that exists, or name one",
    "part_not_yours": "{path} is not a file of yours: remove it, or fetch to a folder that nobody else can write",
    "fetched_already": "{path} is being fetched already, by another process: wait until it is done",
    "file_replaced": "{path}: another file took its place while it was read; try again",
    "became_shorter": "{path} became shorter while it was read; try again",
    "no_free_ports": "no ports are free on this machine: stop what uses them, and try again",
    "verb_not_known": "there is no verb {verb!r}: `muster api` lists all",
    "verb_not_known_but": "there is no verb {verb!r} (did you mean `{meant}`?): `muster api` lists all",
    # Snapshots.
    "snapshot_of_no_folder": (
        "{path}: there is no such folder on this machine, and a snapshot is taken here: name an existing folder"
    ),
    "snapshot_of_snapshot": "{path}: this is a snapshot already, which never changes: leave out --snapshot",
    "snapshot_not_taken": (
        "{path}: no snapshot can be taken: {detail}; without one the task runs the files as they are when it starts"
    ),
    "snapshot_of_nothing": "{path}: there is no file to take a snapshot of",
    "git_reads_no_tree": "{path}: git does not read its work tree; `git -C {path} status` says why",
    "git_lists_no_files": "{path}: git does not list its files; `git -C {path} status` says why",
    "snapshot_too_large": (
        "{path}: more than {files} files or {megabytes} MB are too much for a snapshot ({name} is among them): let git "
        "know what is no code (`git init`, and data and results in .gitignore), or leave out --snapshot"
    ),
    "snapshots_of_others": (
        "{path}: it belongs to another account (uid {uid}), which could change what your task runs: have it removed, "
        "submit from a folder of your own, or leave out --snapshot"
    ),
    "snapshots_open_to_others": (
        "{path}: other accounts may write there, and could change what your task runs: `chmod go-w {path}`, or leave "
        "out --snapshot"
    ),
    "snapshots_changed": "{path}: it, and all beside it, were changed; remove them",
    "snapshot_beside_too_many": (
        "{path}: code and more than {most} other files lie there side by side; give the others a folder of their own"
    ),
    # Submitting and editing.
    "gpu_ids_of_some_nodes": "--gpu-ids: name the node of all GPUs (NODE:0,1), or of none",
    "gpus_on_twice": "--gpus-on: node {node} is named twice; give all its GPUs at once",
    "home_of_this_pc": "{option} {path}: `~` is a folder of this PC: name the path that nodes know",
    "home_of_nobody": "{option} {path}: there is no such user on this machine",
    "path_of_windows": "{option} {path}: this is a path of Windows: name the path that nodes know",
    "env_folder_unseen": "--env {env}: the master does not see {folder}: name the path that nodes know",
    "snapshot_unseen": (
        "--snapshot: the master does not see {folder}, so no task could run there: submit from a folder that it sees "
        "(`visible_folders` in its conf.json), or leave out --snapshot"
    ),
    "commands_unreadable": "{path}: cannot be read: {detail}",
    "commands_not_utf8": "{path}: not UTF-8 (byte {byte}); save it as UTF-8",
    "no_commands": "{path}: it is empty",
    "no_command_in_lines": "{path}: no line holds a command",
    "batch_ends_within": "{path}: line {line} goes on with a backslash, and the file ends",
    "dry_run_of_one": "--dry-run looks at one command: use it with `-- CMD …` or --script",
    "keys_of_arrays": "cap and max-fails are an array's: `muster edit {id}/ …`",
    "no_setting_but": "there is no setting {name} (did you mean {meant: or }?); `muster set` lists all",
    "setting_value_wrong": "{name}: {detail}",
    # Logs and files.
    "log_gone": (
        "the log of task {id} was deleted or moved, {path} is not there; `muster retry {id}` runs it again and writes"
        " a new one"
    ),
    "log_gone_while_written": (
        "the log of task {id} was deleted or moved, {path} is not there; what it goes on writing goes into the "
        "deleted file"
    ),
    "output_is_folder": "{path} is a folder: name a file in it",
    "output_exists": "{path} exists already and is not overwritten: remove it, or name another file",
    "output_broken": "{path}: {detail}; it is not whole, {path} has {bytes:,} {bytes:byte|bytes}",
    "log_planted": "{path} is a link or another account's, and others can write in its folder: remove it",
    "target_is_file": "{path} is a file, not a folder: name a folder, or one source and -f",
    "target_no_folder": "{path} is not a folder; make it first: muster files mkdir {path}",
    "folder_without_r": "{path} is a folder; with -r it goes with all that is in it",
    "put_of_stdin": "`put` sends files, and stdin is none: name a file; ./- is the file of that name",
    "get_to_stdout": "`get` writes files: `muster files cat PATH` prints one, ./- is the file of that name",
    "folder_over_file": "{path} is a file, and a folder cannot take its place; choose another name or delete it first",
    "file_over_folder": "{local} is a folder here; {path} is none: name another target",
    "not_a_folder_here": "{path} is not a folder here: make it first",
    "link_of_another": "{path} is a link of another account: remove it, or name another folder",
    "no_file_name": "{name!r} is not the name of a file",
    "editor_needs_terminal": "there is no terminal for an editor: give the text with --from FILE (`-`: stdin)",
    "editor_not_started": "{editor}: {detail}; say in EDITOR which editor to use",
    "editor_failed": "{editor} ended with {code}: nothing was changed",
    # Users, log-ins and passwords.
    "nobody_to_ask": "{question} There is nobody to ask here: say --yes if so",
    "passwords_differ": "the two are not the same: nothing was changed",
    "password_needs_terminal": (
        "there is no terminal to ask for the password at: give --password-file FILE (`-`: stdin)"
    ),
    "password_not_utf8": "{path}: the password is not UTF-8: save the file as UTF-8",
    "password_expected": "{path}: a password of 1 to {most} bytes is expected in the first line",
    "nothing_typed": "nothing was typed",
    "whose_password": "{why}. While it is down, say whose password: muster users passwd NAME",
    "log_in_needs_terminal": (
        "a log-in is asked for at a terminal, and there is none: a program brings a token in MUSTER_TOKEN (`muster "
        "tokens new` makes one)"
    ),
    "no_users_there": (
        "no user was added at {at} yet: the account that runs the master adds them there (`muster users add`)"
    ),
    "no_log_in_kept": (
        "this PC keeps no log-in at {at}: there is nothing to end (`muster tokens revoke ID` ends a token)"
    ),
    "links_file_exists": "{path}: it is there already, and nobody was added: name another file",
    "nobody_added": "{path}: nobody was added: {faults:; }{more:and more}",
    "wrong_cell": "line {line}, {column}: {what}",
    "cell_wrong": "{detail}",
    "not_csv": "it is no CSV file: {detail}",
    "csv_not_utf8": "line {line}: it is not UTF-8: save it as `CSV UTF-8`",
    "no_column": "line 1: there is no column {name!r}; there are {columns:, }",
    "column_twice": "line 1: the column {name!r} is there twice",
    "no_column_of_names": "line 1: a head with the column `name` is expected; there are {columns:, }",
    "cells_expected": "line {line}: {count} cells are expected, as in the head",
    "nobody_in_file": "line 2: there is nobody in it",
    "none_of_words": "{found!r} is none of {words:, }",
    "cell_no_name": "{name!r} is not 1 to 32 small letters, digits, `_` and `-`, the first a letter or `_`",
    "name_in_line": "{name} stands in line {line} already",
    "user_exists": "there is a user {name} already",
    "group_to_add": "there is no group {name!r}: `muster groups add` it first",
    # The master, and the programs beside it.
    "up_is_local": "`up` starts a master on this machine: give --conf, not --master",
    "web_is_local": "`web` runs beside a master of this machine: give --conf, not --master",
    "shell_is_local": "`shell` uses the master's own keys, on the master's machine: give --conf, not --master",
    "deploy_is_local": "`deploy` is about the master of this machine: give --conf, not --master",
    "top_needs_terminal": "this needs a terminal: use `muster top --once`, or --json",
    "top_cannot_draw": "a terminal of the kind `{kind}` cannot be drawn on: use `muster top --once`, or --json",
    "top_needs_utf8": (
        "this terminal's text is {encoding}, and GPUs are drawn in UTF-8: where it shows UTF-8, `LC_ALL=C.UTF-8 "
        "muster top`; else use `muster top --once`, or --json"
    ),
    "master_runs_already": "a master runs at {at} already (pid {pid}); `muster down` stops it",
    "master_not_answering": (
        "the master (pid {pid}) was started but does not answer as it should ({why}); it says: {detail}"
    ),
    "port_said": "port {port}: {why}",
    "another_process_answers": "another process answers",
    "port_taken": (
        "port {port} at {host} is held by {holder}, so no master can start there: {why}. Stop that, or choose other "
        "ports (socket_info in conf.json)"
    ),
    "port_of_no_master": (
        "port {port} at {host} is held by {holder}, and the program there is not a Muster master: stop that, or "
        "choose other ports (socket_info in conf.json)"
    ),
    "holder_unseen": "something (`ss -ltnp` as root shows it)",
    "master_down_already": "no master listens at {at}: it is down already (`muster up` starts it)",
    "master_still_listens": "the master at {at} was asked to stop and still listens; see its log",
    "web_port_is_masters": "--web: {port} is a port of the master in {conf} (socket_info) already: name another one",
    "pinned_key_differs": (
        "node {node} shows another key than the one that was pinned: if its machine was set up anew, look at it with "
        "`muster node trust {node:quoted}`"
    ),
    "program_left_behind": "{name} was left behind and is stopped",
    "master_listened_elsewhere": "the master (pid {pid}) listened elsewhere than {conf} says by now",
    "program_not_ended": (
        "{name} (pid {pid}) could not be ended: end it as the user that it belongs to, on the machine on which it runs"
    ),
    "program_of_unknown_lab": (
        "{conf}: task_info: {folder}: process {pid} works there, and does not tell with which conf.json {name} was "
        "started: it was left alone. `ps {pid}` shows it; `kill {pid}` ends it"
    ),
    "program_of_another_lab": (
        "{conf}: task_info: {folder} is the state folder of another lab, {theirs}, too: {name} that works there (pid "
        "{pid}) is that lab's and was left alone. Name another folder in task_info; `muster down --conf "
        "{theirs:quoted}` ends theirs"
    ),
    "skipped_link_of_another": "a link of another account",
    "skipped_link_to_folder": "a link to a folder",
    "skipped_neither": "neither file nor folder",
    "skipped_neither_or_out": "neither file nor folder, or a link that leads out",
}
