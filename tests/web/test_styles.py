"""The style of a page comes with it: index.html names the sheets of all pages, a page its own (`styles` of its line in
`pages/index.js`)."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cases import each_case
from tests.web.javascript import STATIC, reached

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
RULE = re.compile(r"\{[^{}]*\}")
CLASS = re.compile(r"\.([a-z][\w-]*)")
GIVEN = re.compile(r"""class(?:Name)?=(?:"([^"]*)"|\$\{([^}]*)\})""")
QUOTED = re.compile(r"""["'`]([^"'`]*)["'`]""")
LINE = re.compile(r'import\("\./(?:pages/)?([\w-]+\.js)"\)(?:.*?styles: \[([^\]]*)\])?')
"""What is loaded when it is needed, a line each: its module, and its own sheets."""
WITHOUT = '"pages"'
"""The sheet of a page that names none."""


def classes_of(sheet: Path) -> set[str]:
    """Those that a sheet has rules for; not those of a state (`is-…`), which say little without another."""
    selectors = RULE.sub(" ", COMMENT.sub(" ", sheet.read_text(encoding="utf-8")))
    return {name for name in CLASS.findall(selectors) if not name.startswith("is-")}


def classes_in(source: str) -> set[str]:
    """Those that the templates of a module give to elements."""
    plain = [text for text, _ in GIVEN.findall(source)]
    made = [text for _, value in GIVEN.findall(source) for text in QUOTED.findall(value)]
    return set(" ".join(plain + made).split())


OF_ALL = re.findall(r'href="static/style/([\w-]+)\.css"', (STATIC / "index.html").read_text(encoding="utf-8"))
SHEETS = {path.stem: classes_of(path) for path in sorted((STATIC / "style").glob("*.css"))}
BEGUN = {path for name in ("start.js", "app.js") for path in reached(STATIC / name)}
LOADED = [
    (page, {*OF_ALL, *re.findall(r"[\w-]+", styles or WITHOUT)})
    for name in ("pages/index.js", "app.js")
    for page, styles in LINE.findall((STATIC / name).read_text(encoding="utf-8"))
]


def lacking(module: Path, loaded: set[str]) -> dict[str, str]:
    """The classes of a module that only sheets have which are not loaded, each with one of these."""
    there = set().union(*(SHEETS[name] for name in loaded))
    given = classes_in(module.read_text(encoding="utf-8")) - there
    return {one: name for name, known in SHEETS.items() for one in given & known}


def test_each_page_names_its_sheets_and_each_sheet_is_of_a_page() -> None:
    pages = {path.name for path in (STATIC / "pages").glob("*.js")} - {"index.js"}
    assert {page for page, _ in LOADED} == pages
    assert set().union(*(styles for _, styles in LOADED)) == SHEETS.keys()


def test_a_page_comes_with_the_style_of_all_that_it_shows() -> None:
    with each_case() as cases:
        for page, styles in LOADED:
            for module in reached(STATIC / "pages" / page, later=True) - BEGUN:
                with cases.case(f"{page}: {module.name}"):
                    assert lacking(module, styles) == {}


def test_what_every_page_has_needs_the_style_of_none() -> None:
    with each_case() as cases:
        for module in BEGUN:
            with cases.case(module.name):
                assert lacking(module, set(OF_ALL)) == {}


def test_a_class_without_its_sheet_would_be_found() -> None:
    page = STATIC / "pages" / "queue.js"
    assert "list-part" not in lacking(page, {*OF_ALL, "pages"})
    assert lacking(page, set(OF_ALL)).items() >= {("tools", "pages"), ("tabs", "pages")}
