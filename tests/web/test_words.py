"""The console speaks two languages, and each of them whole: no text stands in a page, and no key lacks its words."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from master.config.settings import ROWS
from master.people.audit import OK
from master.verbs.access import Via
from master.views.differences import ASKED, BECAME
from tests.cases import each_case
from tests.web.javascript import STATIC, asked_for, dictionary, literals, modules, named, reached
from wire.english import SENTENCES
from wire.errors import every
from wire.message import fields_of

PAGES = sorted(path.name for path in (STATIC / "words" / "en").glob("*.js"))
MESSAGES = sorted(
    path.name
    for path in (STATIC / "words" / "zh-CN").glob("*.js")
    if path.name not in {*PAGES, "index.js", "forms.js", "sayings.js"}
)
ENGLISH = dictionary(*(f"en/{name}" for name in PAGES))
CHINESE = dictionary(*(f"zh-CN/{name}" for name in PAGES))
SENTENCES_IN_CHINESE = dictionary(*(f"zh-CN/{name}" for name in MESSAGES))
NAMED_ELSEWHERE = {"not.", "keys.", "action.", "tab.", "page.", "ui.", "log."}
"""Beginnings of keys that tables of the modules hold, and hand to the dictionary as values."""
FIELD = re.compile(r"\{(\w+)")
PART = {key: name.removesuffix(".js") for name in PAGES for key in dictionary(f"en/{name}")}
"""In which part of the dictionary each key stands."""
SHARED = "ui"
LINE = re.compile(r'import\("\./([\w-]+\.js)"\).*?words: \[([^\]]*)\]')
"""A line of `pages/index.js`: the module of a page, and the parts that are loaded with it."""
WITH_PARTS = re.compile(r"words=\$\{\[([^\]]*)\]\}")
LINES = sorted(set(LINE.findall((STATIC / "pages" / "index.js").read_text(encoding="utf-8"))))


def test_both_languages_have_the_same_keys_in_the_same_files() -> None:
    for name in PAGES:
        assert dictionary(f"en/{name}").keys() == dictionary(f"zh-CN/{name}").keys(), name


def test_a_text_names_no_value_that_the_other_language_does_not_know() -> None:
    odd = [key for key in ENGLISH if set(FIELD.findall(CHINESE[key])) - set(FIELD.findall(ENGLISH[key]))]
    assert odd == []


def test_whatever_a_module_asks_to_be_said_is_in_the_dictionary() -> None:
    for path in modules():
        keys, beginnings = asked_for(path.read_text(encoding="utf-8"))
        assert keys - ENGLISH.keys() == set(), path.name
        for beginning in beginnings:
            assert any(key.startswith(beginning) for key in ENGLISH), f"{path.name}: {beginning}"


def test_nothing_stands_in_the_dictionary_that_nobody_says() -> None:
    sources = [path.read_text(encoding="utf-8") for path in modules()]
    keys = set().union(*(asked_for(source)[0] for source in sources))
    beginnings = set().union(*(asked_for(source)[1] for source in sources)) | NAMED_ELSEWHERE
    unsaid = [key for key in ENGLISH if key not in keys and not any(map(key.startswith, beginnings))]
    assert unsaid == []


def test_each_page_is_in_the_list_with_its_words() -> None:
    assert len(LINES) == len(list((STATIC / "pages").glob("*.js"))) - len(("index.js", "sign-in.js", "wall.js"))
    assert {part for _, parts in LINES for part in re.findall(r"\w+", parts)} | {SHARED, "wall"} == set(PART.values())


@pytest.mark.parametrize(("page", "parts"), [*LINES, ("wall.js", "wall overview"), ("sign-in.js", "")])
def test_the_words_of_a_page_come_with_it(page: str, parts: str) -> None:
    begun = {path for name in ("start.js", "app.js") for path in reached(STATIC / name)}
    path = STATIC / "pages" / page
    there = {SHARED, *re.findall(r"\w+", parts)}
    there |= {
        part for more in WITH_PARTS.findall(path.read_text(encoding="utf-8")) for part in re.findall(r"\w+", more)
    }
    for module in reached(path, later=True) | begun:
        if "vendor" in module.parts or "words" in module.parts or (module in begun and page != "sign-in.js"):
            continue
        source = module.read_text(encoding="utf-8")
        keys, beginnings = asked_for(source)
        lacks = {key: PART[key] for key in (keys | named(source)) & PART.keys() if PART[key] not in there}
        assert lacks == {}, module.name
        for beginning in beginnings:
            assert any(key.startswith(beginning) and PART[key] in there for key in PART), f"{module.name}: {beginning}"


def test_every_setting_is_told_in_both_languages() -> None:
    assert {f"setting.{name}" for name in ROWS} - ENGLISH.keys() == set()


def test_every_code_of_the_audit_log_is_told_in_both_languages() -> None:
    results = {f"audit.is.{code}" for code in (OK, *(kind.code for kind in every()))}
    assert results - ENGLISH.keys() == set()
    assert {f"audit.via.{via}" for via in get_args(Via)} - ENGLISH.keys() == set()


def test_no_text_stands_in_a_template() -> None:
    with each_case() as cases:
        for path in modules():
            with cases.case(path.relative_to(STATIC).as_posix()):
                assert literals(path.read_text(encoding="utf-8")) == []


def test_a_text_in_a_template_would_be_found() -> None:
    source = 'html`<p class="x">${t("a.b")} Hello</p><b title="Some words">${ok ? html`<i>${x}好的</i>` : null}</b>`'
    assert literals(source) == ["Hello", "Some words", "好的"]
    assert literals('html`<p class="one two">${t("a.b")} · <code>muster top</code></p>`') == []


def test_what_is_said_of_a_failure_shows_its_commands_as_such() -> None:
    bare = re.compile(r"(?<!text=)\$\{(?:[^{}]*: )?saidOfFailure\(")
    with each_case() as cases:
        for path in modules():
            with cases.case(path.relative_to(STATIC).as_posix()):
                assert bare.findall(path.read_text(encoding="utf-8")) == []


def test_every_sentence_of_the_wire_is_said_in_chinese() -> None:
    assert SENTENCES.keys() - SENTENCES_IN_CHINESE.keys() == set(), "it belongs into web/static/words/zh-CN"
    assert SENTENCES_IN_CHINESE.keys() - SENTENCES.keys() == set(), "nothing says this any more"


def test_a_chinese_sentence_names_only_values_that_there_are() -> None:
    odd = {key: set(FIELD.findall(text)) - fields_of(SENTENCES[key]) for key, text in SENTENCES_IN_CHINESE.items()}
    assert {key: names for key, names in odd.items() if names} == {}


def test_no_chinese_sentence_is_the_english_one() -> None:
    said = {key: text for key, text in SENTENCES_IN_CHINESE.items() if re.sub(r"`[^`]*`|\{[^}]*\}|\W", "", text)}
    assert [key for key, text in said.items() if not re.search(r"[\u4e00-\u9fff]", text)] == []


def test_each_field_in_which_tasks_may_differ_is_told_in_both_languages() -> None:
    others = ("array", "sweep", "variables", "log_path", "reason", "where", "runs_as", "waited_s", "took_s")
    names = {*ASKED, *BECAME, *others}
    assert {f"field.{name}" for name in names} - ENGLISH.keys() == set()
