"""Files in the browser: long folders, odd names, uploads that go on where they broke off, and what is changed there."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.system.lab import Lab
from tests.waiting import until
from tests.web.browser import Visit, signed_in
from tests.web.console import Console

MANY = 10_000
ROWS = ".table-box tbody tr:not(.spacer)"
HOSTILE = "<img src=x onerror=alert(1)>\u202egpj.exe\x1b[2J"
MIB = 1 << 20
BREAKS_ONCE = """
globalThis.pieces = [];
const whole = globalThis.fetch;
globalThis.fetch = (url, how) => {
  const piece = how?.headers?.["Content-Range"];
  if (!piece) return whole(url, how);
  pieces.push(piece);
  const isFirst = pieces.filter((one) => one === piece).length === 1;
  return piece.startsWith("bytes 8388608-") && isFirst ? Promise.reject(new TypeError("broken")) : whole(url, how);
};
"""
"""The line breaks under the second piece of an upload."""


@pytest.fixture(scope="module", autouse=True)
def data(lab: Lab) -> Path:
    folder = lab.folder / "data"
    (folder / "many").mkdir()
    for number in range(MANY):
        (folder / "many" / f"{number:05}.npy").touch()
    (folder / "many" / "last of all").write_bytes(b"12345")
    (folder / "odd").mkdir()
    for name in (HOSTILE, "王伟的 100%#?.txt", "a\nb"):
        (folder / "odd" / name).write_text(f"in {name}", encoding="utf-8")
    return folder


def test_ten_thousand_files_are_few_elements_and_an_order_goes_over_all_of_them(seen: Visit) -> None:
    seen.go("files/data/many")
    expect(seen.page.locator(ROWS).first).to_be_visible()
    assert int(seen.page.evaluate("document.querySelectorAll('*').length")) < 1_500
    seen.page.click("th button:has-text('Size')")
    seen.page.click("th button:has-text('Size')")
    expect(seen.page.locator("td.of-name").first).to_have_text("last of all")
    expect(seen.page.locator(".action-count")).to_have_text("10,001 entries")
    seen.page.fill(".tools input[type=search]", "0999")
    expect(seen.page.locator(ROWS)).to_have_count(11)


def test_odd_names_are_text_and_lead_to_their_files(seen: Visit) -> None:
    seen.go("files/data/odd")
    shown = r"<img src=x onerror=alert(1)>\u202egpj.exe\x1b[2J"
    expect(seen.page.locator(ROWS)).to_have_count(3)
    assert {shown, r"a\nb", "王伟的 100%#?.txt"} <= set(seen.texts("td.of-name"))
    for name, text in ((shown, f"in {shown}"), (r"a\nb", "in a\nb"), ("王伟的 100%#?.txt", "in 王伟的 100%#?.txt")):
        seen.go("files/data/odd")
        seen.page.locator("td.of-name a").get_by_text(name, exact=True).click()
        expect(seen.page.locator("pre.file-text")).to_have_text(text)
        assert seen.texts("h1") == [name]
    assert seen.count("main img") == 0


def test_enter_in_a_form_leaves_the_clipboard_alone(seen: Visit, data: Path) -> None:
    (data / "enter").mkdir()
    seen.page.add_init_script("copied = []; navigator.clipboard.writeText = async (text) => { copied.push(text); };")
    seen.go("files/data/enter")
    seen.page.keyboard.press("n")
    seen.page.keyboard.type("made")
    seen.page.keyboard.press("Enter")
    expect(seen.page.locator("td.of-name")).to_have_text("made")
    assert seen.page.evaluate("copied") == []


def test_a_command_that_the_browser_does_not_copy_is_selected(seen: Visit, data: Path) -> None:
    (data / "copy").mkdir()
    seen.page.add_init_script("navigator.clipboard.writeText = async () => { throw new Error('denied'); };")
    seen.go("files/data/copy")
    seen.page.keyboard.press("n")
    seen.page.keyboard.type("x")
    seen.page.click("dialog .command button")
    assert seen.page.evaluate("getSelection().toString()") == "muster files mkdir data/copy/x"


def test_a_folder_is_made_renamed_and_deleted_by_keys_alone(seen: Visit, data: Path) -> None:
    (data / "work").mkdir()
    seen.go("files/data/work")
    seen.page.keyboard.press("n")
    seen.page.keyboard.type("新 run")
    assert seen.texts("dialog .command code") == ["muster files mkdir 'data/work/新 run'"]
    seen.page.keyboard.press("Enter")
    expect(seen.page.locator("td.of-name")).to_have_text("新 run")
    (data / "work" / "新 run" / "deep").mkdir()
    seen.page.keyboard.press("j")
    seen.page.keyboard.press("r")
    seen.page.locator("dialog input").fill("run2")
    seen.page.keyboard.press("Enter")
    expect(seen.page.locator("td.of-name")).to_have_text("run2")
    seen.page.keyboard.press("k")
    seen.page.keyboard.press("D")
    expect(seen.page.locator("dialog .hits li")).to_have_text("run2/")
    seen.page.keyboard.press("Enter")
    expect(seen.page.locator("td.of-name")).to_have_count(0)
    assert not (data / "work" / "run2").exists()


def test_the_command_that_deletes_many_names_all_of_them(seen: Visit, data: Path) -> None:
    (data / "dozen").mkdir()
    names = [f"{number:02}" for number in range(13)]
    for name in names:
        (data / "dozen" / name).touch()
    seen.go("files/data/dozen")
    boxes = seen.page.locator("tbody tr:not(.spacer) input")
    expect(boxes).to_have_count(len(names))
    for at in range(len(names)):
        boxes.nth(at).click()
    seen.page.keyboard.press("D")
    expect(seen.page.locator("dialog .hits li")).to_have_count(13)  # 12 of them, and how many more
    paths = [f"data/dozen/{name}" for name in names]
    assert seen.texts("dialog .command code") == [" ".join(["muster files rm", *paths])]


def test_selected_files_of_any_names_stand_in_the_address(seen: Visit, data: Path) -> None:
    (data / "picked").mkdir()
    for name in ("a, b", "100% 新", "c&d=e", "plain"):
        (data / "picked" / name).touch()
    seen.go("files/data/picked")
    boxes, bar = seen.page.locator("tbody tr:not(.spacer) input"), seen.page.locator(".action-count")
    expect(boxes).to_have_count(4)
    for at in (0, 1, 2):
        boxes.nth(at).click()
    expect(bar).to_have_text("3 selected")
    chosen = seen.texts("tr.selected td.of-name")
    seen.page.goto(seen.page.url)
    expect(bar).to_have_text("3 selected")
    assert seen.texts("tr.selected td.of-name") == chosen
    seen.page.goto(seen.page.url[:-1] + "%2")
    expect(seen.page.locator("td.of-name")).to_have_count(4)


def test_a_file_that_is_there_is_replaced_only_when_said_so(seen: Visit, data: Path) -> None:
    (data / "up").mkdir()
    (data / "up" / "model.pt").write_bytes(b"old")
    seen.go("files/data/up")
    sent = [{"name": name, "mimeType": "", "buffer": b"new"} for name in ("model.pt", "更多.txt")]
    seen.page.set_input_files("input[type=file]", sent)  # type: ignore[arg-type]
    expect(seen.page.locator(".upload.is-done")).to_contain_text("更多.txt")
    expect(seen.page.locator("td.of-name")).to_have_count(2)
    assert (data / "up" / "model.pt").read_bytes() == b"old"
    seen.page.click(".upload.is-exists button:has-text('Replace it')")
    expect(seen.page.locator(".upload.is-done")).to_have_count(2)
    assert (data / "up" / "model.pt").read_bytes() == b"new"


def test_an_upload_goes_on_where_the_line_broke(seen: Visit, data: Path, tmp_path: Path) -> None:
    (data / "large").mkdir()
    seen.page.add_init_script(BREAKS_ONCE)
    seen.go("files/data/large")
    content = bytes(range(256)) * (17 * MIB // 256)
    (tmp_path / "big").write_bytes(content)
    seen.page.set_input_files("input[type=file]", tmp_path / "big")
    expect(seen.page.locator(".upload.is-broken")).to_contain_text("goes on by itself")
    expect(seen.page.locator(".upload.is-done")).to_be_visible()
    pieces = seen.page.evaluate("pieces")
    assert pieces.count("bytes 0-8388607/17825792") == 1, "what had come was not sent again"
    assert (data / "large" / "big").read_bytes() == content


def test_a_text_is_changed_with_its_line_ends_and_over_nobody_elses_words(seen: Visit, data: Path) -> None:
    path = data / "notes.txt"
    path.write_bytes("一\r\ntwo\r\n".encode())
    seen.go("files/data/notes.txt")
    expect(seen.page.locator("pre.file-text")).to_contain_text("two")
    seen.page.keyboard.press("e")
    seen.page.locator("textarea.file-text").fill("一\nthree\n")
    seen.page.keyboard.press("Control+s")
    expect(seen.page.locator(".toast")).to_contain_text("notes.txt is saved")
    assert path.read_bytes() == "一\r\nthree\r\n".encode()
    expect(seen.page.locator("pre.file-text")).to_contain_text("three")
    seen.page.keyboard.press("e")
    path.write_bytes(b"of another\r\n")
    seen.page.locator("textarea.file-text").fill("mine")
    seen.page.click("button:has-text('Save')")
    expect(seen.page.locator(".refusal")).to_contain_text("changed")
    assert path.read_bytes() == b"of another\r\n"
    seen.page.click("button:has-text('Put mine in its place')")
    until("mine is there", lambda: path.read_bytes() == b"mine")
    seen.complaints = [one for one in seen.complaints if "412" not in one]


def test_what_was_written_into_a_text_stays_while_one_looks_elsewhere(seen: Visit, data: Path) -> None:
    path = data / "kept.txt"
    path.write_text("one\n", encoding="utf-8")
    seen.go("files/data/kept.txt")
    expect(seen.page.locator("pre.file-text")).to_contain_text("one")
    seen.page.keyboard.press("e")
    seen.page.locator("textarea.file-text").fill("两行\n")
    seen.page.click("nav a[href=nodes]")
    expect(seen.page.locator("td.of-name")).to_have_text("node0")
    path.write_text("of another\n", encoding="utf-8")
    seen.page.go_back()
    expect(seen.page.locator("textarea.file-text")).to_have_value("两行\n")
    seen.page.locator("textarea.file-text").press("Control+s")
    expect(seen.page.locator(".refusal")).to_contain_text("changed")
    seen.page.click("button:has-text('Leave it as it was')")
    expect(seen.page.locator("pre.file-text")).to_contain_text("of another")
    seen.complaints = [one for one in seen.complaints if "412" not in one]


def test_who_may_look_on_only_is_told_so(browser: Browser, console: Console) -> None:
    with signed_in(browser, console, "eve") as seen:
        seen.go("files")
        expect(seen.page.locator(".tools button").first).to_have_attribute("aria-disabled", "true")
        assert "role user" in str(seen.page.locator(".tools button").first.get_attribute("title"))
