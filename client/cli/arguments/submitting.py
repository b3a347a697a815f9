"""Shared code of `submit` and `run`: the words after `--`, scripts and batches, and the folder to run in."""

from __future__ import annotations

import os
import sys

from client.cli.arguments import environment, fields, ids, unread
from client.here import here, within
from client.refusals import coded_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

    from client.cli.context import Context
    from client.shapes import Note
    from wire.message import Message

_LOOKED_AT = 200
"""So many lines of a batch are shown to whoever looks what is missing."""
_NOT_IN_SCRIPTS = (
    "strict_directives",
    "conf",
    "master",
    "token",
    "proxy",
    "ca_fingerprint",
    "script",
    "batch",
    "request_id",
    "as",
)
_LISTS = ("--exclude", "--licence", "--retry-on")
"""Options with lists that are wanted whole."""
FOR_TASKS = ("submit",)
"""Values of `--token` that ask for a token for the task. Any other value is the caller's own token."""


TOKEN = {
    "action": "append",
    "metavar": "submit|TOKEN",
    "help": "submit: the task gets a token of yours, to submit others with; else who you are (better: MUSTER_TOKEN, or "
    "`muster login`)",
}
"""The option, in the place of what every command has."""


def arguments(parser: argparse.ArgumentParser, *, batch: bool) -> None:
    """Add the options that both commands take."""
    parser.usage = f"{parser.prog} [options] -- CMD …\n       {parser.prog} [options] --script FILE"
    if batch:
        parser.usage += f"\n       {parser.prog} [options] --batch FILE"
        add_arrays(parser)
        parser.add_argument(
            "--batch", metavar="FILE", help="one bash line a task (`-`: stdin), `#` comments; all or none"
        )
    parser.add_argument(
        "--script",
        metavar="FILE",
        help="a bash script; `#MUSTER --gpus 2` lines at its head are options, or else #SBATCH lines",
    )
    parser.add_argument(
        "--strict-directives", action="store_true", help="refuse a script with #SBATCH lines that are not understood"
    )
    parser.add_argument(
        "--request-id", metavar="ID", help="submits with the same id are one submit, however often sent"
    )
    parser.add_argument(
        "--as", dest="as_user", metavar="NAME", help="in whose name (root on the master's machine only)"
    )
    parser.add_argument(
        "--strict", action="store_true", help="refuse what would fail at its start, in place of a note about it"
    )
    parser.add_argument(
        "--snapshot", action="store_true", help="run in a copy of this folder's code as it is now, not as it is then"
    )
    fields.add(parser)
    parser.set_defaults(token=None, task_token=None)


def add_arrays(parser: argparse.ArgumentParser) -> None:
    """The options by which one command becomes many tasks."""
    group = parser.add_argument_group("many tasks at once")
    group.add_argument(
        "--array",
        metavar="0-9[%2]",
        help="a task for each index: 0-9, 0-9:2, 1,5,7 (%%2: at most 2 run at once); {index} in the command is its own",
    )
    group.add_argument(
        "--sweep",
        type=fields.sweep,
        action="append",
        metavar="NAME=A,B",
        help="a task for each value, put for {NAME} into the command; of several names for all combinations",
    )
    group.add_argument("--cap", type=fields.whole, metavar="N", help="at most so many of them run at once")
    group.add_argument(
        "--max-fails", type=fields.whole, metavar="N", help="after so many failures those that still wait are held"
    )


