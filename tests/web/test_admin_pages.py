"""What admins look after, in the browser: people, tokens, settings, nodes before maintenance, and who changed what."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from client.api import Client
from tests.faults import sentence_of
from tests.system.lab import Lab, rewrite
from tests.waiting import until
from tests.web.browser import Visit, signed_in, visit
from tests.web.console import PASSWORD, Console
from tests.web.javascript import dictionary
from wire.english import SENTENCES

SECRET = "token of the metrics, 44 signs"  # noqa: S105
HOSTILE = "<img src=x onerror=alert(1)>王伟"


def test_a_user_is_added_and_comes_in_with_the_link_that_the_page_shows(
    seen: Visit, browser: Browser, console: Console
) -> None:
    seen.go("admin/users")
    seen.page.click(".tools button.primary")
    seen.page.fill("dialog input[name=name]", "wang")
    seen.page.fill("dialog input[name=display]", HOSTILE)
    assert f"--display '{HOSTILE}' --links" in seen.texts("dialog .command code")[0]
    seen.page.click("dialog button.primary")
    link = seen.page.locator("dialog .command code", has_text="#link=").inner_text()
    seen.page.click("dialog button.primary")
    expect(seen.page.locator("td.of-display", has_text=HOSTILE)).to_be_visible()
    assert seen.count("main img") == 0
    with visit(browser, console) as other:
        other.page.goto(link)
        other.page.fill("input[name=password]", PASSWORD)
        other.page.click("button[type=submit]")
        expect(other.page.locator(".who")).to_have_text(HOSTILE)


def test_only_what_was_changed_of_a_user_is_changed(seen: Visit, lab: Lab) -> None:
    with lab.client() as owner:
        owner.people.add("li", display="李", role="user")
    seen.go("admin/users?at=li")
    seen.page.fill("input[name=max_total_gpus]", "4")
    seen.page.fill("input[name=expires_at]", "2099-05-01")
    seen.page.click(".detail-part button.primary")
    expect(seen.page.locator(".toast")).to_contain_text("Saved")
    with lab.client() as owner:
        (user,) = [one for one in owner.call("user.list", {}) if one["name"] == "li"]
    assert (user["quota"]["max_total_gpus"], user["display"], user["role"]) == (4, "李", "user")
    assert user["expires_at"] > 4_000_000_000
    seen.page.fill("input[name=max_total_gpus]", "many")
    seen.page.click(".detail-part button.primary")
    expect(seen.page.locator(".detail-part .refusal")).to_contain_text("max_total_gpus")


def test_what_is_typed_at_the_sight_of_saved_stays(seen: Visit, lab: Lab) -> None:
    with lab.client() as owner:
        owner.people.add("liu", role="user")
    seen.go("admin/users?at=liu")
    seen.page.fill("input[name=max_total_gpus]", "4")
    seen.page.evaluate(
        """() => new MutationObserver((_, watch) => {
             if (!document.querySelector(".toast")) return;
             watch.disconnect();
             document.querySelector("input[name=mail]").value = "liu@lab";
           }).observe(document.body, { childList: true, subtree: true })"""
    )
    seen.page.click(".detail-part button.primary")
    expect(seen.page.locator(".toast")).to_contain_text("Saved")
    seen.page.click(".detail-part button.primary")
    with lab.client() as owner:
        until("the mail is kept", lambda: _mails(owner)["liu"] == "liu@lab", seen=lambda: _mails(owner))


def _mails(owner: Client) -> dict[str, str]:
    return {one["name"]: one["mail"] for one in owner.call("user.list", {})}


def test_a_user_is_disabled_after_one_question_and_oneself_is_not(seen: Visit, lab: Lab) -> None:
    with lab.client() as owner:
        owner.people.add("leaver", role="user")
    seen.go("admin/users?at=leaver")
    seen.page.click("button:has-text('Disable')")
    assert seen.texts("dialog .command code") == ["muster users disable leaver"]
    seen.page.keyboard.press("Enter")
    expect(seen.page.locator(".detail-part .warned")).to_contain_text("root2")
    seen.page.click("button:has-text('Enable')")
    expect(seen.page.locator(".detail-part .warned")).to_have_count(0)
    seen.go("admin/users?at=root2")
    expect(seen.page.locator("button:has-text('Disable')")).to_have_attribute("aria-disabled", "true")


def test_a_group_gets_members_mentors_and_bounds(seen: Visit, lab: Lab) -> None:
    seen.go("admin/groups")
    seen.page.click(".tools button.primary")
    seen.page.keyboard.type("nlp")
    seen.page.keyboard.press("Enter")
    seen.page.click("td.of-name:has-text('nlp')")
    for at, name in ((0, "ann"), (1, "root2")):
        form = seen.page.locator(".chip-form").nth(at)
        form.locator("input").fill(name)
        form.locator("button").click()
        expect(seen.page.locator(".detail-part .chip", has_text=name)).to_be_visible()
    with lab.client() as owner:
        (group,) = owner.call("group.list", {})
    assert (group["members"], group["mentors"]) == (["ann"], ["root2"])
    seen.page.click(".detail-part .chip:has-text('ann')")
    expect(seen.page.locator(".detail-part .chip", has_text="ann")).to_have_count(0)


def test_a_setting_is_changed_refused_and_taken_back(seen: Visit) -> None:
    seen.go("admin/settings?at=scheduler.reserve_after")
    seen.page.fill(".detail-part input[name=value]", "2h")
    seen.page.click(".detail-part button.primary")
    row = seen.page.locator("tr.cursor")
    expect(row.locator("td.of-value")).to_have_text("2 h 00 m")
    expect(row.locator("td.of-by")).to_contain_text("root2")
    seen.page.fill(".detail-part input[name=value]", "-1")
    seen.page.click(".detail-part button.primary")
    expect(seen.page.locator(".detail-part .refusal")).to_be_visible()
    seen.page.click("button:has-text('Back to what')")
    expect(row.locator("td.of-by")).to_have_text("default")


@pytest.mark.parametrize(
    ("name", "value", "may_be"),
    [
        ("limits.task_bytes", "1 GiB", "1 MiB or more"),
        ("scheduler.sample_s", "2 s", "0.5 s – 20 s"),
        ("scheduler.reservations", "4", "0 – 1,000"),
        ("scheduler.time_limit", "none", "0 or more, none"),
    ],
)
def test_what_a_setting_may_be_is_told_as_people_read_it(seen: Visit, name: str, value: str, may_be: str) -> None:
    seen.go(f"admin/settings?at={name}")
    facts = seen.page.locator(".detail-part dl.facts dd")
    expect(facts.nth(0)).to_have_text(value)
    expect(facts.nth(2)).to_have_text(may_be)


def test_tokens_are_ended_and_the_audit_log_tells_who_did_it(seen: Visit, lab: Lab) -> None:
    with lab.client() as owner:
        made = [owner.people.new_token(name="ann", label="nightly")["id"] for _ in range(13)]
    seen.go("admin/tokens?q=nightly")
    boxes = seen.page.locator("tbody .pick input")
    expect(boxes).to_have_count(len(made))
    for at in range(len(made)):
        boxes.nth(at).click()
    seen.page.click(".action-bar button.is-danger")
    seen.page.wait_for_selector("dialog[open]")
    expect(seen.page.locator("dialog .hits li")).to_have_count(13)  # 12 of them, and how many more
    (command,) = seen.texts("dialog .command code")
    assert sorted(command.split()) == sorted(["muster", "tokens", "revoke", *made])
    seen.page.keyboard.press("Enter")
    expect(seen.page.locator("td.of-label")).to_have_count(0)
    seen.go("admin/audit?verb=token.revoke")
    expect(seen.page.locator("td.of-target").first).to_contain_text(made[0])
    expect(seen.page.locator("td.of-user").first).to_have_text("root2")
    expect(seen.page.locator("td.of-result").first).to_have_text(dictionary("en/admin.js")["audit.is.ok"])
    expect(seen.page.locator("td.of-from small").first).to_have_text(dictionary("en/admin.js")["audit.via.session"])


def test_the_registry_is_changed_after_its_difference_and_a_password_and_over_nobodys_words(
    seen: Visit, lab: Lab
) -> None:
    seen.go("admin/conf?file=registry")
    field = seen.page.locator("textarea.file-text")
    text = field.input_value()
    field.fill(text.replace('"slots": 12', '"slots": 13'))
    seen.page.keyboard.press("Control+s")
    seen.page.wait_for_selector("dialog[open]")
    expect(seen.page.locator("dialog .diff .is-new")).to_contain_text('"slots": 13')
    seen.page.keyboard.press("Enter")
    seen.page.fill("dialog input[name=password]", PASSWORD)
    seen.page.keyboard.press("Enter")
    expect(seen.page.locator(".toast")).to_contain_text("before-edits")
    assert '"slots": 13' in lab.registry.read_text(encoding="utf-8")
    field.fill(text.replace('"slots"', '"slotz"'))
    seen.page.keyboard.press("Control+s")
    expect(seen.page.locator(".conf-fault .refusal")).to_contain_text("slotz")
    lab.registry.write_text(text, encoding="utf-8")
    field.fill(text.replace('"slots": 12', '"slots": 14'))
    seen.page.keyboard.press("Control+s")
    expect(seen.page.locator(".conf-fault .refusal")).to_contain_text(sentence_of("registry_changed", SENTENCES))
    assert '"slots": 14' in field.input_value()
    seen.page.click("button:has-text('Load what stands there now')")
    expect(field).to_have_value(text)
    seen.page.keyboard.press("Escape")


@pytest.fixture
def conf(lab: Lab) -> Iterator[Path]:
    """conf.json as people write it, with a secret in it; as it was, afterwards."""
    before, mode = lab.conf.read_text(encoding="utf-8"), lab.conf.stat().st_mode
    lab.conf.chmod(0o600)
    influx = {"url": "http://127.0.0.1:1", "org": "lab", "bucket": "gpus", "token": SECRET}
    rewrite(lab.conf, json.dumps({**lab.keys, "influx": influx}, indent=2))
    yield lab.conf
    rewrite(lab.conf, before)
    lab.conf.chmod(mode)


def test_conf_json_is_changed_after_its_difference_and_a_password_and_keeps_its_secrets(
    seen: Visit, conf: Path
) -> None:
    seen.go("admin/conf")
    field, dialog = seen.page.locator("textarea.file-text"), seen.page.locator("dialog[open]")
    text = field.input_value()
    assert ("******** 1" in text, SECRET in seen.page.content()) == (True, False)
    field.fill(text.replace('"grace_s": 2.0', '"grace_s": 3.0'))
    seen.page.keyboard.press("Control+s")
    expect(dialog.locator(".diff .is-old")).to_contain_text('"grace_s": 2.0')
    expect(dialog.locator(".diff .is-new")).to_contain_text('"grace_s": 3.0')
    expect(dialog).to_contain_text("It takes effect at once.")
    seen.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert '"grace_s": 2.0' in conf.read_text(encoding="utf-8"), "who leaves the dialog changes nothing"
    seen.page.keyboard.press("Control+s")
    dialog.wait_for()
    seen.page.keyboard.press("Enter")
    seen.page.fill("dialog input[name=password]", f"not {PASSWORD}")
    seen.page.keyboard.press("Enter")
    expect(dialog.locator(".refusal")).to_be_visible()
    seen.page.fill("dialog input[name=password]", PASSWORD)
    seen.page.keyboard.press("Enter")
    expect(seen.page.locator(".toast")).to_contain_text("before-edits")
    kept = Path(seen.texts(".toast")[0].partition("lies in ")[2].split()[0])
    told = [json.loads(path.read_text(encoding="utf-8")) for path in (kept, conf)]
    assert [(one["scheduler"]["grace_s"], one["influx"]["token"]) for one in told] == [(2.0, SECRET), (3.0, SECRET)]
    expect(field).to_have_value(text.replace('"grace_s": 2.0', '"grace_s": 3.0'))


def test_conf_json_is_not_changed_to_what_no_start_takes_nor_over_what_another_wrote(seen: Visit, conf: Path) -> None:
    seen.go("admin/conf")
    field, refusal = seen.page.locator("textarea.file-text"), seen.page.locator(".conf-fault .refusal")
    text = field.input_value()
    for old, new, told in (
        ("}\n}", "}\n", "not JSON"),
        ('"grace_s": 2.0', '"grace_s": "soon"', "grace_s"),
        ('"influx": {', '"hooks": {}, "influx": {', "hooks"),
        ("******** 1", "******** 7", "token"),
    ):
        field.fill(text.replace(old, new))
        seen.page.keyboard.press("Control+s")
        expect(refusal).to_contain_text(told)
    theirs = conf.read_text(encoding="utf-8").replace('"gpus"', '"显卡"')
    rewrite(conf, theirs)
    field.fill(text.replace('"grace_s": 2.0', '"grace_s": 4.0'))
    seen.page.keyboard.press("Control+s")
    expect(refusal).to_contain_text(sentence_of("registry_changed", SENTENCES))
    assert '"grace_s": 4.0' in field.input_value(), "what was written stays"
    seen.page.click("button:has-text('Load what stands there now')")
    expect(field).to_have_value(theirs.replace(SECRET, "******** 1"))
    assert conf.read_text(encoding="utf-8") == theirs


def test_what_was_written_into_conf_json_stays_while_one_looks_elsewhere(seen: Visit, conf: Path) -> None:
    seen.go("admin/conf")
    field = seen.page.locator("textarea.file-text")
    text = field.input_value()
    written = text.replace('"grace_s": 2.0', '"grace_s": 5.0')
    field.fill(written)
    seen.page.click("button:has-text('Registry of nodes')")
    expect(field).to_have_value(re.compile('"node0"'))
    seen.page.click("nav a[href=nodes]")
    rewrite(conf, conf.read_text(encoding="utf-8").replace('"gpus"', '"显卡"'))
    seen.page.click("nav a[href=admin]")
    seen.page.click("nav a[href='admin/conf']")
    expect(field).to_have_value(written)
    field.press("Control+s")
    expect(seen.page.locator(".conf-fault .refusal")).to_contain_text(sentence_of("registry_changed", SENTENCES))
    seen.page.click("button:has-text('Load what stands there now')")
    expect(field).to_have_value(text.replace('"gpus"', '"显卡"'))


def test_nodes_are_drained_and_what_waits_is_held_before_maintenance(seen: Visit, lab: Lab) -> None:
    with lab.client() as owner:
        first = owner.submit(["sleep", "600"], gpus=8)
        waits = owner.submit(["true"], gpus=8)
        until("one runs", lambda: owner.show(first)["state"] == "running")
    seen.go("admin/maintenance")
    seen.page.click("thead input")
    seen.page.click("button:has-text('Drain')")
    seen.page.keyboard.type("new fan")
    seen.page.keyboard.press("Enter")
    expect(seen.page.locator("td.of-why")).to_contain_text("new fan")
    seen.page.click("button:has-text('Hold all that wait (1)')")
    with lab.client() as owner:
        until("it is held", lambda: owner.show(waits)["state"] == "held")
    seen.page.click("button:has-text('Resume')")
    expect(seen.page.locator(".node-state")).to_have_text("online")
    with lab.client() as owner:
        owner.cancel([first, waits])


def test_who_is_no_admin_sees_nothing_of_it(browser: Browser, console: Console) -> None:
    with signed_in(browser, console, "ann") as seen:
        seen.go("admin/users")
        expect(seen.page.locator("main .empty")).to_have_text("This page is for admins.")
        assert seen.count(".side a[href=admin]") == 0
