"""The HTTP interface for scripts: things and what is done to them, files and logs, what changes, and refusals."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cases import each_case
from tests.system.lab import Lab
from tests.waiting import until
from tests.web.console import Console
from wire.framing import MOST_VALUES
from wire.message import Message
from wire.routes import BASE, NOT_OVER_HTTP

MIB = 1 << 20


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab with a visible folder, whose tasks run as the master does: nobody else was added but an admin."""
    made = Lab(tmp_path_factory.mktemp("rest") / "lab", nodes=1)
    (made.folder / "data").mkdir()
    made.write_conf(visible_folders=["data"])
    made.start()
    with made.client() as owner:
        owner.people.add("root2", role="admin")
        owner.people.add("eve", role="viewer")
    yield made
    assert made.close() == []


@pytest.fixture(scope="module")
def tokens(lab: Lab) -> dict[str, str]:
    """A token of each user's."""
    with lab.client() as owner:
        return {name: owner.people.new_token(name=name)["token"] for name in ("root2", "eve")}


@pytest.fixture(scope="module")
def admin(console: Console, tokens: dict[str, str]) -> httpx.Client:
    """A script of the admin's."""
    return script(console, tokens["root2"])


def script(console: Console, token: str) -> httpx.Client:
    return console.http(base_url=f"{console.url}{BASE}/", headers={"Authorization": f"Bearer {token}"})


def submit(admin: httpx.Client, *command: str, **keys: Any) -> int:
    made = admin.post("tasks", json={"command": list(command) or ["true"], **keys})
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


def test_a_task_is_submitted_looked_at_changed_and_forgotten(admin: httpx.Client) -> None:
    made = admin.post("tasks", json={"command": ["true"], "hold": True})
    assert (made.status_code, made.headers["location"]) == (201, f"{BASE}/tasks/{made.json()['id']}")
    number = made.json()["id"]
    assert admin.get(f"tasks/{number}").json()["state"] == "held"
    assert admin.patch(f"tasks/{number}", json={"name": "renamed"}).json()["name"] == "renamed"
    assert [one["id"] for one in admin.get("tasks", params={"search": "renamed"}).json()["tasks"]] == [number]
    assert admin.post(f"tasks/{number}/move", json={"position": 1}).status_code == 200
    assert admin.get(f"tasks/{number}/why").status_code == 200
    assert admin.post(f"tasks/{number}/cancel").json()["cancelled"] == [number]
    assert admin.delete(f"tasks/{number}").status_code == 200
    gone = admin.get(f"tasks/{number}")
    assert (gone.status_code, gone.headers["content-type"]) == (404, "application/problem+json")
    assert (gone.json()["code"], gone.json()["key"], gone.json()["args"]) == ("not_found", "no_task", {"id": number})


def test_a_request_that_comes_twice_is_carried_out_once(admin: httpx.Client) -> None:
    twice = [
        admin.post("tasks", json={"command": ["true"], "hold": True}, headers={"Idempotency-Key": "once"}).json()["id"]
        for _ in range(2)
    ]
    assert twice[0] == twice[1]
    other = admin.post("tasks", json={"command": ["false"]}, headers={"Idempotency-Key": "once"})
    assert (other.status_code, other.json()["code"]) == (409, "conflict")
    refused = admin.post(f"tasks/{twice[0]}/hold", headers={"Idempotency-Key": "once"})
    assert (refused.status_code, refused.json()["key"]) == (400, "no_idempotency")
    admin.delete(f"tasks/{twice[0]}")


def test_what_has_not_changed_is_not_sent_again(admin: httpx.Client) -> None:
    number = submit(admin, hold=True)
    first = admin.get(f"tasks/{number}")
    again = {"If-None-Match": first.headers["etag"]}
    assert admin.get(f"tasks/{number}", headers=again).status_code == 304
    admin.patch(f"tasks/{number}", json={"name": "new"})
    assert admin.get(f"tasks/{number}", headers=again).status_code == 200
    admin.delete(f"tasks/{number}")


