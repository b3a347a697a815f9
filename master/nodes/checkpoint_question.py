"""When the newest of the files that match a pattern was written, asked of a node in one short question. Pure."""

from __future__ import annotations

from math import isfinite

# The pattern is expanded where it stands unquoted; without IFS that is all that bash does to it. `printf` is bash's
# own, so there may be more names than a program's arguments can hold.
SCRIPT = (
    "shopt -s nullglob globstar; IFS=; "
    r"printf '%s\0' $1 | xargs -0 -r stat -L -c %.9Y -- 2>/dev/null | sort -gr | head -n 1; echo end"
)


def question(pattern: str) -> list[str]:
    """The argument list that asks; it is to be run in the folder from which the pattern counts."""
    return ["/bin/bash", "-c", SCRIPT, "bash", pattern]


def read_answer(output: str) -> float | None:
    """In seconds since the epoch, by the clock that stamps the files; None where nothing matches, or nobody can
    tell."""
    words = output.split()
    if len(words) != 2 or words[1] != "end":  # noqa: PLR2004
        return None
    try:
        newest = float(words[0])
    except ValueError:
        return None
    return newest if isfinite(newest) else None
