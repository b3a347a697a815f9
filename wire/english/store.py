"""Faults of the queue on disk, and the reasons why nothing can be written there."""

from __future__ import annotations

_SKIP = (
    "start once with `muster up --skip-damaged` (or `python -m master --skip-damaged`): every record that can be read "
    "is used, the file is kept beside, and tasks that may have been started in what is lost are held for you to look at"
)
_UNCHANGED = (
    "Nothing was changed. Repair the file or put it back from a backup, together with the other files of {folder} from "
    "the same moment; to start empty, move the whole folder away and say `muster up --skip-damaged`"
)
STORE: dict[str, str] = {
    # A queue file or state.json, and what is wrong with it.
    "queue_file_wrong": f"{{path}}: {{fault}}. {_UNCHANGED}",
    "queue_line_wrong": f"{{path}}, line {{line}}: {{fault}}. {_UNCHANGED}",
    "state_not_ours": "it is not what we wrote ({detail})",
    "queue_no_json_list": "it is not a JSON list ({detail})",
    "queue_file_empty": "the file is empty; an empty queue is []",
    "queue_no_task_list": "it is not a list of tasks ({detail})",
    "queue_entry_wrong": "entry {number} is not a task ({detail})",
    "queue_file_missing": "it is missing, and {known} says that it was there",
    "state_missing_records": "it is missing, and {journal} holds records",
    "state_missing_tasks": "it is missing, and {name} holds tasks of ours",
    "tasks_without_state": "it holds tasks of Muster's, and there is no {state} beside it",
    "record_of_other_version": "the record is not of this version ({detail})",
    "hold_list_wrong": "it does not say which tasks are to be held ({detail})",
    "folder_of_later_version": (
        "{path}: a later version of Muster wrote this folder (format {number}; this one knows {known}). Nothing was "
        "changed. Start that version, or go back to what it kept in before-{number}, as docs/moving-over.md tells"
    ),
    # An entry of the old system.
    "old_id_twice": (
        "`task_id` {id} belongs to an earlier entry too, and they are not the same task; give one of them another "
        "id, such as {free}"
    ),
    "old_value_with_nul": "`{key}` holds a NUL character",
    "old_state_unknown": "`state` is {found!r}; the old system knew {known:, }",
    "old_id_no_number": "`{key}` is {found!r}, not a number of 14 digits",
    "old_gpus_no_count": "`need_gpus` is {found!r}, not a count",
    # The journal.
    "journal_line_wrong": f"{{path}}, line {{line}}: {{fault}}. Put the file back from a backup; or {_SKIP}",
    "record_out_of_order": "record {record} follows record {before}",
    "records_elsewhere": "it holds the records {first} to {last}, the other files know {known}",
    "record_damaged": "the record is damaged, and record {after} after it is good",
    "journal_missing": (
        f"{{path}}: it is missing, and {{known}} says that it was there. Put it back from a backup; or {_SKIP}"
    ),
    "journal_without_records": (
        "{path}: it holds no record, and {known} says that record {record} was in it. Put it back from a backup; or "
        f"{_SKIP}"
    ),
    "queue_beyond_journal": (
        "{path}: it knows record {newest}, but {journal} ends with {last}. Put the files of {folder} back from a "
        f"backup, all from the same moment; or {_SKIP}"
    ),
    "queue_gone": (
        "the queue that was in {folder} is gone ({witness} tells of it). Put its files back from a backup; or start "
        "once with `muster up --skip-damaged` (or `python -m master --skip-damaged`): with an empty queue, which the "
        "nodes obey, and what of the old one still runs there goes on until an admin adopts or ends it"
    ),
    # Queue files that were changed while no master ran.
    "queue_files_changed": (
        "files of the queue in {folder} were changed while no master ran. {files:; }. Nothing was done. If this is "
        "meant, start once with `muster up --accept-edits` (or `python -m master --accept-edits`); if it is not, put "
        "the files of {folder} back from a backup, all from the same moment"
    ),
    "queue_file_changed": "{name}: {changes:, }",
    "tasks_missing": "{count} {count:task is|tasks are} missing ({ids})",
    "tasks_new": "{count} {count:task is|tasks are} new ({ids})",
    "task_edited": "task {id} is not what it was (its command is now {command!r})",
    "more_tasks_changed": "{count} more are not what they were",
    "task_count_changed": (
        "it held {before} tasks and holds {count} ({sums}, which would tell more, is not of its time)"
    ),
    "state_changed": "it is not what was written (drained nodes and answered requests stand there)",
    # Losses that a start found, told until somebody has seen them.
    "people_lost": (
        "{loss}. Users and groups may be missing, or be as they were before: look with `muster users list`, and add "
        "missing ones again. The queue counts as one with several users unless its witness says otherwise: users' "
        "tasks do not run as root or as the master's account. All tokens, log-ins and links have ended, because some "
        "may have been revoked. Attempts on nodes that belong to no known task keep running and keep their GPUs until "
        "an admin adopts or ends them: `muster node attempts NODE`"
    ),
    "ids_go_on": "{loss}; new ids begin at {first}",
    "queue_begun_anew": ("the queue that was in {folder} is gone ({witness} tells of it), and an empty one was begun"),
    "journal_lines_lost": "the journal was damaged: lines {lines} could not be read (kept in {kept})",
    "journal_lost": "the journal was damaged: what was in it could not be read (kept in {kept})",
    "journal_none_held": (
        "{loss}. Tasks of which nothing else tells are gone: look whether the newest are there. No other is in doubt"
    ),
    "journal_tasks_held": (
        "{loss}. Waiting tasks that may have been started in what is lost are held: {ids}. Look whether they run or "
        "ran, then `muster release {release}` or `muster rm {release}`"
    ),
    "journal_end_lost_by_ids": (
        "the journal lost its end: ids up to {given} had been given, and it knows of none after {highest}. Was it cut, "
        "or put back from a backup? Look whether the newest tasks are there"
    ),
    "journal_end_lost": (
        "the journal lost its end: record {written} had been written, and it ends with record {last}. Was it cut, or "
        "put back from a backup? Look whether the newest tasks are there"
    ),
    "torn_end_lost": (
        "{size} bytes at the end of {journal} could not be read and were cut off (kept in {kept}). A power cut does "
        "that to what nobody was answered for, a failing disk to more: look at its health, and whether the newest "
        "tasks are there. The last record that is known is {last}"
    ),
    "torn_unanswered": "{cut}. The master was killed while it wrote them: nobody had an answer for them",
    "folder_older": (
        "{folder} is older than what was written there: it knows no record after {last}, and record {written} had been "
        "written ({witness}). It was put back from a backup, or its files were cut. All tokens, log-ins and links have "
        "ended, because some may have been revoked since"
    ),
    # Acts of a start in the folder, for the log.
    "torn_cut_off": "{size} bytes of unfinished records were cut off {journal} and kept in {kept}",
    "edits_taken": "{name} was changed while no master ran; it is taken as it lies: {changes:, }",
    "edits_known_better": (
        "{name} was changed while no master ran; it is taken as it lies: nothing in it that the journal does not know "
        "better"
    ),
    "ids_unknown": (
        "the machine went down under the master, and nobody knows which ids were given: new ids begin at {first}"
    ),
    "old_tasks_taken": "{count} {count:task|tasks} of the old system {count:was|were} taken over",
    "folder_brought_up": ("the folder is of format {number} now; what it was for earlier versions is kept in {kept}"),
    "state_unwritable": "state.json cannot be written, which a start without the journal needs: {detail}",
    "files_not_vouched": ("it cannot be noted what the queue files are, so that a change would be seen: {detail}"),
    # The folder and its disk, while a master works there.
    "folder_held": "another master (pid {pid}) works on {folder}: stop it, or use another task_info",
    "folder_held_by_unknown": "another master works on {folder}: stop it, or use another task_info",
    "folder_unusable": "cannot use {folder}: {detail}",
    "folder_moved": (
        "{folder} was moved or removed while the master runs: put it back, then it goes on. Until it ends `muster "
        "queue --all --json` shows what it knows"
    ),
    "journal_not_seen": "{path} cannot be looked after: {detail}",
    "journal_unwritable": "cannot write {path}: {detail}",
    "journal_not_cut": "cannot cut {path}: {detail}",
    "journal_not_replaced": "cannot replace {path}: {detail}",
    "journal_cut": "{path} was cut from {size} to {found} bytes while the master runs",
    "journal_emptied": "{path} was emptied and removed while the master runs",
    "journal_changed_in_compaction": "{fault}, in the midst of a compaction",
    "sync_failed": "fdatasync failed: {detail}",
    "folder_sync_failed": "fsync of the folder {folder} failed: {detail}",
    "disk_takes_nothing": "the disk takes no writes",
    "store_full": "the disk under {folder} is full; only what runs and ends is still recorded",
    "disk_takes_no_more": "the disk under {folder} takes nothing more: {detail}",
    "reserve_kept": "cannot remove {path}: {detail}",
    "not_compacted": "cannot compact {folder}: {detail}",
    "compaction_defect": "a defect of Muster ({detail})",
    "history_unwritable": "cannot write the history in {folder}: {detail}",
    "ids_with_witness": "{path} cannot be written: {detail}; {witness} stands in for it",
    "ids_without_witness": (
        "{path} cannot be written: {detail}, nor can {witness}: a kill of the master may end all tokens, log-ins and "
        "links"
    ),
}
