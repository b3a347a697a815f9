"""How the console's modules import each other: never in a circle, and dictionaries know none that asks them."""

from __future__ import annotations

from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.web.javascript import STATIC, imports, reached

ALL = sorted(path.resolve() for path in STATIC.rglob("*.js"))


def test_no_module_comes_back_to_itself() -> None:
    TopologicalSorter({path: imports(path) for path in ALL}).prepare()


@pytest.mark.parametrize("path", sorted((STATIC / "words").rglob("*.js")), ids=lambda path: path.name)
def test_a_dictionary_does_not_know_who_asks_it(path: Path) -> None:
    assert (STATIC / "core" / "i18n.js").resolve() not in reached(path, later=True)


def test_whatever_is_imported_is_there() -> None:
    there = {path for module in ALL for path in imports(module, later=True)}
    assert [path for path in there if not path.is_file()] == []
    assert len(there) > 100
