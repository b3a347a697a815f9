"""The bash lines that activate a task's environment: a conda one, or a virtual environment. Pure.

What a task gets and what `env.check` tries are the same lines.
"""

from __future__ import annotations

import shlex

from wire.pattern import Pattern

ENV_NAME = Pattern(r"[\w.+-]+")
"""Names of environments; a path (`/…`) names a virtual environment."""
CANNOT_START = 121
"""The exit code of a task whose environment could not be activated: one that neither bash nor the tools around it use,
so that its owner is told which it was."""


def is_env_name(text: str) -> bool:
    """May this name an environment? Not what leads out of the folder of environments or looks like an option."""
    return bool(ENV_NAME.fullmatch(text)) and not text.startswith("-") and set(text) != {"."}


def activation(env: str, conda: str) -> str:
    """Lines to go before the command; empty where no environment is asked for. `conda`: absolute prefix.

    In the prefix's `envs` may lie conda environments and virtual ones; conda knows its own by their `conda-meta`.
    """
    if not env:
        return ""
    if env.startswith("/"):
        source = f"source {shlex.quote(env)}/bin/activate"
    else:
        own = shlex.quote(f"{conda}/envs/{env}")
        source = (
            f"if [ ! -e {own}/conda-meta ] && [ -f {own}/bin/activate ]; then source {own}/bin/activate; "
            f"else source {shlex.quote(conda)}/bin/activate {shlex.quote(env)}; fi"
        )
    complaint = shlex.quote(f"muster: the environment {env} could not be activated")
    return f"{{ {source}; }} || {{ echo {complaint} >&2; exit {CANNOT_START}; }}\n"
