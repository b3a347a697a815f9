"""Pictures of what grew: what is drawn, and where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from bench.charts import file_name, main
from bench.report import Figure, at_most

SVG = "{http://www.w3.org/2000/svg}"


def drawn(tmp_path: Path, figures: list[Figure]) -> dict[str, Any]:
    result = tmp_path / "result.json"
    result.write_text(json.dumps({"figures": [one.as_json() for one in figures]}), encoding="utf-8")
    assert main([str(result), str(tmp_path / "charts")]) == 0
    return {path.name: ET.parse(path).getroot() for path in (tmp_path / "charts").iterdir()}  # noqa: S314  (our own)


def test_each_thing_that_grew_is_one_picture_and_a_single_figure_is_none(tmp_path: Path) -> None:
    grown = [
        Figure("waiting tasks", "a task <ours>", "ms", (1.0, 2.0, 6.0), None, at) for at in (1_000, 10_000, 100_000)
    ]
    pictures = drawn(tmp_path, [*grown, Figure("waiting tasks", "a ratio", "", (1.1,))])
    assert list(pictures) == [file_name("waiting tasks", "a task <ours>")] == ["waiting-tasks-a-task-ours.svg"]
    [picture] = pictures.values()
    texts = [one.text for one in picture.iter(f"{SVG}text")]
    assert texts[:2] == ["a task <ours>", "ms, by waiting tasks"]
    assert texts.count("2") == 3
    assert {"1,000", "10,000", "100,000"} <= set(texts)
    assert "goal" not in texts


def test_equal_steps_of_ten_stand_equally_far_apart_and_costs_begin_at_zero(tmp_path: Path) -> None:
    values = [(10, 1.0), (100, 2.0), (1_000, 4.0)]
    [picture] = drawn(
        tmp_path, [Figure("nodes", "idle", "%", (value,), at_most(8), at) for at, value in values]
    ).values()
    dots = [(float(one.attrib["cx"]), float(one.attrib["cy"])) for one in picture.iter(f"{SVG}circle")]
    assert dots[1][0] - dots[0][0] == pytest.approx(dots[2][0] - dots[1][0], abs=0.2)
    floor = dots[0][1] + (dots[0][1] - dots[1][1])
    assert [floor - y for _, y in dots] == pytest.approx([(floor - dots[0][1]) * value for _, value in values], abs=0.4)
    assert "goal" in [one.text for one in picture.iter(f"{SVG}text")]
