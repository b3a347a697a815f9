"""Log-ins, users, tokens and rights, and what is wrong with a request about them."""

from __future__ import annotations

_ANOTHER_ACCOUNT = (
    'Let its tasks run as another account (in the registry `"driver": "ssh", "ip": "127.0.0.1", "user_name": OTHER`), '
    "or as their owners (an agent that is root, docs/run-as.md)"
)
_LOG_IN = "Use `muster login` with a password, or with a link from an admin (`muster users link NAME`)"
PEOPLE: dict[str, str] = {
    "log_in_first": "nobody knows who you are: `muster login` with a password, or give a token (MUSTER_TOKEN, --token)",
    "account_not_added": "your Unix account {account} is not a user here. Ask an admin (`muster users add {account}`), "
    "or use `muster login`",
    "account_could_be_anybody": "your Unix account {account} is in the group {group}, whose members can become any "
    f"account of this machine. {_LOG_IN}",
    "account_of_the_system": "your Unix account {account} has a uid below {first}, as the system's accounts have. "
    f"{_LOG_IN}",
    "account_of_tasks": f"tasks of others run as your Unix account {{account}}. {_LOG_IN}",
    "own_account_node": (
        "tasks there run as {account}, the account of the master itself, which commands the queue. Since a second user "
        f"was added, the node takes only admins' tasks. {_ANOTHER_ACCOUNT}. If all other users have left, "
        "`muster node resume NAME --own-account` opens it again"
    ),
    "own_account_closed": "tasks of {users} do not run on {nodes:subject}: tasks there run as {account}, the account "
    f"of the master itself, so only admins' tasks may. {_ANOTHER_ACCOUNT}",
    "closed_to_owner": "the task would wait, for no node with room for it takes it: {reasons:; }",
    "closed_nodes": "{nodes:subject}: {why}",
    "own_account_not_closed": "node {node} is not closed to other users' tasks: there is nothing to open",
    "own_account_not_online": "node {node} is not online, so the account of its tasks is not known. Try again when it "
    "is online (`muster node show {node}`)",
    "own_account_alone": "own_account: leave out `gpus`; another call returns GPUs",
    "own_account_users": "node {node} stays closed to other users' tasks, which would run as the master's own account: "
    "{names:, } may log in and {names:is|are} not admin. Disable them first (`muster users disable NAME`)",
    "needs_word_of_admin": "tasks there run as the master's own account, so all that runs there must come from an "
    "admin with the scope `admin`. This task, or a part of it, came with a token without that scope, from the desktop "
    "client, or from an earlier version. Submit it again after `muster login`, or name another node",
    "needs_word_of_admin_as_root": "on node {node} the tasks of {owner} run as root, so all that runs there must come "
    "from an admin with the scope `admin`. This task, or a part of it, came with a token without that scope, from the "
    "desktop client, or from an earlier version. Submit it again after `muster login`, or name another node",
    "own_account_is_admins": "{name} is the account that runs the master, which is an admin: add this user with "
    "--admin, or choose another name",
    "desktop_name_is_admins": "{key} names {name}, an admin. Desktop clients give no password, so none may use "
    "that name. Name a user there who is not an admin (conf.json), and restart the master",
    "admin_is_desktop_name": "desktop clients connect as {name} without a password ({key} in conf.json), so {name} "
    "cannot be an admin. Name another user there, restart the master, and try again",
    "claim_from_desktop_name": "desktop clients connect as {name} without a password ({key} in conf.json), so the "
    "tasks of {name} cannot become those of {to}, an admin. Claim them for a user who is not an admin",
    "owner_disabled": "its owner {name} was disabled by {by}: it waits again once {name} is enabled",
    "owner_expired": "its owner {name} expired at {at:moment}: it waits again once {name} has a later end "
    "(`muster users edit {name} expires=TIME`, or `expires=never`)",
    "said_by_other": "would run as {owner}, and {by} said what it does",
    "clock_behind": "the master's clock shows {now:moment}, but the master has seen {latest:moment}: log-ins, tokens, "
    "links and users end by the later time. Set the clock; if it is right, run `muster clock accept` on the master's "
    "machine, as the account that runs the master or as root",
    "clock_leapt": "the master's clock went from {since:moment} to {until:moment} at once, and with that {tokens} "
    "log-ins, tokens and links and {users} users ended. If the clock is wrong, set it, then run `muster clock accept` "
    "on the master's machine: the users and their waiting tasks come back, no log-in, token or link does. If it is "
    "right, the same command ends this message",
    "clock_for_owner": "only the account that runs the master, or root, on the master's machine can accept its clock",
    "ahead_for_admins": "{what} would put it before the tasks of others: only an admin can do that (you may lower its "
    "priority, and reorder what is yours)",
    "ahead_for_mentors": "{what} would put it before the tasks of others: only an admin can do that, or who looks "
    "after {owner}'s group: {mentors} (you may lower its priority, and reorder what is yours)",
    "priority_said": "priority {priority}",
    "urgent_said": "`urgent`",
    "start_said": "`start`",
    "place_said": "place {position}, before task {id},",
    "server_log_for_admins": "the master's own log is for admins: it tells of everybody",
    "edit_of_another": "of a task of {owner}'s a mentor may change {allowed:, }; {keys:, } {keys:is|are} for {owner} "
    "and for admins",
    "edit_would_run_as": "task {id} runs as {owner}: what it does there ({keys:, }) is for {owner} alone to change",
    "edit_would_submit_as": "task {id} would submit others in {owner}'s name (`token`): what it does ({keys:, }) is "
    "for {owner} alone to change",
    "token_for_more": "only a caller who may read and submit can give a task a token to submit others: you may only "
    "{scopes: and }",
    "task_token_over": "this token is not valid any more: the attempt that it was made for is over, or is to end, or "
    "its owner may not log in",
    "said_by_another": "task {id} would run as {owner}, and what it does was said by {by}: only {owner} can queue it "
    "again",
    "would_run_as": (
        "task {id} would run as {owner}, who did not choose its command: give it to {owner} when it is finished"
    ),
    "root_needs_a_name": "root submits in a user's name, because everybody who may use sudo is root: `--as NAME` "
    "(`muster users list`); the account that runs the master needs none",
    "name_for_root": "in another's name only root on the master's machine submits, and only where the master runs as "
    "another account: leave `as` out",
    "owner_for_admins": "only admins can change the owner of a task",
    "no_user": "there is no user {name!r}; `muster users list` lists all",
    "no_group": "there is no group {name!r}; `muster groups list` lists all",
    "name_of_former": "{count} tasks of a {name} who is no user any more are kept, and would be this one's, with their "
    "variables and logs: if it is the same person, say so (`muster users add {name} --again`), else choose another "
    "name",
    "user_is_there": "there is a user {name!r} already: change it with `muster users edit {name}`",
    "group_is_there": "there is a group {name!r} already: change it with `muster groups edit {name}`",
    "bad_user_name": (
        "{name!r} cannot be a name here: 1 to 32 small letters, digits, `_` and `-`, the first a letter or `_` (any "
        "other name, 王伟 say, may stand in --display)"
    ),
    "user_has_tasks": "{name} still has {count} {count:task|tasks} that are not over, {id} among them: cancel them "
    "first (`muster queue --user {name}`), or disable the user: `muster users disable {name}`",
    "claim_of_somebody": "{name} is a user who was added and can log in: only tasks of owners from before there were "
    "users can be claimed",
    "not_known_any_more": "your token or log-in is not valid any more: the connection is closed",
    "log_in_in_time": "no log-in within {seconds:.0f} s: the connection is closed",
    "wrong_password": "no user of this name has this password",
    "no_such_token": "this token is not valid: it was revoked, it has expired, or its user was disabled or removed. "
    "Log in (`muster login`), or ask an admin for another token",
    "user_disabled": "user {name} is disabled and cannot log in. Ask an admin (`muster users enable {name}`)",
    "user_expired": "user {name} expired at {at:moment} and cannot log in. Ask an admin "
    "(`muster users edit {name} expires=TIME`)",
    "relay_for_console": "only the console (`muster web`) calls for somebody else",
    "no_address": "{said!r} is no address of a machine",
    "session_of_token": "a browser's log-in is made of a token that somebody made to be kept, and shown to the console",
    "no_such_link": "this link is not valid: it was used, has expired, was replaced, or its user was disabled or "
    "removed. Ask an admin for another",
    "nothing_to_log_out_of": "you are connected without a log-in: there is nothing to end",
    "bad_user_change": (
        "{said}: what can be changed of a user is role, display, mail, language, expires_at, max_total_gpus, "
        "max_manual_gpus, max_gpus_per_task and max_running"
    ),
    "bad_project_name": (
        "{name!r} is no name of a project: it has no blanks around it, and nothing that cannot be printed"
    ),
    "project_of_group": (
        "project {project} belongs to group {group}, and {owner} does not: take another project, or let an admin add "
        "{owner} (`muster groups edit {group} --add {owner}`)"
    ),
    "password_of_another": "only {name} and admins can set the password of {name}",
    "password_needed": "say a new password: only an admin can take it away",
    "tokens_of_another": "only {name} and admins can use the tokens of {name}",
    "token_makes_no_token": "a token that is confined, or ends, makes no others: `muster login` first",
    "token_sets_no_password": "a token that is confined, or ends, sets no password: `muster login` first",
    "password_set_meanwhile": "somebody else changed the password of {name} meanwhile: this one was not set",
    "queued_by_owner": "task {id} is {owner}'s: while it does not wait, to change it would be to queue it again, which "
    "is for {owner} and for admins",
    "wall_stands_alone": (
        "the scope wall goes with no other: people who pass a screen see less than users. Make a token for each"
    ),
    "token_would_be_over": "a token that has ended already would open nothing: choose a later expires_at",
    "user_is_disabled": "user {name} may not log in: `muster users enable {name}` first",
    "no_token_id": "there is no token {id!r}; `muster tokens list` lists yours",
    "whose_tokens": "{name} is no user that was added: say whose tokens, or `muster users add {name}` first",
    "too_many_tokens": "{name} has {most} tokens, which is all one may have: revoke some (`muster tokens list`)",
    "password_too_short": (
        "a password has at least {least} characters; three or four words that do not belong together are easily kept"
    ),
    "password_too_long": "a password has at most {most} bytes",
    "password_of_name": "this password is made of the name {name}, which is tried first: take another",
    "password_easily_guessed": (
        "this password is made of words, years or rows of keys that are tried first: take another, such as three or "
        "four words that do not belong together"
    ),
    "log_ins_busy": "too many are logging in at this moment: try again in {seconds} s",
    "log_ins_failed": "too many log-ins failed: try again in {seconds} s",
    "directory_silent": (
        "the lab's directory does not answer as it should, so no password can be checked there: try again later; the "
        "master's log says why"
    ),
}
