"""Whether what a task names is on a node, asked of it in one short question, with the rights of who submits it: what is
asked, and how the answer is read. Pure; what is wanted is `core.preflight`'s."""

from __future__ import annotations

from collections.abc import Sequence

from master.core.attempts.preflight import HEAD, Finding, Lack, Want
from wire.numbers import whole_number

SCRIPT = f"""
n=0
while [ $# -gt 1 ]; do
  kind=$1; path=$2; shift 2
  said=
  case $kind in
  word) command -v -- "$path" >/dev/null 2>&1 || said=absent ;;
  log) [ -d "$path" ] && said=is_folder ;;
  beside) [ -f "$path" ] && ! command -v -- "${{path##*/}}" >/dev/null 2>&1 && said=beside ;;
  *)
    if [ ! -e "$path" ]; then said=absent
    elif [ "$kind" = folder ]; then [ -d "$path" ] || said=no_folder
    elif [ "$kind" = env ]; then :
    elif [ -d "$path" ]; then said=is_folder
    elif [ "$kind" = program ]; then
      if [ ! -x "$path" ]; then said=not_executable
      elif [ -f "$path" ] && [ -r "$path" ]; then
        first=$(head -c {HEAD} "$path" 2>/dev/null | tr -d '\\000' | head -n 1)
        case $first in
        '#!'*)
          line=${{first#??}}
          set -f -- "$@"
          for word in $line; do break; done
          case $word in
          *"$(printf '\\r')") said=line_end ;;
          /*) [ -e "$word" ] || said="no_interpreter $word" ;;
          esac ;;
        esac
      fi
    fi ;;
  esac
  [ -z "$said" ] || printf '%s %s\\n' "$n" "$said"
  n=$((n + 1))
done
echo end
"""


def question(wants: Sequence[Want]) -> list[str]:
    """The argument list that asks a node."""
    words = ["/bin/sh", "-c", SCRIPT, "sh"]
    for want in wants:
        for number, path in enumerate(want.paths or (want.name,)):
            words += ["file" if number and want.kind == "beside" else want.kind, path]
    return words


def read_answer(wants: Sequence[Want], output: str) -> list[Finding] | None:
    """Return what is wrong, from the node's output; None if the answer is incomplete."""
    *lines, end = output.splitlines() or [""]
    if end != "end":
        return None
    told: dict[int, tuple[Lack, str]] = {}
    for line in lines:
        number, _, said = line.partition(" ")
        lack, _, detail = said.partition(" ")
        which = whole_number(number)
        if which is not None and lack in set(Lack):
            told[which] = Lack(lack), detail
    found, at = [], 0
    for want in wants:
        count = len(want.paths) or 1
        lacks = [told[number] for number in range(at, at + count) if number in told]
        at += count
        if len(lacks) == count:  # any of its places will do
            found.append(Finding(want, *lacks[0]))
    return found
