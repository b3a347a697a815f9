"""The pictures of docs/web.md: `python -m tests.web.pictures [NAME…]` (`make screenshots`) makes those in docs/web
anew, or those of these names.

A real master and console, in the system's Chromium. Each page in English, and in Chinese where its text is what it
shows.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from playwright.sync_api import Browser, Page

from client.api import Client
from tests.system.lab import ROOT
from tests.waiting import NeverError
from tests.web.browser import NARROW, Visit, chromium, end, need_chromium, signed_in, visit
from tests.web.console import Console
from tests.web.pictured_lab import pictured_lab, records_lost

FOLDER = ROOT / "docs" / "web"
LAB = Path("/srv/queue")
"""Where the lab lies meanwhile: pictures show paths, and those of a lab, not of who made them."""
SIZE = (1280, 760)
SETTLE_S = 1.5
TO_TOP = "document.querySelectorAll('main, .panel').forEach((one) => { one.scrollTop = 0; })"
MOST_BYTES, MOST_TOGETHER = 150_000, 1_500_000


class Picture(NamedTuple):
    """One of a page: its file's name, the page's address, what is there once it is whole, and what is done before."""

    name: str
    path: str
    awaited: str
    languages: tuple[str, ...] = ("en", "zh-CN")
    does: Callable[[Page], None] | None = None
    theme: str = "light"
    size: tuple[int, int] = SIZE


def _write_command(page: Page) -> None:
    page.fill("textarea[name=command]", "python train.py --model vit-large --epochs 300")
    page.fill("input[name=gpus]", "2")
    page.fill("input[name=name]", "vit-large-300")
    page.fill("input[name=node]", "gpu4")
    page.wait_for_selector(".placement .list")
    page.evaluate(TO_TOP)


def _change_wish(page: Page) -> None:
    page.fill(".edit input[name=gpus]", "4-8")
    page.fill(".edit input[name=priority]", "2")
    page.evaluate(TO_TOP)


def _open_group(page: Page) -> None:
    page.locator("tr.group button").first.click()


def _see_error(page: Page) -> None:
    page.keyboard.press("e")
    page.wait_for_selector(".log-line")


def _see_change(page: Page) -> None:
    field = page.locator("textarea.file-text")
    field.fill(field.input_value().replace('"grace_s": 2.0', '"grace_s": 10.0,\n    "reserve_after": 7200'))
    page.keyboard.press("Control+s")
    page.wait_for_selector("dialog .diff")


def _see_unknown(page: Page) -> None:
    page.locator("section", has=page.locator(ADOPT)).scroll_into_view_if_needed()


ADOPT = "button[title*='--adopt']"
AFTER_A_LOSS = (
    Picture("unknown", "nodes/gpu4", ADOPT, does=_see_unknown),
    Picture("server-log", "admin/log", ".log-line", ("en",)),
)


def pictures(client: Client) -> list[Picture]:
    """All but the page to sign in, and those of AFTER_A_LOSS."""
    ids = {task["name"]: task["id"] for task in client.tasks(ended=True)} | {
        task["name"]: task["id"] for task in client.tasks()
    }
    failed, running, waiting = ids["detr-coco"], ids["vit-large-imagenet"], ids["diffusion-xl"]
    swept, broken, well = (ids[f"vit-lr{name}"] for name in ("1e-4-wd0.01", "1e-3-wd0.05", "1e-4-wd0.05"))
    return [
        Picture("overview", "", ".day figcaption"),
        Picture("queue", "queue?show=all", "td.of-why"),
        Picture("groups", "queue?show=all&group=array", "tr.group", ("en",), _open_group),
        Picture("sweep", f"sweeps/{swept}", ".matrix"),
        Picture("why", f"tasks/{waiting}?tab=why", ".why-reason"),
        Picture("log", f"tasks/{running}", ".log-line", ("en",)),
        Picture("error", f"tasks/{failed}", ".log-line", ("en",), _see_error),
        Picture("details", f"tasks/{running}?tab=details", ".details .card", ("en",)),
        Picture("compare", f"tasks/{broken}?tab=compare&with={well}", ".compare-table"),
        Picture("edit", f"tasks/{waiting}?tab=edit", ".edit form", does=_change_wish),
        Picture("submit", f"submit?like={running}", "textarea[name=command]", does=_write_command),
        Picture("nodes", "nodes", ".gpu", ("en",)),
        Picture("node", "nodes/gpu2", "td:has-text('°C')"),
        Picture("files", "files/data", "td.of-name", ("en",)),
        Picture("environments", "environments?env=pytorch-2.4", ".env-packages td.of-package", ("en",)),
        Picture("admin", "admin/users?at=li", "form input[name=display]"),
        Picture("settings", "admin/settings", "td", ("en",)),
        Picture("conf", "admin/conf", "textarea.file-text", does=_see_change),
        Picture("registry", "admin/conf?file=registry", "textarea.file-text", ("en",)),
        Picture("me", "me", "table td", ("en",)),
        Picture("wall", "wall", ".wall-node", ("en",), theme="dark"),
        Picture("phone", "queue", "td.of-name", size=NARROW),
    ]


def main(names: list[str]) -> int:
    """Make them, or those of these `names`; 1 where one is larger than it may be."""
    need_chromium()
    if not subprocess.run(["fc-list", ":lang=zh"], capture_output=True, check=True).stdout:
        raise NeverError("no font here has Chinese signs: apt install fonts-noto-cjk")
    LAB.mkdir(parents=True)
    FOLDER.mkdir(exist_ok=True)
    try:
        with pictured_lab(LAB) as (lab, console), chromium() as browser, lab.client() as client:
            if not names or "sign-in" in names:
                _sign_in(browser, console)
            _all(browser, console, [one for one in pictures(client) if not names or one.name in names])
            after = [one for one in AFTER_A_LOSS if not names or one.name in names]
            if after:
                with records_lost(lab):
                    _all(browser, console, after)
    finally:
        end()
        shutil.rmtree(LAB)
    return _weigh()


def _sign_in(browser: Browser, console: Console) -> None:
    for language in ("en", "zh-CN"):
        with visit(browser, console, language=language, size=SIZE) as seen:
            seen.page.goto(console.url)
            seen.page.wait_for_selector("input[name=user]")
            _keep(seen, "sign-in", language)


def _all(browser: Browser, console: Console, wanted: list[Picture]) -> None:
    for one in wanted:
        for language in one.languages:
            with signed_in(browser, console, "wang", language=language, size=one.size, theme=one.theme) as seen:
                seen.page.goto(f"{console.url}/{one.path}")
                seen.page.wait_for_selector(one.awaited)
                if one.does:
                    one.does(seen.page)
                _keep(seen, one.name, language)


def _keep(seen: Visit, name: str, language: str) -> None:
    """Once what it asks for has come."""
    time.sleep(SETTLE_S)
    path = FOLDER / f"{name}{'' if language == 'en' else '.zh-CN'}.png"
    image = Image.open(BytesIO(seen.page.screenshot())).convert("RGB")
    image.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)
    sys.stdout.write(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB\n")


def _weigh() -> int:
    sizes = {path.name: path.stat().st_size for path in FOLDER.glob("*.png")}
    heavy = [name for name, size in sizes.items() if size > MOST_BYTES]
    sys.stdout.write(f"{len(sizes)} pictures, {sum(sizes.values()) / 1000:.0f} kB\n")
    if heavy or sum(sizes.values()) > MOST_TOGETHER:
        sys.stderr.write(f"too large: {', '.join(heavy) or 'all of them together'}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
