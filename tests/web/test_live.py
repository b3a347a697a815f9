"""The WebSocket of a page: the master's JSON-RPC, what is told unasked, and what becomes of it when something ends."""

from __future__ import annotations

import json
import signal

import pytest
from websockets.exceptions import ConnectionClosed

from tests.system.lab import Lab
from tests.waiting import until
from tests.web.console import PASSWORD, Browser, Console, talk


def test_a_page_calls_verbs_and_is_told_of_tasks_and_nodes_over_one_connection(lab: Lab, console: Console) -> None:
    with console.sign_in("root2").live() as page:
        assert page.ask("subscribe", stream="nodes")["nodes"][0]["name"] == lab.nodes[0]
        assert page.ask("subscribe", stream="tasks", snapshot="none").keys() == {"seq"}
        number = page.ask("task.submit", command=["true"], hold=True)["id"]
        assert page.hear("task.changed")["task"]["id"] == number
        assert page.ask("task.remove", id=number)
        assert page.hear("task.changed").items() >= {"id": number, "gone": True}.items()


def test_who_comes_later_gets_all_there_is_and_all_that_comes(console: Console) -> None:
    browser = console.sign_in("root2")
    with browser.live() as early, browser.live() as late:
        early.ask("subscribe", stream="tasks")
        numbers = [early.ask("task.submit", command=["true"], hold=True)["id"] for _ in range(3)]
        there = {task["id"] for task in late.ask("subscribe", stream="tasks")["tasks"]}
        assert set(numbers) <= there
        last = early.ask("task.submit", command=["true"], hold=True)["id"]
        heard = late.hear("task.changed")["task"]["id"]
        while heard != last:
            heard = late.hear("task.changed")["task"]["id"]
        for number in [*numbers, last]:
            early.ask("task.remove", id=number)


def test_of_some_tasks_only_what_becomes_of_them_is_told(console: Console) -> None:
    with console.sign_in("root2").live() as page:
        one, other = (page.ask("task.submit", command=["true"], hold=True)["id"] for _ in range(2))
        assert [task["id"] for task in page.ask("subscribe", stream="tasks", ids=[other])["tasks"]] == [other]
        page.ask("task.remove", id=one)
        page.ask("task.remove", id=other)
        assert page.hear("task.changed").items() >= {"id": other, "gone": True}.items()


def test_a_list_that_is_asked_for_behind_a_subscription_is_as_new_as_what_that_tells(console: Console) -> None:
    with console.sign_in("root2").live() as page:
        number = page.ask("task.submit", command=["true"], hold=True)["id"]
        asked = {"first": ("subscribe", {"ids": [number], "snapshot": "none"}), "second": ("task.list", {})}
        for name, (verb, params) in asked.items():
            page.socket.send(json.dumps({"jsonrpc": "2.0", "id": name, "method": verb, "params": params}))
        answered: list[str] = []
        while len(answered) < len(asked):
            said = json.loads(page.socket.receive())
            answered += [said["id"]] if said.get("id") in asked else []
        assert answered == list(asked)
        page.ask("task.remove", id=number)


def test_a_page_that_leaves_while_the_master_is_silent_takes_no_place_any_more(lab_of_one: Lab) -> None:
    lab_of_one.start()
    with lab_of_one.client() as owner:
        owner.people.add("ann", password=PASSWORD)
    assert lab_of_one.master is not None
    with Console(lab_of_one, bounds={"shares.MOST_OPEN": 1}) as console:
        browser = console.sign_in("ann")
        try:
            with browser.live() as page:
                assert page.answer("subscribe", stream="weather")["error"]["data"]["code"] == "bad_request"
                lab_of_one.master.send_signal(signal.SIGSTOP)
                for number, verb in enumerate(("subscribe", "task.list", "subscribe")):
                    page.socket.send(json.dumps({"jsonrpc": "2.0", "id": f"{number}", "method": verb, "params": {}}))
            until("another page has the place of the one that left", lambda: is_let_in(browser))
        finally:
            lab_of_one.master.send_signal(signal.SIGCONT)


