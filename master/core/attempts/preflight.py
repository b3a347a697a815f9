"""The files and programs that have to exist when a task starts, read from its request, and the messages about those
that do not. Pure.

Only what is certain is read: a word is taken for a file where nothing else could be meant by it. The caller decides
where to look, and with whose rights. A finding decides nothing: a folder may be made before the task starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Literal, NamedTuple

from master.core.attempts.activation import is_env_name
from master.core.nodes.inventory import Inventory, obstacle
from master.core.tasks.request import request_of
from master.core.tasks.task import After, Task
from wire.message import Message, names
from wire.pattern import Pattern

MOST = 32
"""So many files are looked at for one submit, however many tasks it files."""
TOLD = 4
"""So many names of nodes, or ranges of them, stand before one reason."""
HEAD = 256
"""So many bytes of a program are read: as many as the kernel reads of its first line."""
OWN_ID = "{id}"
"""Stands for the id of the task in the path of its log."""
Kind = Literal["folder", "env", "file", "program", "line", "word", "beside", "log"]


class Want(NamedTuple):
    """A thing that has to be there. `name`: as it was said; `paths`: where, any of these will do, as absolute paths.
    A `file` is read, a `program` executed; a `log` may be missing; a `word` is looked for as a shell does. A `line` is
    one word with blanks where a program should be. `beside` is a name for which PATH is searched: the first path is a
    file of that name in the task's own folder, the others are where an environment would have such a program."""

    kind: Kind
    name: str
    paths: tuple[str, ...] = ()


class Lack(StrEnum):
    """The fault of something that a task needs."""

    ABSENT = "absent"
    NO_FOLDER = "no_folder"
    IS_FOLDER = "is_folder"
    NOT_EXECUTABLE = "not_executable"
    NO_INTERPRETER = "no_interpreter"
    LINE_END = "line_end"
    BESIDE = "beside"


class Finding(NamedTuple):
    """A fault of something that a task needs; `detail`: the interpreter that is missing."""

    want: Want
    lack: Lack
    detail: str = ""


_INTERPRETERS = {
    Pattern(r"python([0-9](\.[0-9]+)?)?"): Pattern(r"-[bBdEhiIOPqsSuvVx]+"),
    Pattern(r"(ba|da|z|k)?sh"): Pattern(r"-[aefhkmnuvxBCHP]+|--(login|posix|norc|noprofile)"),
    Pattern(r"perl|ruby|Rscript|julia|node|lua"): Pattern(r"(?!)"),
}
"""The programs that read a file named after them, and their options that have no value of their own."""
_PLAIN = Pattern(r"[\w@%+,./:=\- \t]*")
"""Bash reads these as they stand."""
_ASSIGNS = Pattern(r"\w+=.*")
_STANDS = Pattern(r"\{\w+\}|%[0-9]*[AajJ]")
"""Perhaps meant to stand for a number of the task, here or in Slurm."""


def wants_of(task: Task, commands: Iterable[list[str] | str], *, root: str, conda: str, on_node: bool) -> list[Want]:
    """Return what a task needs, with each of these commands in place of its own. `root`: of the lab, which is there;
    `conda`: the shared prefix; `on_node`: whether one node is meant, so that its own programs matter."""
    cwd = task.cwd
    found = [] if cwd == root.rstrip("/") else [Want("folder", cwd, (cwd,))]
    found += _environment(task.env, conda)
    if task.log_path and OWN_ID not in task.log_path:
        found.append(Want("log", task.log_path, (task.log_path,)))
    if task.setup:
        return found  # it may make what is missing, and go elsewhere
    files: dict[Want, None] = {}
    beside: dict[Want, None] = {}
    for command in commands:
        files.update(dict.fromkeys(_files(command, cwd, words=on_node and not task.env)))
        beside.update(dict.fromkeys(_beside(command, task, conda)))
        if max(len(files), len(beside)) >= MOST:
            break
    return [*found, *list(files)[:MOST], *list(beside)[:MOST]]


def _environment(env: str, conda: str) -> list[Want]:
    if env.startswith("/"):
        return [Want("env", env, (f"{env}/bin/activate", f"{env}/conda-meta"))]
    if not is_env_name(env):
        return []
    return [Want("env", env, (f"{conda}/envs/{env}", *([f"{conda}/bin/activate"] if env == "base" else ())))]