def test_who_edits_what_somebody_changed_meanwhile_is_told_so_and_changes_nothing(admin: httpx.Client) -> None:
    number = submit(admin, hold=True, name="first")
    mine = {"If-Match": admin.get(f"tasks/{number}").headers["etag"]}
    other = admin.patch(f"tasks/{number}", json={"name": "second"}, headers=mine)
    assert (other.status_code, other.json()["name"]) == (200, "second")
    late = admin.patch(f"tasks/{number}", json={"name": "third"}, headers=mine)
    assert (late.status_code, late.json()["key"], late.json()["args"]) == (412, "task_changed", {"id": number})
    assert late.json()["detail"] == str(Message("task_changed", id=number))
    assert admin.get(f"tasks/{number}").json()["name"] == "second"
    for said in ('W/"7-0123456789abcdef"', '"7"', "x"):
        assert admin.patch(f"tasks/{number}", json={"name": "x"}, headers={"If-Match": said}).status_code == 412
    for held in (other.headers["etag"], "*"):
        assert admin.patch(f"tasks/{number}", json={"priority": 1}, headers={"If-Match": held}).status_code == 200
    unlooked = admin.post(f"tasks/{number}/release", headers=mine)
    assert (unlooked.status_code, unlooked.json()["key"]) == (400, "no_if_match")
    assert admin.get(f"tasks/{number}").json()["state"] == "held"
    admin.delete(f"tasks/{number}")


def test_conf_json_is_changed_over_nobodys_words_and_put_back(admin: httpx.Client, lab: Lab) -> None:
    read = admin.get("conf/conf").json()
    text = json.dumps({**json.loads(read["text"]), "task_env": {"A": "1"}})
    asked = {"text": text, "version": read["version"]}
    looked = admin.put("conf/conf", json={**asked, "dry_run": True}).json()
    assert (looked["changed"], looked["kept"]) == (["task_env"], None)
    before = lab.conf.read_bytes()
    made = admin.put("conf/conf", json=asked).json()
    assert json.loads(lab.conf.read_bytes())["task_env"] == {"A": "1"}
    late = admin.put("conf/conf", json=asked)
    assert (late.status_code, late.json()["key"]) == (409, "registry_changed")
    kept = admin.get("conf/conf/kept").json()[0]
    assert made["kept"].endswith(kept["name"])
    assert admin.put("conf/conf", json={"kept": kept["name"], "version": made["version"]}).status_code == 200
    assert lab.conf.read_bytes() == before
    assert admin.get("conf/psw").status_code == 400


def test_a_preview_makes_nothing(admin: httpx.Client) -> None:
    before = admin.get("tasks").json()["total"]
    assert admin.post("tasks", json={"command": ["true"], "dry_run": True}).status_code == 200
    assert admin.get("tasks").json()["total"] == before


def test_who_means_another_lab_does_not_turn_the_consoles_connection_away(admin: httpx.Client) -> None:
    assert admin.post("rpc/server.hello", json={"lab": "2" * 32}).status_code == 400
    assert admin.post("rpc/server.info", json={}).status_code == 200


@pytest.mark.parametrize("verb", sorted(NOT_OVER_HTTP))
def test_no_verb_that_is_about_a_connection_is_asked_over_http_or_by_a_page(
    console: Console, tokens: dict[str, str], admin: httpx.Client, verb: str
) -> None:
    """Else the line that a log-in's pages share would be somebody else's from then on."""
    assert admin.post(f"rpc/{verb}", json={}).json()["key"] == "verb_of_connections"
    if verb != "subscribe":
        with console.signed_in({"token": tokens["eve"]}).live() as page:
            assert page.answer(verb, token=tokens["root2"])["error"]["data"]["key"] == "verb_of_connections"
            assert page.ask("auth.whoami")["user"] == "eve"