def is_let_in(browser: Browser) -> bool:
    """Whether a page is more than refused at once; the master is not asked."""
    try:
        with browser.live() as page:
            return "error" in page.answer("subscribe", stream="weather")
    except ConnectionClosed:  # with 1013: too many are open
        return False


def test_a_refusal_has_code_key_and_values(console: Console) -> None:
    with console.sign_in("eve").live() as page:
        error = page.answer("task.submit", command="true")["error"]
        assert (error["data"]["code"], error["data"]["key"]) == ("forbidden", "needs_role")
        assert error["data"]["args"]["user"] == "eve"
        assert page.answer("subscribe", stream="weather")["error"]["data"]["code"] == "bad_request"


def test_others_variables_are_told_to_nobody_over_the_stream_that_all_share(console: Console) -> None:
    with console.sign_in("root2").live() as owner, console.sign_in("eve").live() as other:
        other.ask("subscribe", stream="tasks", snapshot="none")
        number = owner.ask("task.submit", command=["true"], hold=True, variables={"SECRET": "gull"})["id"]
        told = other.hear("task.changed")["task"]
        assert (told["id"], told["variables"]) == (number, {})
        owner.ask("task.remove", id=number)


def test_a_log_in_that_may_not_read_is_told_nothing_and_a_wall_what_is_for_everybody(
    lab: Lab, console: Console
) -> None:
    with lab.client() as owner:
        made = [owner.people.new_token(name="root2", scopes=[scope])["token"] for scope in ("submit", "wall")]
    writer, wall = (console.signed_in({"token": token}) for token in made)
    with console.sign_in("root2").live() as page, writer.live() as blind, wall.live() as screen:
        assert blind.answer("subscribe", stream="tasks")["error"]["data"]["code"] == "forbidden"
        screen.ask("subscribe", stream="tasks", snapshot="none")
        number = page.ask("task.submit", command=["echo", "gull"], hold=True)["id"]
        told = screen.hear("task.changed")["task"]
        assert (told["id"], "gull" in json.dumps(told)) == (number, False)
        page.ask("task.remove", id=number)
        assert blind.told == []


@pytest.mark.parametrize("first", ["{}", "no JSON", json.dumps({"key": "wrong"}), json.dumps({"key": ["x"]})])
def test_a_first_message_that_shows_nothing_ends_it(console: Console, first: str) -> None:
    with talk(console, {"Cookie": f"{console.cookie}={console.sign_in('ann').half}"}) as socket:
        socket.send(first)
        with pytest.raises(ConnectionClosed):
            socket.receive()
        assert socket.close_code == 4401


def test_with_privacy_own_each_is_told_what_he_may_see(tmp_path_factory: pytest.TempPathFactory) -> None:
    lab = Lab(tmp_path_factory.mktemp("own") / "lab", nodes=1)
    lab.write_conf(privacy="own")
    lab.start()
    with lab.client() as owner:
        for name in ("ann", "bob"):
            owner.people.add(name, password=PASSWORD)
    with Console(lab) as console, console.sign_in("ann").live() as ann, console.sign_in("bob").live() as bob:
        for page in (ann, bob):
            page.ask("subscribe", stream="tasks", snapshot="none")
        ann.ask("task.submit", command=["echo", "gull"], hold=True)
        assert ann.hear("task.changed")["task"]["command"] == ["echo", "gull"]
        assert bob.hear("task.changed")["task"]["command"] != ["echo", "gull"]
    assert lab.close() == []


def test_when_the_master_goes_a_page_is_told_to_come_again_and_finds_it_when_it_is_back(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    lab = Lab(tmp_path_factory.mktemp("back") / "lab", nodes=1)
    lab.start()
    with lab.client() as owner:
        owner.people.add("ann", password=PASSWORD)
    with Console(lab) as console:
        browser = console.sign_in("ann")
        with browser.live() as page:
            page.ask("subscribe", stream="tasks")
            lab.kill_master()
            assert page.ends() == 1012
        lab.start()

        def answers() -> bool:
            try:
                with browser.live() as page:
                    return bool(page.ask("auth.whoami")["user"] == "ann")
            except ConnectionClosed:
                return False

        until("the page finds it again", answers)
    assert lab.close() == []
