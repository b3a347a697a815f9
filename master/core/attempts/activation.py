"""The bash lines before a task's command: they activate its environment, and are its setup. Pure.

A task gets the same lines for its environment as `env.check` tries. The command is reached only from their end: where
they fail, or end the shell, the exit code says which it was, so that nothing that did not run counts as a success. The
agent tells, by marks at the end of each stage, what those lines can hide from the shell itself (a trap of their own,
`exec`).
"""

from __future__ import annotations

import shlex

from wire.agent import STAGE_FD
from wire.pattern import Pattern

ENV_NAME = Pattern(r"[\w.+-]+")
"""Names of environments; a path (`/…`) names one anywhere, virtual or conda's."""
CANNOT_START = 121
"""The exit code of a task whose environment could not be activated: one that neither bash nor the tools around it use,
so that its owner is told which it was."""
SETUP_FAILED = 122
"""Likewise, where its setup failed."""
END_OF_STAGES = f"exec {STAGE_FD}>&-\n"
"""Behind the last stage: the command does not get what its shell told the ends of stages by."""
_MARK = "muster: "
"""The prefix of our messages, by which a trap of ours is told from one that the lines set."""
_STATUS = "_muster_setup"
"""A variable of the shell's: the status with which the setup came to its end."""


def is_env_name(text: str) -> bool:
    """May this name an environment? Not what leads out of the folder of environments or looks like an option."""
    return bool(ENV_NAME.fullmatch(text)) and not text.startswith("-") and set(text) != {"."}


def activation(env: str, conda: str, *, marks: bool = False) -> str:
    """Lines to go before the command; empty where no environment is asked for. `conda`: absolute prefix. `marks`: they
    tell their end, see `wire.agent.Staged`.

    In the prefix's `envs` may lie conda environments and virtual ones; conda knows its own by their `conda-meta`.
    """
    if not env:
        return ""
    if env.startswith("/"):
        source = _by_path(env.rstrip("/"), conda)
    else:
        own = shlex.quote(f"{conda}/envs/{env}")
        source = (
            f"if [ ! -e {own}/conda-meta ] && [ -f {own}/bin/activate ]; then source {own}/bin/activate; "
            f"else source {shlex.quote(conda)}/bin/activate {shlex.quote(env)}; fi"
        )
    place = shlex.quote(env if env.startswith("/") else f"{conda}/envs/{env}")
    lines = f"{{ {source}; }} || {_fail(f'the environment {env} could not be activated', CANNOT_START)}\n"
    # One of conda's need not have a Python, but where it is gone another one must not run in its place.
    has_python = f"[ -e {place}/pyvenv.cfg ] || compgen -G {place}'/conda-meta/python-[0-9]*' > /dev/null"
    gone = _fail(f"the environment {env} has no Python that runs (bin/python)", CANNOT_START)
    lines += f"if {has_python}; then [ -x {place}/bin/python ] || {gone}; fi\n"
    return _to_the_end(lines, f"the environment {env} ended the shell", CANNOT_START, marks=marks)


def _by_path(env: str, conda: str) -> str:
    """One of conda's has no script of its own: the conda that owns it activates it, which is the base above its `envs`,
    else the lab's."""
    own = shlex.quote(env)
    source = f"source {shlex.quote(conda)}/bin/activate {own}"
    above, _, _ = env.rpartition("/")
    base = above.removesuffix("/envs")
    if base != above and base not in ("", conda):
        path = shlex.quote(base)
        source = f"if [ -f {path}/bin/activate ]; then source {path}/bin/activate {own}; else {source}; fi"
    return (
        f"if [ -e {own}/conda-meta ] && [ ! -f {own}/bin/activate ]; then {source}; else source {own}/bin/activate; fi"
    )


def setup_lines(setup: str, *, marks: bool = False) -> str:
    """Lines to go before the command, behind those that activate: they must end with status 0, as a script would, and
    be whole: an open quote, `|` or here-document in them takes nothing of what follows."""
    if not setup.strip():
        return ""
    complaint = "the setup failed"
    # Where the lines are not whole the last one is part of them, or an error: bash has no `!` behind `|`.
    whole = shlex.quote(f"{setup}\n! {_STATUS}=$?\n:\n")
    failed = _fail(complaint, SETUP_FAILED)
    lines = f'unset {_STATUS}\neval {whole}\n[ "${{{_STATUS}-}}" = 0 ] || {failed}\nunset {_STATUS}\n'
    return _to_the_end(lines, complaint, SETUP_FAILED, marks=marks)


def _fail(complaint: str, code: int) -> str:
    return f"{{ echo {shlex.quote(_MARK + complaint)} >&2; exit {code}; }}"


def _to_the_end(lines: str, complaint: str, code: int, *, marks: bool) -> str:
    """The lines; where the shell ends in them, with whatever status, that is this failure."""
    said = shlex.quote(_MARK + complaint)
    trap = f"[ $? -eq {code} ] || echo {said} >&2; exit {code}"
    # A trap that the lines have set is theirs, and stays.
    lines = (
        f"trap {shlex.quote(trap)} EXIT\n{lines}case $(trap -p EXIT) in *{shlex.quote(_MARK)}*) trap - EXIT;; esac\n"
    )
    return lines + (f"builtin printf . >&{STAGE_FD} || {_fail(complaint, code)}\n" if marks else "")