def array_of(parser: argparse.ArgumentParser, options: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of the wire for an array or a sweep; none for a single task."""
    names = [name for name, _ in options.sweep or ()]
    if len(set(names)) != len(names):
        parser.error("--sweep: a name stands there twice; give all its values at once")
    said = {"array": options.array, "sweep": dict(options.sweep or ()) or None}
    said |= {"cap": options.cap, "max_fails": options.max_fails}
    found = {name: value for name, value in said.items() if value is not None}
    if "array" in found and "sweep" in found:
        parser.error("--array and --sweep: give one of them; --sweep numbers its tasks itself (MUSTER_ARRAY_INDEX)")
    if found and "array" not in found and "sweep" not in found:
        parser.error("--cap and --max-fails are for --array or --sweep: give one of these, too")
    return found


def parse(parser: argparse.ArgumentParser, argv: list[str]) -> argparse.Namespace:
    """Read the options before `--`, the command after it, and the directives of a script (the command line wins)."""
    words: list[str] | None = None
    if "--" in argv:
        at = argv.index("--")
        argv, words = argv[:at], argv[at + 1 :]
    options, stray = parser.parse_known_args(argv)
    if stray:
        _refuse_stray(parser, stray, argv)
    _tell_tokens_apart(options)
    _refuse_twice(parser, argv)
    sources = [options.script is not None, getattr(options, "batch", None) is not None, bool(words)]
    if sum(sources) != 1:
        parser.error(
            "give one of: a command after `--`, --script FILE" + (", --batch FILE" if hasattr(options, "batch") else "")
        )
    options.command, options.unheeded, options.of_slurm = words, "", ""
    options.converted = options.log_beside = False
    if options.script is None:
        return options
    text = read_text(options.script)
    if "\r\n" in text:
        text, converted = text.replace("\r\n", "\n"), True
    else:
        converted = False
    _refuse_other_languages(parser, text)
    directives, told = _directives(parser, text), ""
    if not directives and "#SBATCH" in text:
        directives, told = _of_slurm(parser, text, is_strict=options.strict_directives)
    if directives:
        options = parser.parse_args([*directives, *argv])
        _tell_tokens_apart(options)
    options.converted, options.of_slurm = converted, told
    # sbatch resolves a relative log path from the folder of the job.
    options.log_beside = (
        bool(told) and "--log" in directives and options.log == directives[directives.index("--log") + 1]
    )
    options.unheeded = "" if directives or told else unread.mark_of(text, unread.OTHERS)
    if options.unheeded and options.strict_directives:
        parser.error(
            f"the {options.unheeded} lines of the script are not understood; say `#MUSTER --gpus 2` (see --help)"
        )
    options.command = text
    options.name = options.name or (None if options.script == "-" else os.path.basename(options.script))
    return options


def _refuse_twice(parser: argparse.ArgumentParser, argv: list[str]) -> None:
    """Refuse two lists of one option on the command line: the last would count, and what the first says would be lost.
    A line of a script may say one more, which the command line replaces."""
    for option in _LISTS:
        places = [place for place, word in enumerate(argv) if word.partition("=")[0] == option]
        if len(places) > 1:
            said = [argv[place].partition("=")[2] or "".join(argv[place + 1 : place + 2]) for place in places]
            parser.error(f"{option} is given twice: write {option} {','.join(said)}")


def _tell_tokens_apart(options: argparse.Namespace) -> None:
    """`--token`: for the task where it is one of those words, and else one's own; the last of each counts."""
    said = options.token or []
    options.token = next((one for one in reversed(said) if one not in FOR_TASKS), None)
    options.task_token = next((one for one in reversed(said) if one in FOR_TASKS), None)


def complete_spec(context: Context) -> dict[str, Any]:
    """The fields of `task.submit` without the command: what was asked for, and where to run."""
    if context.options.unheeded:
        context.note(
            f"note: the {context.options.unheeded} lines of the script are not heeded; `#MUSTER --gpus 2` is how it is "
            "said here"
        )
    if context.options.of_slurm:
        context.note(f"note: {context.options.of_slurm}")
    if context.options.converted:
        context.note("note: the lines of the script end as on Windows (CR LF); it is queued with line ends as on Linux")
    spec = fields.spec(context.options)
    if spec.get("after"):
        spec["after"] = ids.of_after(context, spec["after"])
    if context.options.task_token is not None:
        spec["token"] = context.options.task_token
    if spec.get("env"):
        spec["env"] = environment.resolved(context, spec["env"])
    cwd = _folder(context, spec.pop("cwd", None))
    if cwd:
        spec["cwd"] = cwd
        if context.options.log_beside:
            spec["log"] = os.path.join(cwd, spec["log"])
    if context.options.snapshot:
        spec |= _snapshot(context, cwd)
    if context.options.request_id:
        spec["request_id"] = context.options.request_id
    if context.options.as_user:
        spec["as"] = context.options.as_user
    if context.options.strict:
        spec["strict"] = True
    return spec


def _snapshot(context: Context, cwd: str | None) -> dict[str, Any]:
    from client.snapshot import snapshot
    from client.text.snapshots import snapshot_line

    if cwd is None:
        raise coded_error("bad_request", "snapshot_unseen", folder=here()[0])
    taken = snapshot(cwd)
    context.note(f"snapshot: {snapshot_line(taken['snapshot'])}, in {taken['cwd']}")
    return {**taken}


def tell_faults(context: Context, spec: dict[str, Any], commands: list[list[str] | str]) -> list[Note]:
    """Warn now of faults that would keep the task from starting well, not after it has waited for an hour. The missing
    things may still be created, so a fault refuses nothing, and neither does a look-up that fails. With --strict the
    master refuses the submit itself."""
    if "strict" in spec:
        return []
    from wire.harmless import harmless

    context.client.session.connect()
    said = {"commands": commands[:_LOOKED_AT]} if len(commands) > 1 else {"command": commands[0]}
    try:
        notes = context.client.preflight(**said, **spec)
    except Exception as error:
        from wire.errors import MusterError

        if not isinstance(error, MusterError):
            raise
        notes = []  # a master from before this question, or a value that the submit itself is refused for
    folder = _where_typed(spec.get("cwd"))
    if folder is not None and not any(one["key"] in _OF_WORDS for one in notes):
        notes = [*_odd_word(commands[0], folder), *notes]
    for one in notes:
        context.note(f"note: {harmless(one['text'])}")
    if folder is not None and (told := unread.script_with_options(commands[0], folder)):
        context.note(f"note: {harmless(told)}")
    return notes


_MOST_SHOWN = 60
_OF_WORDS = ("command_is_one_word", "program_is_beside", "script_is_beside", "file_absent")


def _where_typed(cwd: str | None) -> str | None:
    """Return the task's folder if it is the one where the command is typed. Others are not looked into: the disk of one
    may hang, and with it the submit."""
    if cwd is None:
        return ""
    return cwd if cwd in here() else None


def _odd_word(command: list[str] | str, folder: str) -> list[Note]:
    """Of a command of one word that is hardly the name of a program, where the master did not see that: it may be
    older, or not see this folder."""
    if isinstance(command, str) or len(command) != 1:
        return []
    (word,) = command
    place = os.path.join(folder, word)
    if " " in word.strip() and not os.path.exists(place):
        shown = word if len(word) <= _MOST_SHOWN else f"{word[:_MOST_SHOWN]}…"
        from wire.message import Message

        return [_note(Message("command_is_one_word", word=shown))]
    if "/" in word or not os.path.isfile(place):
        return []
    from shutil import which

    if which(word) is not None:
        return []
    from wire.message import Message

    return [_note(Message("program_is_beside", name=word))]


def _note(message: Message) -> Note:
    return {"key": message.key, "args": message.plain_args(), "text": str(message)}


def batch_commands(path: str) -> list[str]:
    """The commands of a file with one on each line; a backslash at the end of a line goes on with the next one, as in a
    script. Raises BadRequestError."""
    commands: list[str] = []
    head, began = "", 0
    for number, raw in enumerate(read_text(path).splitlines(), 1):
        line = head + raw.strip()
        if not head and (not line or line.startswith("#")):
            continue
        began = began or number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            head = line[:-1]
            continue
        commands.append(line)
        head, began = "", 0
    if head:
        raise coded_error("bad_request", "batch_ends_within", path=path, line=began)
    return commands


def read_text(path: str) -> str:
    """A file of commands; `-` is stdin. Raises BadRequestError."""
    try:
        if path == "-":
            text = sys.stdin.buffer.read().decode()
        else:
            with open(path, "rb") as file:
                text = file.read().decode()
    except OSError as error:
        raise coded_error("bad_request", "commands_unreadable", path=path, detail=error.strerror) from None
    except UnicodeDecodeError as error:
        raise coded_error("bad_request", "commands_not_utf8", path=path, byte=error.start) from None
    if not text.strip():
        raise coded_error("bad_request", "no_commands", path=path)
    return text.removeprefix("\ufeff")


def _folder(context: Context, asked: str | None) -> str | None:
    if asked is not None:
        environment.check_not_windows("--cwd", asked)
        if asked.startswith("~"):
            return environment.at_home(context, "--cwd", asked)
    if asked is not None and (asked.startswith("/") or not context.address.same_machine):
        return os.path.normpath(asked) if context.address.same_machine else asked
    found = here()
    if not context.address.same_machine:
        return within(found, context.client.info().get("visible_folders", []))
    folder = found[-1]
    if len(found) > 1:  # nodes know the paths under the root: the link on the way there may be on this machine alone
        folder = within(found, [context.client.info().get("root") or "/"]) or folder
    return folder if asked is None else os.path.normpath(os.path.join(folder, asked))


def _refuse_stray(parser: argparse.ArgumentParser, stray: list[str], argv: list[str]) -> None:
    import shlex

    if stray[0].startswith("-"):
        meant = parser.meant(stray[0]) if hasattr(parser, "meant") else ""
        parser.error(f"there is no option {stray[0]}{meant}; the command's own options stand after `--`")
    # The command begins at the first word that is no option's value: what stands there is left over as well.
    at = next(n for n, word in enumerate(argv) if word == stray[0] and stray[0] in _stray(parser, argv[: n + 1]))
    right = [*argv[:at], "--", *argv[at:]]
    parser.error(f"the command stands after `--`: {parser.prog} {shlex.join(right)}")


def _stray(parser: argparse.ArgumentParser, argv: list[str]) -> list[str]:
    return parser.parse_known_args(argv)[1]


def _refuse_other_languages(parser: argparse.ArgumentParser, text: str) -> None:
    first = text.partition("\n")[0].strip()
    if first.startswith("#!") and not first.split("/")[-1].split(" ")[-1].endswith("sh"):
        shebang = first[2:].strip()
        parser.error(f"the script is for {shebang}, not for bash; submit it as: {parser.prog} -- {shebang} FILE")


def _of_slurm(parser: argparse.ArgumentParser, text: str, *, is_strict: bool) -> tuple[list[str], str]:
    """The options that the `#SBATCH` lines of a script say, and what is told of them."""
    from client.cli.arguments.sbatch import MARK, read

    try:
        found = read(text)
    except ValueError as error:
        parser.error(f"a {MARK} line of the script: {error}")
    if found.left and is_strict:
        parser.error(f"{MARK} lines of the script that are not understood: {', '.join(found.left)}")
    told = [", ".join(found.taken)] if found.taken else []
    told += [f"not heeded: {', '.join(found.left)}"] if found.left else []
    return found.words, f"of the {MARK} lines {'; '.join(told)}" if told else ""


def _directives(parser: argparse.ArgumentParser, text: str) -> list[str]:
    import shlex

    found: list[str] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if line and not line.startswith("#"):
            break
        if not line.startswith("#MUSTER"):
            continue
        try:
            words = shlex.split(line.removeprefix("#MUSTER"), comments=True)
        except ValueError as error:
            parser.error(f"line {number} of the script: {error}")
        for place, word in enumerate(words):
            name, _, value = word.partition("=")
            if name == "--token" and (value or "".join(words[place + 1 : place + 2])) in FOR_TASKS:
                continue
            if name == "--" or name.removeprefix("--").replace("-", "_") in _NOT_IN_SCRIPTS:
                parser.error(f"line {number} of the script: {name} has no place in a #MUSTER line")
        found += words
    return found