def test_a_form_of_another_site_changes_nothing(console: Console, tokens: dict[str, str]) -> None:
    browser = console.signed_in({"token": tokens["root2"]})
    cookie = {"Cookie": f"{console.cookie}={browser.half}"}
    path, body = f"{BASE}/tasks", {"command": ["true"], "hold": True}
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {}):
        asked = console.http().post(path, json=body, headers={**headers, **cookie, "X-Muster-Key": browser.key})
        assert (asked.status_code, asked.json()["key"]) == (403, "foreign_origin")
    ours = {"Origin": console.url, **cookie}
    assert console.http().post(path, json=body, headers=ours).status_code == 401
    plain = {**ours, "X-Muster-Key": browser.key, "Content-Type": "text/plain"}
    assert console.http().post(path, content=json.dumps(body), headers=plain).json()["key"] == "json_wanted"


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (b"{", "bad_body"),
        (b"[]", "bad_body"),
        (b'{"a": NaN}', "bad_body"),
        (b"\xff", "bad_body"),
        (b'{"command":' + b"[" * 63 + b"]" * 63 + b"}", "no_request"),
        (b'{"command":[' + b",".join([b"1"] * (MOST_VALUES + 1)) + b"]}", "no_request"),
        (b'{"command":[' + b",".join([b"1e15"] * 400_000) + b',"' + b"a" * (14 << 20) + b'"]}', "no_request"),
    ],
    ids=["no end", "a list", "no number", "no text", "too deep", "too many values", "longer as the console writes it"],
)
def test_what_is_no_object_of_json_is_refused(admin: httpx.Client, body: bytes, key: str) -> None:
    asked = admin.post("tasks", content=body, headers={"Content-Type": "application/json"})
    assert (asked.status_code, asked.json()["key"]) == (400, key)


