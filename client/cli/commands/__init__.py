"""The commands: which there are, one module each (a package where a command is a family).

A command has EXAMPLES, `arguments(parser)` and `run(context)`; `parse(parser, argv)` where the parser alone does not
know enough. The table is written by hand: to make it from the modules would load them all.
"""

from __future__ import annotations

GROUPS: dict[str, dict[str, str]] = {
    "Master": {
        "init": "write a conf.json and a registry that work on this machine",
        "up": "start the master",
        "down": "stop the master; tasks run on",
        "status": "the whole at a glance",
        "clock": "the master's clock: accept it, after it was wrong",
        "top": "the whole live: GPUs, who has them, the queue",
        "web": "run the console; `up` does where conf.json has `web`",
        "deploy": "write units, NFS, Samba and InfluxDB set-ups for this lab",
    },
    "Tasks": {
        "submit": "queue a command and print its id",
        "run": "queue a command, show its output, exit with its code",
        "queue": "the running and waiting tasks",
        "show": "everything about a task",
        "diff": "the differences of two tasks",
        "why": "why a task waits, or ended as it did",
        "logs": "a task's output",
        "wait": "wait until tasks have ended",
        "cancel": "end tasks",
        "pause": "pause running tasks; they keep their GPUs",
        "resume": "continue paused tasks",
        "retry": "queue ended tasks again",
        "alloc": "GPUs held under a name, for tasks to run on one after the other",
        "rm": "delete tasks that are not alive",
    },
    "Order": {
        "edit": "change what a task asks for",
        "move": "put a task at a place in the queue",
        "hold": "keep tasks from starting",
        "release": "let held tasks wait again",
        "start": "start a task whatever its priority",
    },
    "Machines": {
        "nodes": "the machines and their GPUs",
        "node": "one machine: show it, change the registry, set it aside, trust its key",
        "agents": "stop, start or restart the helpers on the machines; tasks run on",
        "shell": "a shell on a machine",
    },
    "Settings": {
        "set": "what holds for the scheduler and its limits, and how to change it while the master runs",
        "conf": "conf.json and the registry from afar: show, edit, put an earlier version back",
    },
    "Files": {"files": "look at, fetch, send and order files in the visible folders"},
    "Environments": {"env": "Python environments: which there are, and what they hold"},
    "People": {
        "login": "log in with a name and a password; from then on this PC finds the master",
        "logout": "end that log-in",
        "whoami": "who you are, and what you may do",
        "users": "users, their roles and log-ins: list, add, edit, disable …",
        "groups": "groups of users, and their mentors",
        "projects": "to which groups projects belong, and what their tasks may have",
        "tokens": "tokens, with which programs log in: list, new, revoke",
        "audit": "who changed what, and who was refused",
    },
    "For programs": {
        "api": "ask the master for any verb; what it can be asked, by whom, and what it answers",
        "completion": "print a completion script for bash or zsh",
    },
}
COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}
