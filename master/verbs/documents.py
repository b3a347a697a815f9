"""Make the documents about the verbs from their table: `wire/openapi.json`, which is shipped, the tables of
docs/wire.md, and the types that the console's pages are checked by; and of the settings, made from theirs, in
docs/configuration.md. `python -m master.verbs.documents` (`make documents`) writes them anew, in a checkout.

Owns which files these are and what the tables look like.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from master.config.settings import ROWS, Row
from master.verbs.base import Verb
from master.verbs.openapi import PATH, REF, document, params_prose, prose
from master.verbs.table import VERBS
from master.verbs.typescript import declarations
from wire import errors
from wire.english import SENTENCES
from wire.message import whole_size
from wire.version import VERSION

WHOSE = {"own": ", of own tasks", "group": ", of own tasks and, as a mentor, of the group's"}
ROOT = Path(__file__).parents[2]
OPENAPI = Path("wire/openapi.json")
WIRE = Path("docs/wire.md")
CONFIGURATION = Path("docs/configuration.md")
TYPES = Path(".ci/pages/wire.d.ts")


def written(root: Path = ROOT) -> dict[Path, str]:
    """The files, by their paths beneath `root`, as they should be. Parts that are not made from the table stay as they
    are."""
    whole = document(VERBS, VERSION)
    page = (root / WIRE).read_text(encoding="utf-8")
    page = between(page, "verbs", verbs_table(VERBS, whole))
    page = between(page, "answers", answers_list(whole["components"]["schemas"]))
    page = between(page, "errors", errors_table())
    page = between(page, "messages", messages_table())
    settings = between((root / CONFIGURATION).read_text(encoding="utf-8"), "settings", settings_table())
    openapi = json.dumps(whole, ensure_ascii=False, indent=1) + "\n"
    types = declarations(whole["components"]["schemas"])
    return {OPENAPI: openapi, WIRE: page, CONFIGURATION: settings, TYPES: types}


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


def settings_table() -> str:
    """A line for each setting: what it means, what it may be, what it is where nobody says it."""
    lines = ["| setting | meaning | may be | default |", "| --- | --- | --- | --- |"]
    lines += [_row(f"`{row.name}`", row.meaning, str(row.allowed), _shown(row)) for row in ROWS.values()]
    return "\n".join(lines) + "\n"


def _shown(row: Row) -> str:
    if row.default is None or (row.default == 0 and row.is_none_at_zero):
        return "none"
    shown = f"`{str(row.default).removesuffix('.0')}`"
    if row.unit == "bytes" and isinstance(row.default, int):
        return f"{shown} ({whole_size(row.default)})"
    return shown


def _row(*cells: str) -> str:
    return "| " + " | ".join(_inline(cell).replace("|", "\\|") for cell in cells) + " |"


def _inline(text: str) -> str:
    return " ".join(text.split())


def _who(verb: Verb) -> str:
    return f"{verb.role}{WHOSE.get(verb.whose, '')}"


def _of_params(verb: Verb) -> str:
    """Return what the docstring of the parameters says, if it is this verb's own."""
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
