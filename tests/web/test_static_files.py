"""The console's files as they are sent: without what is said to people, compressed, and the same programs."""

from __future__ import annotations

import gzip
import re

import pytest

from tests.web.browser import chromium, signed_in
from tests.web.console import Console
from tests.web.javascript import STATIC, modules, reached
from web.lean import lean
from web.pages import FOREVER

RUN_BY_ANY_PAGE = ("start.js", "app.js")
LOAD = """async (names) => {
    const there = document.querySelector("script").src.replace("start.js", "");
    const faults = names.map((name) => import(there + name).then(() => null, (error) => `${name}: ${error}`));
    return (await Promise.all(faults)).filter(Boolean);
}"""
CASES = {
    "a = 1; // said\nb": "a = 1;  \nb",
    "/** @type {x} */ (y)": "  (y)",
    "a/* one\ntwo */b": "a\nb",
    "return/* x */y": "return y",
    "  indented\n    more": "  indented\nmore",
    'x = "// no /* comment */"; // one': 'x = "// no /* comment */";  ',
    "x = 'it\\'s // text'; // one": "x = 'it\\'s // text';  ",
    "x = /[/*]\\/\\//g.test(y); // one": "x = /[/*]\\/\\//g.test(y);  ",
    "x = a / b; // c / d": "x = a / b;  ",
    "f(a) / 2 / b // one": "f(a) / 2 / b  ",
    "return /'/.exec(x); // one": "return /'/.exec(x);  ",
    "`// text ${a /* b */ + `/* ${c} // */`} // text` // one": "`// text ${a   + `/* ${c} // */`} // text`  ",
    "`${{ a: `}` }.a}\n  // text`; // one": "`${{ a: `}` }.a}\n  // text`;  ",
    "`\\${a} \\` // text` // one": "`\\${a} \\` // text`  ",
}


@pytest.mark.parametrize("source", CASES)
def test_comments_alone_are_taken_off(source: str) -> None:
    assert lean(source) == CASES[source]


def test_what_does_not_end_is_not_served() -> None:
    for source in ("`never", "`${a", '"never\n', "/* never"):
        with pytest.raises(ValueError, match="does not end"):
            lean(source)


def test_every_module_keeps_its_lines_and_loses_a_quarter() -> None:
    whole = [path.read_text(encoding="utf-8") for path in modules()]
    made = [lean(source) for source in whole]
    assert [source.count("\n") for source in made] == [source.count("\n") for source in whole]
    assert sum(map(len, made)) < 0.8 * sum(map(len, whole))
    assert not any(re.search(r"^\s*//|@(?:param|type|typedef)\b", source, re.MULTILINE) for source in made)
    assert all(lean(source).split() == source.split() for source in made), "there is nothing more to take off"


def test_each_module_is_a_program_still(console: Console) -> None:
    names = [path.relative_to(STATIC).as_posix() for path in modules() if path.name not in RUN_BY_ANY_PAGE]
    with chromium() as browser, signed_in(browser, console) as seen:
        seen.go("queue")
        faults = seen.page.evaluate(LOAD, names)
    assert len(names) > 50
    assert faults == []


def test_who_takes_gzip_gets_it_and_who_does_not_the_same_bytes(console: Console) -> None:
    http = console.http()
    plain = http.get("/static/app.js", headers={"Accept-Encoding": "identity"})
    with http.stream("GET", "/static/app.js", headers={"Accept-Encoding": "br, gzip;q=0.8"}) as packed:
        raw = b"".join(packed.iter_raw())
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in plain.headers
    assert plain.headers["Vary"] == packed.headers["Vary"] == "Accept-Encoding"
    assert plain.headers["ETag"] != packed.headers["ETag"]
    assert gzip.decompress(raw) == plain.content
    refused = http.get("/static/app.js", headers={"Accept-Encoding": "gzip;q=0, identity"})
    assert "Content-Encoding" not in refused.headers
    again = http.get("/static/app.js", headers={"Accept-Encoding": "gzip", "If-None-Match": packed.headers["ETag"]})
    assert again.status_code == 304


def test_what_others_published_is_served_as_it_is(console: Console) -> None:
    http = console.http()
    assert http.get("/static/vendor/preact.js").content == (STATIC / "vendor" / "preact.js").read_bytes()
    page = http.get("/").text
    [version] = set(re.findall(r"static/(v-[0-9a-f]{16})/", page))
    assert http.get(f"/static/{version}/vendor/preact.js").headers["Cache-Control"] == FOREVER


def test_every_module_that_a_page_begins_with_is_named_in_it_and_no_other(console: Console) -> None:
    page = console.http().get("/").text
    named = set(re.findall(r'<link rel="modulepreload" href="static/v-[0-9a-f]{16}/([^"]+)">', page))
    begun = {path.relative_to(STATIC).as_posix() for name in RUN_BY_ANY_PAGE for path in reached(STATIC / name)}
    assert named == begun
    assert {"start.js", "app.js", "core/live.js", "vendor/preact.js"} <= named
    assert not any(name.startswith("words/") for name in named)
