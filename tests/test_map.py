"""The documents for engineers lead to files: the map, the pages of decisions, and where a new thing goes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec

from master.config.conf_file import ConfFile
from tests.cases import each_case
from tests.test_repository import ROOT, text

LONGEST_MAP, LONGEST_DECISION = 150, 40
"""Lines of docs/ARCHITECTURE.md, and of a page in docs/decisions."""
LONGEST_CHANGE = 160
"""Characters of a line of CHANGELOG.md."""
PARTS = ["Context", "Decision", "Consequences"]
CORE = ROOT / "master" / "core"
PORTS = {"socket_info": {"monitor_port": 63004, "data_port": 63005, "train_state_port": 63006}}
_NAMED = re.compile(r"`([a-z_]+)`")
_PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|md|js|json|txt))`")


def decisions() -> list[Path]:
    return [path for path in sorted((ROOT / "docs" / "decisions").glob("*.md")) if path.name != "README.md"]


def lost_paths(document: str) -> list[str]:
    """Return the paths in backticks that name no file and no folder of the repository."""
    return [path for path in _PATH.findall(document) if not (ROOT / path).exists()]


def where_a_new_thing_goes() -> str:
    contributing = text("CONTRIBUTING.md")
    return contributing[contributing.index("## Where a verb goes") : contributing.index("## Trying something by hand")]


def test_contributing_sends_nobody_to_a_file_that_does_not_exist() -> None:
    assert len(_PATH.findall(where_a_new_thing_goes())) > len(PARTS)
    assert lost_paths(where_a_new_thing_goes()) == []


def test_a_path_that_leads_nowhere_would_be_seen() -> None:
    assert lost_paths("| a | `master/core/nowhere.py`, `nowhere.md`, `master/nowhere/` |") == [
        "master/core/nowhere.py",
        "nowhere.md",
        "master/nowhere/",
    ]
    assert lost_paths("`master/core/core.py`, `core.settings`, `muster set`, `docs/`") == []


def test_the_map_is_short_and_names_every_file_of_the_core() -> None:
    architecture = text("docs/ARCHITECTURE.md")
    assert len(architecture.splitlines()) <= LONGEST_MAP
    section = architecture[architecture.index("## The core") : architecture.index("## On disk")]
    rows = [row for row in section.splitlines() if row.startswith("| `")]
    named = {row.split("`")[1].removeprefix("core/"): set(_NAMED.findall(row)) for row in rows}
    files = {
        "" if folder == CORE else f"{folder.name}/": {path.stem for path in folder.glob("*.py")} - {"__init__"}
        for folder in (path.parent for path in CORE.rglob("__init__.py"))
    }
    assert named == files


def test_each_section_of_the_configuration_begins_with_an_example_that_loads() -> None:
    page = text("docs/configuration.md")
    sections = re.split(r"^## ", page[: page.index("## Who may read what")], flags=re.MULTILINE)[1:]
    with each_case() as cases:
        for section in sections:
            title, _, rest = section.partition("\n\n")
            with cases.case(title):
                example = re.match(r"```(json|console)\n(.*?)\n```", rest, re.DOTALL)
                assert example, "no example"
                if example[1] == "json":
                    msgspec.convert({**PORTS, **json.loads(example[2])}, ConfFile)


def test_the_changelog_has_one_line_for_each_change() -> None:
    unreleased = text("CHANGELOG.md").split("## [Unreleased]\n")[1].split("\n## ")[0]
    lines = [line for line in unreleased.splitlines() if line and not line.startswith("### ")]
    assert [line for line in lines if not line.startswith("- ")] == [], "a change goes on in a second line"
    assert [line for line in lines if len(line) > LONGEST_CHANGE] == []


def test_each_decision_is_a_short_page_with_the_same_parts() -> None:
    with each_case() as cases:
        for path in decisions():
            page = path.read_text(encoding="utf-8")
            with cases.case(path.name):
                assert len(page.splitlines()) <= LONGEST_DECISION
                assert re.findall(r"^## (.*)$", page, re.MULTILINE) == PARTS
                assert re.fullmatch(r"# .+", page.splitlines()[0])


def test_the_list_of_decisions_has_each_page_once_by_its_title() -> None:
    listed = re.findall(r"^\* \[(.*)\]\((.*)\)$", text("docs/decisions/README.md"), re.MULTILINE)
    titles = [(path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# "), path.name) for path in decisions()]
    assert sorted(listed) == sorted(titles)
