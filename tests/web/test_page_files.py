"""What a console does with its files before somebody asks for one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.requests import Request

from web import pages
from web.lean import lean
from web.pages import FOLDER, Pages
from web.whence import Whence

WHENCE = Whence("127.0.0.1", "http", "queue.lab", "", is_plain=True)


def request(path: str, name: str = "") -> Request:
    scope = {"type": "http", "path": path, "headers": [], "path_params": {"path": name}, "muster": WHENCE}
    return Request(scope)


def test_a_script_is_made_smaller_when_it_is_first_asked_for_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counted(source: str) -> str:
        made.append(source)
        return lean(source)

    monkeypatch.setattr(pages, "lean", counted)
    served = Pages()
    index = bytes(served.index(request("/")).body).decode()
    assert made == []
    named = re.findall(r'static/(v-\w+/[\w/.-]+\.js)"', index)
    assert len(named) > 20
    first, again = (served.file(request("/static/" + named[0], named[0])) for _ in "ab")
    assert made == [(FOLDER / named[0].partition("/")[2]).read_text(encoding="utf-8")]
    assert first.body == again.body == lean(made[0]).encode()


def test_the_path_of_the_files_changes_with_each_of_them_and_with_how_they_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version() -> str:
        return bytes(Pages(tmp_path / "static").index(request("/")).body).decode()

    (tmp_path / "static").mkdir()
    (tmp_path / "static/index.html").write_text('<script src="static/a.js">', encoding="utf-8")
    seen = [version()]
    for name, text in (("a.js", "a"), ("a.js", "b"), ("c.css", "b")):
        (tmp_path / "static" / name).write_text(text, encoding="utf-8")
        seen.append(version())
    (tmp_path / "lean.py").write_text("another", encoding="utf-8")
    monkeypatch.setattr(pages, "HOW_IT_IS_SERVED", tmp_path / "lean.py")
    seen.append(version())
    assert len({*seen}) == len(seen)
    assert version() == seen[-1]
