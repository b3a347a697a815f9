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
    "snapshots_changed": "{path}: it, and all beside it, were changed; remove them",
    "snapshot_beside_too_many": (
        "{path}: code and more than {most} other files lie there side by side; give the others a folder of their own"
    ),
}