def test_a_file_is_written_read_in_ranges_and_kept_from_who_has_an_old_one(admin: httpx.Client, lab: Lab) -> None:
    path = "files/data/名字 (1).bin"
    data = os.urandom(3 * MIB + 17)
    made = admin.put(path, content=data)
    assert (made.status_code, made.json()["size"]) == (201, len(data))
    got = admin.get(path)
    assert got.content == data
    assert got.headers["content-disposition"].startswith("attachment;")
    assert "sandbox" in got.headers["content-security-policy"]
    assert got.headers["content-type"] == "application/octet-stream"
    for said, part in (("bytes=5-9", data[5:10]), ("bytes=-7", data[-7:]), (f"bytes={len(data) - 3}-", data[-3:])):
        piece = admin.get(path, headers={"Range": said})
        assert (piece.status_code, piece.content) == (206, part)
    beyond = admin.get(path, headers={"Range": f"bytes={len(data)}-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, f"bytes */{len(data)}")
    tag = got.headers["etag"]
    assert admin.get(path, headers={"If-None-Match": tag}).status_code == 304
    assert admin.put(path, content=b"new", headers={"If-Match": tag}).status_code == 200
    late = admin.put(path, content=b"late", headers={"If-Match": tag})
    assert (late.status_code, late.json()["key"]) == (412, "file_changed")
    assert admin.put(path, content=b"x", headers={"If-None-Match": "*"}).json()["key"] == "file_is_there"
    assert (lab.folder / "data" / "名字 (1).bin").read_bytes() == b"new"
    assert admin.delete(path).status_code == 200


def test_an_upload_that_broke_off_goes_on_also_over_another_console(
    console: Console, admin: httpx.Client, lab: Lab
) -> None:
    data, half = os.urandom(2 * MIB), MIB + 11
    size = len(data)

    def part(begin: int, end: int, **headers: str) -> httpx.Response:
        said = {"Content-Range": f"bytes {begin}-{end - 1}/{size}", **headers}
        return admin.put("files/data/big", content=data[begin:end], headers=said)

    first = part(0, half)
    assert (first.status_code, first.headers["range"]) == (308, f"bytes=0-{half - 1}")
    assert not (lab.folder / "data" / "big").exists()
    console.kill()
    console.start()
    mine = {"X-Muster-Upload": first.headers["x-muster-upload"]}
    asked = admin.put("files/data/big", headers={"Content-Range": f"bytes */{size}", **mine})
    assert asked.headers["range"] == f"bytes=0-{half - 1}"
    twice = part(0, half, **mine)  # what is there already changes nothing
    assert twice.headers["range"] == f"bytes=0-{half - 1}"
    assert part(half, size, **mine).status_code == 201
    assert (lab.folder / "data" / "big").read_bytes() == data


def test_a_file_that_another_takes_the_place_of_breaks_off_and_mixes_nothing(admin: httpx.Client, lab: Lab) -> None:
    place, other = lab.folder / "data" / "model", lab.folder / "data" / "other"
    place.write_bytes(b"a" * 64 * MIB)
    other.write_bytes(b"b" * 64 * MIB)

    def fetch() -> None:
        with admin.stream("GET", "files/data/model") as answer:
            for data in answer.iter_raw(MIB):
                assert set(data) == {ord("a")}
                if other.exists():
                    other.rename(place)

    with pytest.raises(httpx.RemoteProtocolError):
        fetch()
    assert admin.get("files/data/model").content == b"b" * 64 * MIB


def test_a_file_that_another_takes_the_place_of_is_named_and_mixes_nothing(admin: httpx.Client, lab: Lab) -> None:
    made = lab.folder / "data" / "replaced"
    made.mkdir()
    others = lab.folder / "data" / "others"
    others.mkdir()
    for name in ("first", "second"):
        (made / name).write_bytes(b"a" * 64 * MIB)
        (others / name).write_bytes(b"b" * 65 * MIB)
    kept = io.BytesIO()
    with admin.stream("GET", "files/data/replaced", params={"zip": "1"}) as answer:
        for data in answer.iter_raw(MIB):
            kept.write(data)
            for name in ("second", "first"):  # the one that is being sent comes last
                if (others / name).exists():
                    (others / name).rename(made / name)
    with zipfile.ZipFile(kept) as archive:
        assert archive.testzip() is None
        begun, whole, left_out = archive.namelist()
        assert set(archive.read(begun)) == {ord("a")}
        assert archive.read(whole) == b"b" * 65 * MIB
        assert archive.read(left_out).decode().split() == [begun.partition("/")[2]]


def test_two_programs_that_send_to_one_path_in_pieces_send_a_file_each(admin: httpx.Client, lab: Lab) -> None:
    sent, names = {name: name.encode() * 2 * MIB for name in "ab"}, dict[str, str]()

    def part(name: str, begin: int, end: int, **headers: str) -> httpx.Response:
        said = {"Content-Range": f"bytes {begin}-{end - 1}/{2 * MIB}", **headers}
        return admin.put("files/data/both", content=sent[name][begin:end], headers=said)

    for name in sent:
        first = part(name, 0, MIB)
        assert (first.status_code, first.headers["range"]) == (308, f"bytes=0-{MIB - 1}"), name
        names[name] = first.headers["x-muster-upload"]
    unnamed = part("b", MIB, 2 * MIB)
    assert (unnamed.status_code, unnamed.json()["key"]) == (400, "upload_not_named")
    for name, data in sent.items():
        last = part(name, MIB, 2 * MIB, **{"X-Muster-Upload": names[name]})
        assert last.status_code in (200, 201), name
        assert (lab.folder / "data" / "both").read_bytes() == data


def test_nobody_leaves_the_visible_folders(admin: httpx.Client) -> None:
    for path in ("files/../conf.json", "files/data/..%2f..%2fconf.json", "files/conf.json", "files/%2fetc/passwd"):
        assert admin.get(path).status_code in (400, 403, 404), path


def test_a_ticket_downloads_once_and_from_nowhere_else(console: Console, tokens: dict[str, str]) -> None:
    script(console, tokens["root2"]).put("files/data/t.html", content=b"<script src=evil.js></script>")
    browser = console.signed_in({"token": tokens["root2"]})
    made = browser.http.post("/tickets", json={"path": "files/data/t.html"}).json()["url"]
    assert console.by_proxy("10.7.0.9").get(made).status_code == 404
    made = browser.http.post("/tickets", json={"path": "files/data/t.html"}).json()["url"]
    with console.http() as download:
        got = download.get(made)
        assert (got.status_code, got.content) == (200, b"<script src=evil.js></script>")
        assert got.headers["content-disposition"].startswith("attachment;")
        assert "sandbox" in got.headers["content-security-policy"]
        assert download.get(made).status_code == 404
    for path in ("conf.json", "tasks/x/log", "rpc/server.stop"):
        assert browser.http.post("/tickets", json={"path": path}).json()["key"] == "no_ticket_for"


def test_a_number_that_is_none_is_no_defect_of_ours(admin: httpx.Client) -> None:
    number = submit(admin, hold=True)
    assert admin.get(f"tasks/{number}/log", params={"rank": "9" * 5000}).status_code < 500
    assert admin.get(f"tasks/{'9' * 5000}").status_code < 500
    admin.delete(f"tasks/{number}")


WRONG_QUERIES = {
    "a part that is no number": ("GET", "tasks/{id}/log?rank=abc", "wrong_value"),
    "a part below the first": ("GET", "tasks/{id}/log?rank=-1", "wrong_value"),
    "a part of digits that are not ASCII": ("GET", "tasks/{id}/log?rank=٣", "wrong_value"),
    "a part that there is not": ("GET", "tasks/{id}/log?rank=7", "no_rank"),
    "a log that is followed or not": ("GET", "tasks/{id}/log?follow=yes", "wrong_value"),
    "a log that is followed twice": ("GET", "tasks/{id}/log?follow=1&follow=0", "parameter_twice"),
    "the end of a log": ("GET", "tasks/{id}/log?tail=10", "no_parameter"),
    "a ZIP or not": ("GET", "files/data?zip=yes", "wrong_value"),
    "a folder from two names on": ("GET", "files/data?after=a&after=b", "parameter_twice"),
    "a folder from a number on": ("GET", "files/data?offset=7", "no_parameter"),
    "a file with its folders or not": ("PUT", "files/data/wrong?parents=yes", "wrong_value"),
    "a file that is overwritten or not": ("PUT", "files/data/wrong?overwrite=0", "no_parameter"),
    "a folder that is deleted with what is in it or not": ("DELETE", "files/data/full?recursive=True", "wrong_value"),
    "a file that is deleted by force": ("DELETE", "files/data/full?force=1", "no_parameter"),
    "a page of the visible folders": ("GET", "files?limit=1", "no_parameter"),
    "two streams": ("GET", "events?stream=tasks&stream=nodes", "parameter_twice"),
    "some tasks of a stream": ("GET", "events?ids=1", "no_parameter"),
    "some tasks by a limit that is no number": ("GET", "tasks?limit=abc", "wrong_value"),
    "some tasks from a time that is none": ("GET", "tasks?since=yesterday", "wrong_value"),
    "active tasks or not": ("GET", "tasks?active=yes", "wrong_value"),
    "an id that is in the path already": ("GET", "tasks/{id}?id=7", "no_parameter"),
    "a submit with its parameters in the query": ("POST", "tasks?hold=true", "no_parameter"),
    "a verb with its parameters in the query": ("POST", "rpc/task.cancel?ids=1", "no_parameter"),
    "a delete with its parameters in the query": ("DELETE", "tasks/{id}?if_seq=7", "no_parameter"),
    "the user by name": ("GET", "me?name=root2", "no_parameter"),
    "a part of the document": ("GET", "openapi.json?verb=task.list", "no_parameter"),
}


def test_what_a_query_may_not_say_is_refused_and_nothing_is_done(admin: httpx.Client, lab: Lab) -> None:
    (lab.folder / "data" / "full" / "deep").mkdir(parents=True)
    number = submit(admin, hold=True)
    before = admin.get("tasks").json()["total"]

    with each_case() as cases:
        for what, (method, path, key) in WRONG_QUERIES.items():
            body: dict[str, Any] = {"json": {"command": ["true"]}} if method == "POST" else {}
            # A stream, for one that is not refused may go on for ever.
            with cases.case(what), admin.stream(method, path.format(id=number), **body) as answer:
                assert answer.status_code == (404 if key == "no_rank" else 400)
                assert json.loads(answer.read())["key"] == key
    assert admin.get("tasks").json()["total"] == before
    assert (lab.folder / "data" / "full" / "deep").is_dir()
    assert not (lab.folder / "data" / "wrong").exists()
    admin.delete(f"tasks/{number}")


def test_what_changes_is_followed_by_a_script_and_who_comes_again_misses_nothing(admin: httpx.Client) -> None:
    with admin.stream("GET", "events", params={"stream": "tasks"}) as following:
        events = read_events(following)
        kind, _, data = next(events)
        assert (kind, "tasks" in data) == ("snapshot", True)
        number = submit(admin, hold=True)
        kind, last, data = next(events)
        assert (kind, data["task"]["id"]) == ("task.changed", number)
    admin.delete(f"tasks/{number}")
    with admin.stream("GET", "events", headers={"Last-Event-ID": last}) as again:
        assert next(read_events(again))[2].items() >= {"id": number, "gone": True}.items()
    with admin.stream("GET", "events", headers={"Last-Event-ID": "of-another-console-9"}) as other:
        assert next(read_events(other))[0] == "snapshot"


def read_events(response: httpx.Response) -> Iterator[tuple[str, str, Any]]:
    """Kind, id and data of each."""
    found: dict[str, str] = {}
    for line in response.iter_lines():
        name, _, value = line.partition(": ")
        if not line and found:
            yield found["event"], found["id"], json.loads(found["data"])
            found = {}
        elif name in ("event", "id", "data"):
            found[name] = value


def test_how_it_goes_is_told_to_who_watches(console: Console, tokens: dict[str, str]) -> None:
    with console.http() as anybody:
        assert anybody.get("/healthz").text == anybody.get("/readyz").text == "ok\n"
        assert anybody.get("/metrics").status_code == 401
        shown = {"Authorization": f"Bearer {tokens['eve']}"}
        until(
            "the node is online",
            lambda: 'muster_nodes{state="online"} 1\n' in anybody.get("/metrics", headers=shown).text,
        )
        got = anybody.get("/metrics", headers=shown)
    assert got.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    told = got.text
    assert told.endswith("\n# EOF\n"), "what breaks off before is no whole answer"
    assert all(re.fullmatch(r'#.*|[a-z_]+(\{([a-z]+="[^"\n]*",?)*\})? -?[0-9.e+]+', line) for line in told.splitlines())


def test_the_request_that_is_printed_for_curl_is_answered(
    lab: Lab, console: Console, tokens: dict[str, str], tmp_path: Path
) -> None:
    lab.write_conf(web={"port": console.port, "hosts": ["localhost"], "proxies": ["127.0.0.2"]})
    printed = lab.muster("api", "task.list", "limit=0", "--curl").stdout
    assert tokens["eve"] not in printed
    done = subprocess.run(
        ["bash", "-c", printed], env={**os.environ, "MUSTER_TOKEN": tokens["eve"]}, cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert json.loads(done.stdout)["tasks"] == [], done.stderr
