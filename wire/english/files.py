"""Why a request about files or logs is refused."""

from __future__ import annotations

FILES: dict[str, str] = {
    "not_visible": "{path!r}: not in a visible folder ({folders:, }), see `muster files roots`",
    "nothing_visible": "{path!r}: no folder is visible; an admin can name some in `visible_folders` of conf.json",
    "link_leads_out": "{path}: a link leads out of the visible folders",
    "not_yours": "{path}: not yours; whose folder it is, `files` of conf.json says",
    "holds_others": (
        "{path}: folders of others may lie there (`files` of conf.json), so only admins move, delete or replace it"
    ),
    "visible_folder_missing": "the visible folder {path} is missing: make it in {root}",
    "path_with_nul": "{path}: a path cannot hold NUL",
    "path_from_slash": "{path}: paths begin with a visible folder and not with `/`, like data/run1",
    "path_not_utf8": "{path}: {said}",
    "path_with_dots": "{path}: `..` is not allowed; write the folder's path",
    "path_too_long": "{path}…: longer than file systems take ({most} bytes a name)",
    "disk_full": "{path}: the disk is full (or a quota is used up); delete what is not needed there",
    "no_permission": "{path}: the account {user} may not do this there; see `ls -ld` on the master's machine",
    "no_account_here": "files and logs are {account}'s to touch here, with that account's own rights: {said}",
    "helper_failed": (
        "nothing on the master's machine could be started with the rights of {account}: {said}; try again, then ask "
        "an admin"
    ),
    "helper_ended": "what works with the rights of {account} has ended ({said}); look whether it is done, or ask again",
    "helper_silent": (
        "what works with the rights of {account} on the master's machine has not answered for "
        "{seconds:number} s: did the "
        "account stop it? It ends with `pkill -KILL -u {account} -f master.helpers` there"
    ),
    "helper_no_agent": (
        "files and logs are touched with the rights of {account}, by the agent of root's on the master's machine, "
        "which is not connected now: see `muster nodes`"
    ),
    "helpers_busy": "files of {most} people are worked on at once, which is the limit; try again",
    "storage_fails": "{path}: {said}; look at the storage (`df`, `dmesg`) on the master's machine",
    "too_many_entries": "{path} has more than {most:,} entries; none is listed",
    "write_in_pieces": "{path}: {bytes:,} bytes at once; beyond {most:,} upload it in pieces",
    "no_file": "{path}: there is no such file",
    "copied_not_deleted": (
        "{path} is copied to {to} and not deleted: {odd} is neither file, folder nor link, and does not go to "
        "another file system"
    ),
    "into_itself": "{path} cannot go into itself ({to})",
    "is_visible_folder": "{path} is a visible folder itself; conf.json decides about those",
    "not_a_folder": "{path} is not a folder",
    "log_unreadable": "the log {path} cannot be read: {said}",
    "log_not_visible": (
        "the log {path} lies neither in the log folder nor in a visible folder (`muster files roots`): read it on a "
        "machine that has it"
    ),
    "log_of_others": (
        "{path} leads into the log folder, where others' logs lie, too: of these you are shown {name} only; place the "
        "task's log elsewhere (--log), or not at all"
    ),
    "log_pattern_wrong": (
        "the pattern {pattern!r} is no regular expression: {said}; without `regex` it is found as it stands"
    ),
    "log_pattern_lines": "what is searched for stands in one line: no line ends",
    "log_pattern_slow": (
        "the pattern takes more than {seconds:number} s for the part of the log from byte {offset} "
        "on: make it simpler, or "
        "search for it as it stands, without `regex`"
    ),
    "log_pattern_dear": "the pattern takes too much memory or time: make it simpler, or search for it as it stands",
    "log_searches_own": "{most} searches of yours go on or wait already: let one end first",
    "log_searches_busy": (
        "no turn to search came within {seconds:number} s: others search logs, and of each user "
        "one search goes on at a time"
    ),
    "log_no_file": "the log {path} is not a regular file",
    "replaces_no_folder": "{path} is no folder, so no folder can take its place; delete it first",
    "replaces_not_empty": "{path} is not empty, so nothing can take its place; delete it first",
    "file_operations": "{where}: {most} file operations at once are the limit; try again",
    "storage_slow": "{where}: the storage has not answered for {seconds:number} s; what was asked for may still happen",
    "storage_hangs": (
        "{where}: the storage does not answer ({count} calls hang); see `mount` and `dmesg` on the master's machine"
    ),
    "neither_file_nor_folder": "{path} is neither a file nor a folder",
    "copy_in_parts": "{path} has more than {most:,} entries; copy it in parts",
    "copy_too_deep": "{path}… lies more than {most} folders deep; copy it in parts",
    "delete_too_deep": "{path}… lies more than {most} folders deep; delete it in parts",
    "is_folder": "{path} is a folder",
    "no_regular_file": "{path} is no regular file (a device, a pipe or a socket)",
    "upload_too_large": "{path}: {bytes:,} bytes; limits.upload_bytes allows {most:,} ({most:whole size})",
    "upload_does_not_fit": (
        "{path}: {bytes:,} bytes do not fit: the disk has {left:,} left; delete what is not needed there"
    ),
    "piece_too_large": "a piece has at most {most:,} bytes, not {bytes:,}",
    "uploads_unfinished": (
        "{most:,} of your uploads are unfinished: finish or cancel some, or wait; one that nobody works on is removed "
        "after {hours} hours"
    ),
    "upload_beyond": "{path}: beyond limits.upload_bytes ({most:,})",
    "upload_gap": "{path}: {here:,} bytes are here and the piece begins at {begin:,}",
    "upload_incomplete": "{path}: {here:,} bytes are here, not {bytes:,}; send what is missing",
    "no_upload_id": "{upload!r} is not the id of an upload (16 hexadecimal digits)",
    "upload_over": "{path}: this upload is over (done, given up, or left alone for a day); begin again",
    "not_there": "{path}: there is no such file or folder",
    "part_no_folder": "{path}: a part of this path is not a folder",
    "is_there": "{path} exists already; choose another name, or replace it (-f, `overwrite`)",
    "not_empty": "{path} is not empty; -r (`recursive`) deletes it with all that is in it",
    "links_in_circle": "{path}: its links lead round in a circle, or it was replaced by a link just now",
    "name_too_long": "{path}: the name is too long",
    "not_taken": "{path}: the file system does not take this (a folder into itself?)",
    "in_use": "{path} is in use by the system (a mount point?)",
    "program_runs": "{path} is a program that runs just now",
    "too_large_for_disk": "{path}: the file system takes no file of this size",
    "no_more_entries": "{path}: the file system takes no more entries in this folder",
    "system_said": "{path}: {said}",
    # Files that must stay in their place.
    "needed": "{path} can be neither deleted nor moved: {why}",
    "holds_logs": "the logs of tasks lie there (`train_log_path` of conf.json)",
    "holds_environments": "the environments lie there (`conda` of conf.json)",
    "holds_queues": "the queues lie there (`task_info` of conf.json)",
    "holds_own_files": "the master's own files lie there",
    "visible_itself": "it is a visible folder itself",
    "holds_task": "it is, or holds, the folder of task {id}, which is {state}",
    "holds_task_env": "it is, or holds, the environment of task {id}, which is {state}",
    "holds_task_log": "it is, or holds, the folder of the log of task {id}, which is {state}",
}
