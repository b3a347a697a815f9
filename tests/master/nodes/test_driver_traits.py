"""What a driver means for the rest of the master stands in one table, and nobody else asks for its name."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

from master.nodes.driver import TRAITS, DriverName
from master.nodes.registry import NodeConfig

MASTER = Path(__file__).parents[3] / "master"
MAKES = "drivers/choice.py"
"""Makes the driver of each name."""


def asks_for_its_name(tree: ast.AST) -> list[int]:
    """The lines that compare something named `driver` with one of the names."""
    names = set(get_args(DriverName))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "driver":
            texts = {one.value for side in node.comparators for one in ast.walk(side) if isinstance(one, ast.Constant)}
            found += [node.lineno] if texts & names else []
    return found


def test_each_driver_has_its_traits_and_only_what_makes_it_asks_for_its_name() -> None:
    assert TRAITS.keys() == set(get_args(DriverName))
    asked = {
        str(path.relative_to(MASTER)): lines
        for path in sorted(MASTER.rglob("*.py"))
        if (lines := asks_for_its_name(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert asked.keys() == {MAKES}


def test_a_node_says_what_its_driver_says() -> None:
    assert NodeConfig(name="a", gpu_count=1, driver="local").traits.shares_our_files
    far = NodeConfig(name="a", gpu_count=1, ip="10.0.0.1", user_name="lab")
    assert far.traits.is_over_ssh
    assert not far.traits.is_this_machine
    assert NodeConfig(name="a", gpu_count=1, driver="report").traits.dials_in
