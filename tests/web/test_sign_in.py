"""Signing in from a browser: two halves, what each is worth alone, and when it ends."""

from __future__ import annotations

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from master.core.people.people import SCREEN_S, SESSION_S
from tests.attack.test_planted_logs import as_account
from tests.rights import need_users
from tests.system.lab import Lab
from tests.waiting import until
from tests.web.console import PASSWORD, Browser, Console, talk


def is_in(browser: Browser) -> bool:
    """Is this log-in still one?"""
    return browser.http.get("/api/v1/me").status_code == 200


def test_somebody_signs_in_and_is_whom_the_master_says(console: Console) -> None:
    me = console.sign_in("ann").http.get("/api/v1/me").json()
    assert (me["user"], me["role"], me["via"], me["privacy"]) == ("ann", "user", "session", "open")


def test_the_cookie_is_for_this_host_alone_and_no_script_reads_it(console: Console) -> None:
    words = set(console.sign_in("ann").set_cookie.split("; ")[1:])
    assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} <= words
    assert not any(word.lower().startswith("domain") for word in words)


def test_a_browser_keeps_the_cookie_as_long_as_the_log_in_can_last(lab: Lab, console: Console) -> None:
    with lab.client() as owner:
        screen = owner.people.new_token(name="ann", scopes=["wall"])["token"]
    assert f"; Max-Age={SESSION_S:.0f}" in console.sign_in("ann").set_cookie
    assert f"; Max-Age={SCREEN_S:.0f}" in console.signed_in({"token": screen}).set_cookie


def test_one_half_without_the_other_opens_nothing(console: Console) -> None:
    browser = console.sign_in("ann")
    with console.http() as thief:
        cookie = {"Cookie": f"{console.cookie}={browser.half}"}
        for stolen in (cookie, {"X-Muster-Key": browser.key}, {**cookie, "X-Muster-Key": browser.key[::-1]}):
            assert thief.get("/api/v1/me", headers=stolen).status_code == 401
        assert thief.get("/api/v1/me", headers={**cookie, "X-Muster-Key": browser.key}).status_code == 200


def test_a_page_of_another_site_signs_nobody_in_and_opens_no_socket(console: Console) -> None:
    browser = console.sign_in("ann")
    form = {"user": "ann", "password": PASSWORD}
    for origin in ("https://evil.example", None):
        headers = {} if origin is None else {"Origin": origin}
        with console.http() as http:
            assert http.post("/session", json=form, headers=headers).status_code == 403
    with talk(console, {"Cookie": f"{console.cookie}={browser.half}"}, origin="https://evil.example") as socket:
        with pytest.raises(ConnectionClosed):
            socket.receive()
        assert socket.close_code == 4403


def test_what_one_account_of_the_consoles_machine_guesses_keeps_no_other_out(console: Console) -> None:
    need_users()
    console.http().get("/healthz")  # the other account may not be able to load what that needs
    guesser = console.http(headers={"Origin": console.url})

    def guess() -> None:
        codes = [guesser.post("/session", json={"user": "ann", "password": "wrong one"}).status_code for _ in range(7)]
        assert codes[0] == 401
        assert codes[-1] == 429

    assert as_account(4301, guess) == ""
    assert is_in(console.sign_in("ann"))


def test_who_guesses_waits_and_others_do_not(lab: Lab, console: Console) -> None:
    with lab.client() as owner:
        owner.people.add("guessed", password=PASSWORD)

    def tried(address: str, password: str) -> int:
        words = {"user": "guessed", "password": password}
        return console.by_proxy(address).post("/session", json=words).status_code

    assert [tried("10.7.0.1", "wrong wrong wrong") for _ in range(6)] == [401] * 5 + [429]
    assert tried("10.7.0.1", PASSWORD) == 429
    assert tried("10.7.0.2", PASSWORD) == 200
    with lab.client() as owner:
        assert {one["from"] for one in owner.people.tokens("guessed")} == {"10.7.0.2"}


