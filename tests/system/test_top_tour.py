"""The page of `muster top` shows the captures as they lie beside it, of the size that they claim."""

from __future__ import annotations

import re

from client.text.columns import width
from tests.system.top_tour import FOLDER, PAGE, SIZES


def test_the_page_shows_the_captures_as_they_are() -> None:
    shown = re.findall(r"\]\(top/([^)]*\.txt)\)\n\n```text\n(.*?)```\n", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(shown) == 8
    for name, text in shown:
        assert text == (FOLDER / name).read_text(encoding="utf-8"), name


def test_every_station_was_captured_at_both_sizes_and_fits() -> None:
    stations = {path.name.split("-", 1)[1] for path in FOLDER.glob("*.txt")}
    assert {"overview.txt", "log.txt", "no-master.txt"} <= stations
    for columns, rows in SIZES:
        for station in stations:
            lines = (FOLDER / f"{columns}x{rows}-{station}").read_text(encoding="utf-8").splitlines()
            assert len(lines) <= rows
            assert max(map(width, lines)) <= columns
