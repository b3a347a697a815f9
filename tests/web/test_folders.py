"""A folder comes down as one archive and goes up file by file, and nothing that its links lead to elsewhere."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.system.lab import Lab
from tests.web.console import Console
from wire.routes import BASE

OUTSIDE = b"the master's own"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab whose files are touched as the master does: nobody else was added but an admin and a viewer. What others
    get of each other's folders is the walk's matter (`tests/attack`)."""
    made = Lab(tmp_path_factory.mktemp("folders") / "lab", nodes=1)
    (made.folder / "data").mkdir()
    made.write_conf(visible_folders=["data"])
    made.start()
    with made.client() as owner:
        for name, role in (("root2", "admin"), ("eve", "viewer")):
            owner.people.add(name, role=role)
    yield made
    assert made.close() == []


@pytest.fixture(scope="module")
def console(lab: Lab) -> Iterator[Console]:
    """One for which little is much."""
    with Console(lab, bounds={"zip_downloads.MOST_ENTRIES": 20, "zip_downloads.MOST_BYTES": 5 << 20}) as made:
        yield made


def script(console: Console, name: str) -> httpx.Client:
    with console.lab.client() as owner:
        token = owner.people.new_token(name=name)["token"]
    return console.http(base_url=f"{console.url}{BASE}/", headers={"Authorization": f"Bearer {token}"})


@pytest.fixture
def folder(lab: Lab) -> Path:
    """With a folder in it, an empty one, and links of all kinds."""
    (lab.folder / "secret").write_bytes(OUTSIDE)
    (lab.folder / "data" / "elsewhere.txt").write_bytes(b"beside it")
    made = lab.folder / "data" / "实验"
    if made.exists():
        return made
    (made / "runs").mkdir(parents=True)
    (made / "empty").mkdir()
    (made / "runs" / "权重.pt").write_bytes(os.urandom(3 << 20))
    (made / "a\\..\\b").write_bytes(b"a name")
    (made / "none").write_bytes(b"")
    (made / "out").symlink_to("../../secret")
    (made / "out-folder").symlink_to("/etc")
    (made / "loop").symlink_to(".")
    (made / "nowhere").symlink_to("gone")
    (made / "inside").symlink_to("../elsewhere.txt")
    return made


def test_a_folder_comes_as_one_archive_without_what_its_links_lead_to_elsewhere(console: Console, folder: Path) -> None:
    got = script(console, "root2").get("files/data/实验", params={"zip": "1"})
    assert (got.status_code, got.headers["content-type"]) == (200, "application/zip")
    assert got.headers["content-disposition"].endswith("%E5%AE%9E%E9%AA%8C.zip")
    with zipfile.ZipFile(io.BytesIO(got.content)) as archive:
        assert archive.testzip() is None
        assert set(archive.namelist()) == {
            "实验/runs/", "实验/runs/权重.pt", "实验/empty/", "实验/none", "实验/a_.._b", "实验/inside",
            "实验.left-out.txt",
        }  # fmt: skip
        assert archive.read("实验/runs/权重.pt") == (folder / "runs" / "权重.pt").read_bytes()
        assert archive.read("实验/inside") == b"beside it"
        left_out = archive.read("实验.left-out.txt").decode().splitlines()
        assert sorted(left_out) == ["loop", "nowhere", "out", "out-folder"]
    assert OUTSIDE not in got.content


def test_a_browser_fetches_it_with_a_ticket(lab: Lab, console: Console, folder: Path) -> None:
    with lab.client() as owner:
        browser = console.signed_in({"token": owner.people.new_token(name="root2")["token"]})
    made = browser.http.post("/tickets", json={"path": f"files/data/{folder.name}?zip=1"}).json()["url"]
    with console.http() as download:
        assert zipfile.is_zipfile(io.BytesIO(download.get(made).content))
        assert download.get(made).status_code == 404


def test_a_folder_that_is_too_large_is_refused_before_anything_is_sent(console: Console, lab: Lab) -> None:
    for name, sizes in (("many", [0] * 21), ("large", [3 << 20] * 2)):
        (lab.folder / "data" / name).mkdir()
        for at, size in enumerate(sizes):
            (lab.folder / "data" / name / str(at)).write_bytes(bytes(size))
        refused = script(console, "root2").get(f"files/data/{name}", params={"zip": "1"})
        assert (refused.status_code, refused.json()["key"]) == (429, "archive_too_large")


def test_who_ends_a_download_early_makes_room_for_the_next(console: Console, folder: Path) -> None:
    admin = script(console, "root2")
    for _ in range(20):
        with admin.stream("GET", f"files/data/{folder.name}", params={"zip": "1"}) as download:
            assert download.status_code == 200
            next(download.iter_raw(1000))


def test_a_folder_goes_up_file_by_file_with_the_folders_above_each(console: Console, lab: Lab, folder: Path) -> None:
    admin = script(console, "root2")
    assert admin.put("files/data/new/runs/one", content=b"1").status_code == 404
    for name in ("one", "two"):
        assert admin.put(f"files/data/new/runs/{name}", params={"parents": "1"}, content=b"1").status_code == 201
    assert {one.name for one in (lab.folder / "data" / "new" / "runs").iterdir()} == {"one", "two"}
    for path in (f"{folder.name}/out-folder/x", "../elsewhere/x"):
        refused = admin.put(f"files/data/{path}", params={"parents": "1"}, content=b"1")
        assert refused.status_code in (400, 403, 404), path
    assert not (lab.folder / "elsewhere").exists()
    seen = script(console, "eve").put("files/data/other/x", params={"parents": "1"}, content=b"1")
    assert seen.status_code == 403
    assert not (lab.folder / "data" / "other").exists()
