"""What is written down of the verbs, made from their table: `wire/openapi.json`, which is shipped, and the tables of
docs/wire.md. `python -m master.verbs.documents` (`make documents`) writes them anew, in a checkout.

Owns which files these are and what the tables look like.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from master.verbs.base import Verb
from master.verbs.openapi import PATH, REF, document, params_prose, prose
from master.verbs.table import VERBS
from wire import errors
from wire.english import SENTENCES
from wire.version import VERSION

WHOSE = {"own": ", of own tasks", "group": ", of own tasks and, as a mentor, of the group's"}
ROOT = Path(__file__).parents[2]
OPENAPI = Path("wire/openapi.json")
WIRE = Path("docs/wire.md")


def written(root: Path = ROOT) -> dict[Path, str]:
    """The files, by their paths beneath `root`, as they should be. What is not made from the table stays as it is."""
    whole = document(VERBS, VERSION)
    page = (root / WIRE).read_text(encoding="utf-8")
    page = between(page, "verbs", verbs_table(VERBS, whole))
    page = between(page, "answers", answers_list(whole["components"]["schemas"]))
    page = between(page, "errors", errors_table())
    page = between(page, "messages", messages_table())
    return {OPENAPI: json.dumps(whole, ensure_ascii=False, indent=1) + "\n", WIRE: page}


def between(page: str, name: str, text: str) -> str:
    """The page with the text between its two marks of that name. Raises ValueError where it has none."""
    begin, end = f"<!-- {name}: made by `make documents` -->\n", f"<!-- end of {name} -->"
    head, found, rest = page.partition(begin)
    _, closed, tail = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"the page has no place for the {name}: it lies between {begin.strip()} and {end}")
    return f"{head}{begin}\n{text}\n{end}{tail}"


def verbs_table(verbs: Mapping[str, Verb], whole: Mapping[str, Any]) -> str:
    """A line for each verb: who may call it, what it takes and gives, what it does."""
    lines = ["| verb | who | params | result | what it does |", "| --- | --- | --- | --- | --- |"]
    for name, verb in verbs.items():
        operation = whole["paths"][PATH + name]["post"]
        taken = operation["requestBody"]["content"]["application/json"]["schema"]
        given = operation["responses"]["200"]["content"]["application/json"]["schema"]
        params = " ".join(key if key in taken["required"] else f"{key}?" for key in taken["properties"])
        said = " ".join(filter(None, (operation["description"], _of_params(verb))))
        lines.append(_row(f"`{name}`", _who(verb), f"`{params}`" if params else "", _kinds(given), said))
    return "\n".join(lines) + "\n"


def answers_list(schemas: Mapping[str, Any]) -> str:
    """Each result with its keys and what they mean."""
    lines = []
    for name, schema in schemas.items():
        if name != "Problem" and "properties" in schema:
            always = schema["required"]
            keys = " ".join(key if key in always else f"{key}?" for key in schema["properties"])
            lines.append(f"* **{name}** " + (f"`{keys}`: " if keys else "`{}`: ") + _inline(schema["description"]))
    return "\n".join(lines) + "\n"


def errors_table() -> str:
    """The stable names, JSON-RPC's numbers, and what they mean."""
    lines = ["| code | number | meaning |", "| --- | --- | --- |"]
    lines += [_row(f"`{kind.code}`", str(kind.rpc_code), prose(kind.__doc__)) for kind in errors.every()]
    return "\n".join(lines) + "\n"


def messages_table() -> str:
    """The keys of messages, and the English sentence of each."""
    lines = ["| key | sentence |", "| --- | --- |"]
    return "\n".join(lines + [_row(f"`{key}`", sentence) for key, sentence in SENTENCES.items()]) + "\n"


def _row(*cells: str) -> str:
    return "| " + " | ".join(_inline(cell).replace("|", "\\|") for cell in cells) + " |"


def _inline(text: str) -> str:
    return " ".join(text.split())


def _who(verb: Verb) -> str:
    return f"{verb.role}{WHOSE.get(verb.whose, '')}"


def _of_params(verb: Verb) -> str:
    """What the docstring of the parameters says of them, where it is this verb's own."""
    told, is_own = params_prose(verb.params)
    return f"Params: {told}" if is_own else ""


def _kinds(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_kinds(one) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return f"a list of {_kinds(schema['items'])}"
    return str(schema["$ref"]).removeprefix(REF)


def main() -> int:
    """Write what differs, and say so."""
    for path, text in written().items():
        if (ROOT / path).read_text(encoding="utf-8") != text:
            (ROOT / path).write_text(text, encoding="utf-8")
            sys.stdout.write(f"{path}: written\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