def test_a_stolen_pair_of_cookie_and_key_over_plain_http_is_sent_to_https_and_not_heard(console: Console) -> None:
    browser = console.sign_in("ann")
    plain = {"X-Forwarded-Proto": "http", "X-Muster-Key": browser.key, "Cookie": f"{console.cookie}={browser.half}"}
    far = console.by_proxy("10.7.0.3", **plain)
    looked = far.get("/api/v1/me?a=b")
    assert (looked.status_code, looked.headers["location"]) == (307, f"{console.url}/api/v1/me?a=b")
    words = {"user": "ann", "password": PASSWORD}
    refused = far.post("/session", json=words)
    assert (refused.status_code, refused.json()["key"]) == (403, "plain_sign_in")


def test_from_this_machine_plain_http_is_heard_as_over_a_tunnel(console: Console) -> None:
    plain = console.http(base_url=f"http://localhost:{console.port}")
    assert plain.get("/session").json()["is_shared"] is True
    words = {"user": "ann", "password": PASSWORD}
    origin = {"Origin": f"http://localhost:{console.port}"}
    assert plain.post("/session", json=words, headers=origin).status_code == 200


def test_a_link_works_once(lab: Lab, console: Console) -> None:
    with lab.client() as owner:
        owner.people.add("linked")
        link = owner.people.link("linked")["link"]
    browser = console.signed_in({"link": link, "password": "seven slow lanterns hum"})
    assert browser.http.get("/api/v1/me").json()["user"] == "linked"
    again = browser.http.post("/session", json={"link": link, "password": "seven slow lanterns hum"})
    assert (again.status_code, again.json()["key"]) == (401, "no_such_link")


def test_what_is_made_of_a_token_may_no_more_than_that_and_ends_with_it(lab: Lab, console: Console) -> None:
    with lab.client() as owner:
        made = owner.people.new_token(name="ann", scopes=["read"])
    browser = console.signed_in({"token": made["token"]})
    with browser.live() as page:
        assert page.ask("auth.whoami")["scopes"] == ["read"]
        assert page.answer("task.submit", command="true")["error"]["data"]["code"] == "forbidden"
        assert page.answer("token.new")["error"]["data"]["code"] == "forbidden"
        with lab.client() as owner:
            owner.people.revoke_tokens([made["id"]])
        assert page.ends() == 4401
    assert not is_in(browser)


def test_who_is_disabled_is_cut_off_at_once_also_where_he_only_looks_on(lab: Lab, console: Console) -> None:
    with lab.client() as owner:
        owner.people.add("leaver", password=PASSWORD)
    browser = console.sign_in("leaver")
    with browser.live() as page:
        page.ask("subscribe", stream="nodes")
        with lab.client() as owner:
            owner.people.disable("leaver")
        assert page.ends() == 4401
    assert not is_in(browser)


def test_signing_out_ends_it_and_no_other(console: Console) -> None:
    one, other = console.sign_in("ann"), console.sign_in("ann")
    assert one.http.delete("/session").status_code == 204
    assert not is_in(one)
    assert is_in(other)
    with other.live() as page:
        sessions = {mine["id"] for mine in page.ask("token.list")}
        assert other.session in sessions
        assert one.session not in sessions


def test_a_log_in_outlives_both_processes(tmp_path_factory: pytest.TempPathFactory) -> None:
    lab = Lab(tmp_path_factory.mktemp("again") / "lab", nodes=1)
    lab.start()
    with lab.client() as owner:
        owner.people.add("ann", password=PASSWORD)
    with Console(lab) as console:
        browser = console.sign_in("ann")
        lab.kill_master()
        assert browser.http.get("/api/v1/me").status_code == 503
        lab.start()
        until("it is a log-in again", lambda: is_in(browser))
        console.kill()
        console.start()
        assert is_in(browser)
    assert lab.close() == []


def test_the_root_that_people_install_is_believed_for_this_console_and_nobody_else(console: Console) -> None:
    with httpx.Client(verify=False, base_url=console.url) as nobody:  # noqa: S501  (who has no root yet)
        got = nobody.get("/authority.pem")
        assert got.content == (console.lab.task_info / "web" / "authority.pem").read_bytes()
        assert got.headers["content-disposition"].startswith("attachment")
    with pytest.raises(httpx.ConnectError), httpx.Client(base_url=console.url) as stranger:
        stranger.get("/session")
