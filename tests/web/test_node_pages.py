"""Nodes in the browser: what each has and who holds it; an admin drains one and looks closely at it."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.master.drivers.real_sshd import USER, RealSshd
from tests.system.lab import Lab
from tests.waiting import until
from tests.web.browser import signed_in
from tests.web.console import Console


def test_an_admin_drains_a_node_and_gives_it_back(browser: Browser, console: Console, lab: Lab) -> None:
    with signed_in(browser, console) as seen:
        seen.go("nodes/node0")
        seen.page.click("button:has-text('Drain')")
        seen.page.fill("dialog input", "new fan 风扇")
        seen.page.click("dialog button.primary")
        expect(seen.page.locator(".node-head .warned")).to_contain_text("new fan 风扇")
        with lab.client() as client:
            assert client.call("node.show", {"name": "node0"})["drained"] == "new fan 风扇"
        seen.page.click("button:has-text('Resume')")
        expect(seen.page.locator(".node-state")).to_have_text("online")


def test_a_gpu_shows_whose_task_holds_it(browser: Browser, console: Console, lab: Lab) -> None:
    with lab.client() as client:
        number = client.submit(["sleep", "600"], gpus=2, name="holder")
        until("it runs", lambda: client.show(number)["state"] == "running")
    with signed_in(browser, console, "ann") as seen:
        seen.go("nodes")
        assert seen.count(".gpu.is-other:not(.is-small)") == 2
        seen.page.click("td.of-name a")
        expect(seen.page.locator("td a", has_text="holder")).to_have_count(2)
        buttons = seen.page.locator(".node-head button")
        assert {buttons.nth(at).get_attribute("title") for at in range(2)} == {"This is for admins."}
    with lab.client() as client:
        client.cancel([number])


def test_a_gpu_that_was_set_aside_is_returned_also_while_a_task_holds_it(
    browser: Browser, console: Console, lab: Lab
) -> None:
    with lab.client() as client:
        number = client.submit(["sleep", "600"], gpus=1, name="holder")
        until("it runs", lambda: client.show(number)["state"] == "running")
        (held,) = client.show(number)["allocation"][0]["gpus"]
        client.call("node.drain", {"name": "node0", "gpus": [held], "reason": "fan"})
        try:
            with signed_in(browser, console) as seen:
                seen.go("nodes/node0")
                expect(seen.page.locator("tr", has_text="holder")).to_contain_text("fan")
                seen.page.get_by_role("button", name="Return it").click()
                expect(seen.page.locator("tr", has_text="holder")).not_to_contain_text("fan")
                expect(seen.page.get_by_role("button", name="Return it")).to_have_count(0)
        finally:
            client.cancel([number])


def test_a_node_shows_for_which_task_its_gpus_are_kept(browser: Browser, console: Console, lab: Lab) -> None:
    with lab.client() as client:
        count = len(next(node for node in client.nodes() if node["name"] == "node0")["gpus"])
        holder = client.submit(["sleep", "600"], gpus=1, node="node0", time_limit_s=3600)
        until("it runs", lambda: client.show(holder)["state"] == "running")
        large = client.submit(["true"], gpus=count, node="node0", urgent=True)
        try:
            with signed_in(browser, console) as seen:
                seen.go("nodes/node0")
                kept = seen.page.locator(f".card p a[href='tasks/{large}']")
                expect(kept).to_contain_text(
                    f"GPU 0-{count - 1} reserved for task {large}, which is expected to start by"
                )
                seen.go("nodes")
                listed = seen.page.locator("main")
                expect(listed).to_contain_text(f"reserved for task {large}, which is expected to start by")
                client.cancel([large])
                expect(listed).not_to_contain_text("reserved for task")
        finally:
            client.cancel([holder])


def test_the_doctor_is_asked_from_the_page(browser: Browser, console: Console) -> None:
    with signed_in(browser, console, language="zh-CN") as seen:
        seen.go("nodes/node0")
        seen.page.click("button:has-text('开始体检')")
        expect(seen.page.locator(".verdict").first).to_be_visible()
        assert set(seen.texts(".verdict")) <= {"正常", "警告", "故障", "跳过"}


def test_the_key_of_a_machine_is_looked_at_and_pinned(
    browser: Browser, console: Console, lab: Lab, tmp_path: Path
) -> None:
    server = RealSshd(tmp_path / "sshd")
    server.start()
    entries = json.loads(lab.registry.read_text(encoding="utf-8"))
    there = {"ip": "127.0.0.1", "port": server.port, "user_name": USER, "key_file": str(server.client_key)}
    lab.write_registry([*entries, {"name": "far", "driver": "ssh", "gpu_count": 0, "slots": 1, **there}])
    try:
        with signed_in(browser, console) as seen:
            seen.go("nodes/far")
            seen.page.get_by_role("button", name="Trust its key").click()
            expect(seen.page.locator("dialog[open]")).to_contain_text(server.host_key.fingerprint)
            seen.page.locator("dialog[open] .dialog-actions button").last.click()
            expect(seen.page.get_by_role("button", name="Trust its key")).to_have_count(0)
        with lab.client() as client:
            assert client.call("node.trust", {"name": "far"})["known"] == server.host_key.fingerprint
    finally:
        lab.write_registry(entries)
        server.close()