def _beside(command: list[str] | str, task: Task, conda: str) -> Iterator[Want]:
    """A program without a path that may be a file in the task's own folder. Of a text only a name with a suffix is
    looked at: another one may be one of bash's own."""
    said = _plain_words(command) if isinstance(command, str) else command
    name = said[0] if said else ""
    if not name or "/" in name or "{" in name or " " in name or (isinstance(command, str) and "." not in name[1:-1]):
        return
    if task.env.startswith("/"):
        programs = [f"{task.env}/bin"]
    else:
        programs = [f"{conda}/bin" if task.env == "base" else f"{conda}/envs/{task.env}/bin"] if task.env else []
    if task.cwd.startswith("/"):
        yield Want("beside", name, (f"{task.cwd}/{name}", *(f"{folder}/{name}" for folder in programs)))


def _files(command: list[str] | str, cwd: str, *, words: bool) -> Iterator[Want]:
    said = _plain_words(command) if isinstance(command, str) else command
    if not said or "{" in said[0]:
        return
    program, *rest = said
    if "/" in program:
        yield from _file("line" if not rest and is_line(command) else "program", program, cwd)
    elif words and not isinstance(command, str):  # else it may be one of bash's own
        yield Want("word", program)
    name = program.rpartition("/")[2]
    flags = next((flags for names, flags in _INTERPRETERS.items() if names.fullmatch(name)), None)
    if flags is None:
        return
    script = next((word for word in rest if not flags.fullmatch(word)), "-")
    if not script.startswith("-") and "{" not in script:
        yield from _file("file", script, cwd)


def _file(kind: Kind, name: str, cwd: str) -> Iterator[Want]:
    """Where it leads up again, a link may lead elsewhere: nothing is said of that."""
    place = name if name.startswith("/") else f"{cwd}/{name.removeprefix('./')}"
    if place.startswith("/") and "/../" not in f"{place}/":
        yield Want(kind, name, (place,))


def is_line(command: list[str] | str) -> bool:
    """Is it one word with blanks, which is hardly the name of a program?"""
    return not isinstance(command, str) and len(command) == 1 and " " in command[0].strip()


def _plain_words(text: str) -> list[str]:
    """The words of a text for bash that is one plain command; none where bash would read more into it."""
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) != 1 or not _PLAIN.fullmatch(lines[0]):
        return []
    words = lines[0].split()
    return [] if _ASSIGNS.fullmatch(words[0]) or words[0] == "." else words


def interpreter_of(head: bytes) -> str | None:
    """Return the program that the first line of a program names to run it, with what ends the line; None where it names
    none."""
    if not head.startswith(b"#!"):
        return None
    line, end, _ = head[2:].partition(b"\n")
    words = line.decode("utf-8", "replace").strip(" \t").split(" ")
    return words[0] if end and words[0].startswith("/") else None


# -- what needs no disk ---------------------------------------------------------------------------------------


Awaited = Callable[[After], Iterable[Task]]


def known_faults(task: Task, commands: Iterable[list[str] | str], awaited: Awaited) -> Iterator[Message]:
    """Yield the faults that follow from the request and from the queue alone. `awaited`: the tasks of a predecessor
    that have not ended, of which it may be told for whom they wait."""
    for command in commands:
        if isinstance(command, str) and "\r\n" in command:
            yield Message("text_with_line_ends")
            break
    stands = _STANDS.search(task.log_path.replace(OWN_ID, ""))
    if stands is not None:
        yield Message("log_as_it_stands", said=stands[0], meant=OWN_ID)
    lines = (command[0] for command in commands if is_line(command) and "/" not in command[0])
    line = next(lines, None)  # PATH is searched for it, where no program has blanks in its name
    if line is not None:
        yield one_word(line)
    for after in task.after:
        doomed = _doomed(after, awaited) if after.on == "ok" else None
        if doomed is not None:
            yield Message("predecessor_is_doomed", id=after.id, other=doomed)


def _doomed(after: After, awaited: Awaited) -> int | None:
    """The task because of which this predecessor will not end well: itself, or one that it waits for."""
    pending = list(awaited(after))
    seen = {task.id for task in pending}
    for task in pending:
        if task.cancel_requested:
            return task.id
        behind = (before for before in task.waits_for if before.on == "ok")
        fresh = {one.id: one for before in behind for one in awaited(before) if one.id not in seen}
        seen.update(fresh)
        pending += fresh.values()
    return None


def unknown_memory(task: Task, inventory: Inventory) -> Message | None:
    """That of no node which could take it anybody knows a GPU with so much memory. None where no node ever could: that
    is refused."""
    mib = task.gpu_memory_mib
    if mib is None:
        return None
    request = request_of(task)
    able = [node for node in inventory.nodes.values() if obstacle(node, request) is None]
    for node in able:
        known = (node.gpu_memory_mib(gpu) for gpu in range(len(node.spec.gpu_models)))
        if any(has is not None and has >= mib for has in known):
            return None
    return Message("gpu_memory_unknown", mib=mib) if able else None


def closed_to_owner(task: Task, inventory: Inventory) -> Message | None:
    """Return why no node takes this owner's task, though there are nodes with room for it; None if enough of them do.
    A task that is submitted all the same would wait until an admin changes something."""
    request = request_of(task)
    able = [node for node in inventory.nodes.values() if obstacle(node, request) is None]
    closed: dict[Message, list[str]] = {}
    for node in able:
        why = node.why_closed_to(task.owner, by_admin=task.by_admin)
        if why is not None:
            closed.setdefault(why, []).append(node.name)
    if len(able) - sum(map(len, closed.values())) >= request.nodes:
        return None
    reasons = tuple(Message("closed_nodes", nodes=names(nodes, TOLD), why=why) for why, nodes in closed.items())
    return Message("closed_to_owner", reasons=reasons) if reasons else None


# -- the words ------------------------------------------------------------------------------------------------


def told_of_all(finding: Finding, count: int) -> Message:
    """Return the message about a fault where each of the `count` nodes that could run the task was asked."""
    want, lack, _ = finding
    if want.kind == "env":
        return Message("env_nowhere", env=want.name, count=count)
    if lack is Lack.ABSENT:
        return Message("folder_nowhere", path=want.paths[0], count=count)
    return told(finding)


_MOST_SHOWN = 60


def one_word(word: str) -> Message:
    """A whole command that is one word, of which the beginning is shown."""
    return Message("command_is_one_word", word=word if len(word) <= _MOST_SHOWN else f"{word[:_MOST_SHOWN]}…")


def once_each(findings: Sequence[Finding]) -> list[Finding]:
    """Without the programs that were not found because they are files in the folder, which is told."""
    beside = {finding.want.name for finding in findings if finding.lack is Lack.BESIDE}
    return [one for one in findings if one.want.kind != "word" or one.want.name not in beside]


_READERS = {".py": "python3", ".pl": "perl", ".rb": "ruby", ".R": "Rscript", ".jl": "julia", ".js": "node"}
"""The programs that run the files whose names end so."""


def told(finding: Finding, node: str = "") -> Message:
    """Return the message about a fault, with what to do. `node`: where it was looked for, "" where that is all of
    them."""
    want, lack, detail = finding
    if want.kind == "env":
        return Message("env_absent", env=want.name)
    if want.kind == "word":
        return Message("program_unknown", name=want.name, node=node)
    path = want.paths[0]
    match lack:
        case Lack.BESIDE:
            reader = next((reader for suffix, reader in _READERS.items() if want.name.endswith(suffix)), None)
            if reader is not None:
                return Message("script_is_beside", name=want.name, reader=reader)
            return Message("program_is_beside", name=want.name)
        case Lack.ABSENT if want.kind == "line":
            return one_word(want.name)
        case Lack.ABSENT if want.kind == "folder":
            return Message("folder_absent", path=path)
        case Lack.ABSENT:
            return Message("file_absent", path=path)
        case Lack.NO_FOLDER:
            return Message("no_folder", path=path)
        case Lack.IS_FOLDER if want.kind == "log":
            return Message("log_is_folder", path=path)
        case Lack.IS_FOLDER:
            return Message("file_is_folder", path=path)
        case Lack.NOT_EXECUTABLE:
            return Message("file_not_executable", path=path)
        case Lack.NO_INTERPRETER:
            return Message("interpreter_absent", path=path, interpreter=detail)
        case Lack.LINE_END:
            return Message("interpreter_with_line_end", path=path)
