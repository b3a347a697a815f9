"""From what machines answer to what people read: the verdict, the words, and a cure for whatever is not well."""

from __future__ import annotations

from typing import Any

import pytest

from master.config.ssh_accounts import SshAccount
from master.core.nodes.inventory import Facts, NodeState
from master.core.nodes.node import Restriction
from master.core.outcome import Pending
from master.core.people.people import People
from master.doctor import accounts, folders, machine, way
from master.doctor.finding import CHECKS, Finding, completed, fault, heard, ok, skipped, warning, worst
from master.doctor.folders import SILENT, Seen
from master.doctor.scripts import Disk, FolderTold, MachineTold, answer_of, complaint
from master.nodes.driver import OfferedKey
from master.nodes.registry import NodeConfig
from master.secrets.log_rights import Readers
from tests.faults import says
from wire.agent import Probed
from wire.english.links import LINKS
from wire.message import Message, names

SHOWN = OfferedKey(type="ssh-ed25519", base64="AAAA", fingerprint="SHA256:" + "n" * 43)
OLD = "SHA256:" + "o" * 43
RUN = "0123456789abcdef"
MIB = 1 << 20
NOW = 1_000_000.0


def ssh(**more: Any) -> NodeConfig:
    return NodeConfig(**{"name": "n 1", "ip": "10.0.0.1", "user_name": "lab", "gpu_count": 0, **more})


def probed(output: str = "", code: int | None = 0, error: str = "") -> Probed:
    return Probed(op="probed", probe_id="q1", code=code, output=output, truncated=False, error=error)


def only(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


# -- the way ----------------------------------------------------------------------------------------------------


def test_a_machine_that_answers_says_how_fast() -> None:
    answers = Message("doctor_reached", where="10.0.0.1:22", ms=12.3)
    assert way.reached(ssh(), 0.0123, "", NodeState.ONLINE).says == answers
    assert str(answers) == "10.0.0.1:22 answers in 12 ms"
    behind = ssh(ip="fe80::1", proxy="socks5://me:secret@gate:1080")
    through = Message("doctor_reached_through", where="[fe80::1]:22", ms=500.0)
    assert way.reached(behind, 0.5, "", NodeState.ONLINE).says == through


def test_a_machine_that_does_not_answer_is_a_fault_unless_its_connection_stands() -> None:
    config = ssh(proxy="socks5://me:secret@gate:1080")
    found = way.reached(config, None, "connection refused", NodeState.UNREACHABLE)
    assert (found.verdict, found.told) == ("fault", "connection refused")
    assert "the proxy gate:1080" in found.cure
    assert "secret" not in found.cure
    assert "`muster node edit 'n 1' ip=…`" in found.cure
    assert way.reached(config, None, "connection refused", NodeState.ONLINE).verdict == "warning"


@pytest.mark.parametrize(
    ("known", "verdict", "words"),
    [
        (SHOWN.fingerprint, "ok", "known: ssh-ed25519"),
        (None, "fault", "not known yet"),
        (OLD, "warning", f"known is {OLD}"),
    ],
)
def test_a_host_key_is_known_or_new_or_another(known: str | None, verdict: str, words: str) -> None:
    found = way.host_key(ssh(), SHOWN, known)
    assert (found.verdict, words in found.told, SHOWN.fingerprint in found.told) == (verdict, True, True)
    assert ("muster node trust 'n 1'" in found.cure) == (verdict != "ok")


def test_a_key_that_the_registry_pins_is_changed_there() -> None:
    assert "host_key=SHA256:" in way.host_key(ssh(host_key=OLD), SHOWN, OLD).cure


PEER = "10.0.0.1:22"


@pytest.mark.parametrize(
    ("why", "check", "cure"),
    [
        (Message("python_not_there", python="python3"), "python", "do_install_python"),
        (Message("python_too_old", python="python3", version="2.7.18"), "python", "do_install_python"),
        (Message("python_unquotable", python="a'b"), "python", "do_install_python"),
        (Message("key_refused", where=PEER, user="lab", path="/k"), "log_in", "do_correct_log_in"),
        (Message("password_refused", where=PEER, user="lab", path="/lab/psw"), "log_in", "do_correct_log_in"),
        (Message("key_file_open", path="/k"), "log_in", "do_correct_log_in"),
        (Message("no_credential", path="/lab/psw"), "log_in", "do_correct_log_in"),
        (Message("shell_ended", status=1), "log_in", "do_mend_shell"),
        (Message("no_session", where=PEER, user="lab", said="no"), "log_in", "do_as_it_says"),
        (Message("ip_misspelt", ip="[::1]", changes="ip=::1"), "reachable", "do_as_it_says"),
        (Message("sshd_mute", where=PEER), "reachable", "do_look_at_network"),
        (Message("agent_silent", seconds=15.0), "reachable", "do_look_at_network"),
        (Message("machine_off", peer=Message("by_proxy", proxy="gate:1080")), "reachable", "do_look_at_network"),
        (Message("agent_not_put", said="/x: No space left on device"), "agent", "do_make_room_for_agent"),
        (Message("agent_not_started", said="wrong password file"), "agent", "do_as_it_says"),
        (Message("agent_refuses_us", code="fenced", said="another master is obeyed"), "agent", "do_one_master"),
        (Message("agent_stopped_start", by="ada", name="n"), "agent", "do_start_agent"),
        (Message("link_said", said="the key exchange failed"), "agent", "do_as_it_says"),
        (None, "agent", "do_as_it_says"),
    ],
)
def test_what_the_link_says_is_told_with_the_check_that_it_is_about(why: Message | None, check: str, cure: str) -> None:
    found = way.by_link(ssh(), NodeState.UNREACHABLE, why)
    assert (found.check, found.verdict) == (check, "fault")
    assert says(found.says, "doctor_nothing_said" if why is None else why.key)
    assert found.do is not None
    assert found.do.key == cure


def test_each_check_goes_by_keys_that_a_link_says() -> None:
    assert way.CHECK_OF.keys() <= LINKS.keys()


def test_untrusted_and_connecting_nodes_say_so() -> None:
    revoked = Message("host_key_revoked", where=PEER, key=OLD)
    assert way.by_link(ssh(), NodeState.UNTRUSTED, revoked) == fault(
        "host_key", revoked, Message("do_trust", name="n 1")
    )
    assert way.by_link(ssh(), NodeState.CONNECTING, None).verdict == "warning"
    closed = Message("agent_closed")
    gone = way.by_link(ssh(driver="report"), NodeState.CONNECTING, closed)
    assert gone == warning("agent", closed, Message("do_read_its_log"))


# -- the machine ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "verdict", "key", "seconds"),
    [
        (1000.25, "ok", "doctor_clock_behind", 0.0),
        (1002.0, "ok", "doctor_clock_ahead", 1.75),
        (1003.0, "warning", "doctor_clock_ahead", 2.75),
        (940.0, "warning", "doctor_clock_behind", 60.25),
    ],
)
def test_the_clock_is_compared_with_the_middle_of_the_question(
    told: float, verdict: str, key: str, seconds: float
) -> None:
    found = machine.clock(1000.0, told, 1000.5)
    assert (found.verdict, found.says) == (verdict, Message(key, seconds=seconds, doubt=0.25))
    assert bool(found.cure) == (verdict == "warning")


def test_a_slow_answer_is_no_proof_of_a_wrong_clock() -> None:
    assert machine.clock(1000.0, 1009.9, 1010.0).verdict == "ok"
    assert machine.clock(1000.0, 1020.0, 1010.0).verdict == "warning"


def test_an_agent_of_another_version_is_told_with_both() -> None:
    assert machine.agent(ssh(name="n"), "a1", "a1", 7200.0).told == "version a1, running for 2 h"
    found = machine.agent(ssh(name="n"), "a1", "b2", None)
    assert (found.verdict, "a1" in found.told, "b2" in found.told) == ("warning", True, True)
    assert "`muster agents restart n`" in found.cure
    dials_in = machine.agent(ssh(driver="report"), "a1", "b2", None)
    assert dials_in.do == Message("do_read_why_not_taken_over")


@pytest.mark.parametrize(
    ("told", "verdict", "says"),
    [
        ({"uid": 0, "account": "root", "can_run_as": True}, "ok", Message("doctor_as_owners")),
        ({"uid": 1500, "account": "lab"}, "ok", Message("doctor_one_account", account="lab")),
        ({"uid": 0, "account": "root"}, "warning", Message("doctor_root_bound")),
        ({"uid": 0}, "skipped", Message("doctor_account_unknown")),
    ],
)
def test_it_is_told_whose_rights_tasks_have(told: dict[str, Any], verdict: str, says: Message) -> None:
    found = machine.account(Facts(boot_id="b", state_id="s", cpus=1, memory_mib=1, **told))
    assert (found.verdict, found.says) == (verdict, says)


def test_users_without_an_account_where_tasks_run_as_their_owners_are_told() -> None:
    (found,) = machine.no_accounts(["bob", "carol"])
    assert (found.verdict, found.says) == ("warning", Message("doctor_no_accounts", users=names(["bob", "carol"])))
    assert found.do == Message("do_make_accounts")
    assert machine.no_accounts([]) == []


def test_the_doctor_asks_about_users_who_may_submit_once_there_are_users() -> None:
    people = People(Pending())
    assert accounts.owners(people, NOW) == []
    for name, role in (("ann", "admin"), ("bob", "user"), ("guest", "viewer"), ("carol", "user"), ("dave", "user")):
        people.add(name, ["earlier"], role=role)
    people.edit("carol", expires_at=NOW)
    assert accounts.owners(people, NOW) == ["ann", "bob", "dave"]


@pytest.mark.parametrize(
    ("can_run_as", "acts", "is_shared", "verdicts"),
    [
        (True, True, True, ["ok"]),
        (True, False, True, ["warning"]),
        (True, False, False, []),
        (False, True, True, []),
    ],
)
def test_it_is_told_whether_files_are_touched_with_the_same_rights(
    can_run_as: bool,  # noqa: FBT001
    acts: bool,  # noqa: FBT001
    is_shared: bool,  # noqa: FBT001
    verdicts: list[str],
) -> None:
    facts = Facts(boot_id="b", state_id="s", cpus=1, memory_mib=1, uid=0, account="root", can_run_as=can_run_as)
    found = machine.files(facts, acts=acts, is_shared=is_shared)
    assert [one.verdict for one in found] == verdicts
    assert all("docs/run-as.md" in one.cure for one in found if one.verdict == "warning")


def test_a_disk_is_told_once_with_all_its_folders() -> None:
    disks = [
        Disk("/home/state", device=1, size=100 << 30, free=50 << 30),
        Disk("/var/x", device=1, size=100 << 30, free=50 << 30),
        Disk("/data", device=2, size=1 << 30, free=100 * MIB),
        Disk("/full", device=3, size=1 << 30, free=MIB),
        Disk("/many", device=4, size=1 << 40, free=1 << 39, files=1000, files_free=0),
        Disk("/gone", error="No such file or directory"),
    ]  # fmt: skip
    found = machine.disks(disks)
    assert [(one.verdict, one.told.split(":")[0]) for one in found] == [
        ("fault", "/gone"), ("ok", "/home/state, /var/x"), ("warning", "/data"), ("fault", "/full"), ("fault", "/many"),
    ]  # fmt: skip
    assert found[1].told == "/home/state, /var/x: 50.0 GiB free of 100.0 GiB"
    assert "inodes" in found[4].told
    assert all(one.cure for one in found if one.verdict != "ok")


def test_who_keeps_a_node_from_tasks_is_told_with_the_way_back() -> None:
    cordons = {
        "drained": Message("doctor_said", said="drained by ada: fan"),
        "folders": Message("doctor_folder_missing", folder="/data"),
    }
    found = machine.takes_tasks("n", cordons, schedulable=False)
    assert [one.verdict for one in found] == ["warning", "warning"]
    assert "`muster node resume n`" in found[0].cure
    assert "`muster node edit n schedulable=`" in found[1].cure
    assert only(machine.takes_tasks("n", {}, schedulable=True)).verdict == "ok"


@pytest.mark.parametrize(
    ("answer", "says", "do"),
    [
        (
            probed("welcome\nmuster-doctor started in /root\n"),
            Message("doctor_start", root="/root", logs="/logs"),
            None,
        ),
        (
            probed("muster-doctor no-folder\n"),
            Message("doctor_no_log_folder", logs="/logs"),
            Message("do_mount", folder="/logs"),
        ),
        (
            probed("muster-doctor no-file\n"),
            Message("doctor_no_log", logs="/logs"),
            Message("do_let_write", who=heard("lab"), logs="/logs"),
        ),
        (
            probed(code=None, error="/root: Permission denied"),
            Message("doctor_no_start", said=heard("/root: Permission denied")),
            Message("do_mount_and_let_in", who=heard("lab")),
        ),
        (
            probed(code=None, error="/bin/bash: No such file or directory"),
            Message("doctor_said", said="/bin/bash: No such file or directory"),
            Message("do_install_bash"),
        ),
        (
            probed(code=None, error="timed out after 8 s"),
            Message("doctor_bash_failed", said=heard("timed out after 8 s")),
            Message("do_look_and_ask_again"),
        ),
        (
            probed("bash: cannot fork\n", 254),
            Message("doctor_bash_failed", said=heard("bash: cannot fork")),
            Message("do_look_and_ask_again"),
        ),
    ],
)
def test_a_task_could_start_or_why_not(answer: Probed, says: Message, do: Message | None) -> None:
    found = machine.start("/root", "/logs", "lab", answer)
    assert (found.verdict, found.says, found.do) == ("ok" if do is None else "fault", says, do)


def test_an_answer_is_found_among_whatever_is_printed_and_a_broken_one_is_none() -> None:
    said = 'hello\nmuster-doctor {"now": 1.5, "age": null, "disks": []}\nbye\n'
    assert answer_of(probed(said), MachineTold) == MachineTold(now=1.5, age=None, disks=[])
    for broken in ("", "{", "[]", '{"now": "x", "age": 1, "disks": []}', '{"x":' + "[" * 100_000):
        assert answer_of(probed(f"muster-doctor {broken}"), MachineTold) is None
    assert complaint(probed("a\nlast words\n\n", 1)) == "last words"
    assert complaint(probed("", 3)) == "it ended with code 3 and said nothing"


# -- shared folders ---------------------------------------------------------------------------------------------


def seen(folder: str = "/data", *, refused: str = "", back: str | None = None, **told: Any) -> Seen:
    return Seen(folder=folder, refused=refused, answer=FolderTold(**{"there": True, **told}), back=back)


def test_folders_that_are_read_from_both_sides_are_one_line() -> None:
    both = [seen("/data", read=RUN, back=""), seen("/envs", read=RUN, write_error="Read-only file system")]
    one_way = seen("/only-they-write", refused="Permission denied", back="")
    found = only(folders.shared(RUN, [*both, one_way], "lab"))
    assert found == ok("shared_folders", Message("doctor_folders", folders=("/data", "/envs", "/only-they-write")))
    assert folders.broken(RUN, [*both, one_way]) == []


@pytest.mark.parametrize(
    ("one", "verdict", "key", "cure"),
    [
        (seen(there=False), "fault", "doctor_folder_missing", "do_mount_folder"),
        (seen(closed=True), "fault", "doctor_folder_closed", "do_correct_mode"),
        (
            seen(read_error="No such file or directory", back="No such file"),
            "fault", "doctor_folder_other", "do_mount_right_folder",
        ),
        (seen(read="something else", back=""), "fault", "doctor_reads_other", "do_mount_right_folder"),
        (seen(read=RUN, back="No such file or directory"), "warning", "doctor_folder_late", "do_look_at_caches"),
        (
            seen(refused="Permission denied", back="No such file"),
            "fault", "doctor_folder_not_back", "do_mount_right_folder",
        ),
        (seen(refused="Permission denied", write_error="Read-only"), "skipped", "doctor_folder_untried", ""),
        (seen(refused=SILENT, back=""), "fault", "doctor_folder_silent_here", "do_look_at_masters_mounts"),
        (
            Seen(folder="/data", refused="", answer=None, silence="timed out after 8 s"),
            "fault", "doctor_folder_silent", "do_look_at_file_server",
        ),
    ],
)  # fmt: skip
def test_a_folder_that_is_not_shared_says_how_it_is_seen(one: Seen, verdict: str, key: str, cure: str) -> None:
    found = only(folders.shared(RUN, [one], "lab"))
    assert (found.verdict, says(found.says, key), found.says.args["folder"]) == (verdict, True, "/data"), found
    assert ("" if found.do is None else found.do.key) == cure


def test_what_lies_in_a_missing_folder_is_not_told_again() -> None:
    missing = [seen("/lab/logs", there=False), seen("/lab", there=False), seen("/labor", there=False)]
    found = folders.shared(RUN, [*missing, seen("/lab/data", read=RUN, back="")], "lab")
    assert [one.says for one in found] == [
        Message("doctor_folder_missing", folder="/lab"),
        Message("doctor_folder_missing", folder="/labor"),
        Message("doctor_folders", folders=("/lab/data",)),
    ]


def test_what_is_missing_in_another_folder_of_the_same_name_is_not_told_again() -> None:
    other, within = seen("/lab", read_error="No such file or directory"), seen("/lab/logs", there=False)
    (found,) = folders.shared(RUN, [other, within], "lab")
    assert (found.says.key, found.says.args["folder"]) == ("doctor_folder_other", "/lab")


def test_a_home_of_the_nodes_own_with_the_shared_folders_in_it_is_no_fault() -> None:
    home = seen("/home/lab", read_error="No such file or directory", back="No such file")
    data, envs = seen("/home/lab/data", read=RUN, back=""), seen("/home/lab/envs", refused="Read-only", back="")
    found = folders.shared(RUN, [home, data, envs], "lab")
    assert [one.verdict for one in found] == ["ok", "ok"]
    assert found[1].says == Message("doctor_folder_own", folder="/home/lab")
    assert folders.broken(RUN, [home, data, envs]) == []


def test_a_shared_folder_that_is_not_mounted_in_such_a_home_is_told_by_its_own_name() -> None:
    home = seen("/home/lab", read_error="No such file or directory", back="No such file")
    gone = seen("/home/lab/data", read_error="No such file or directory", back="No such file")
    envs = seen("/home/lab/envs", read=RUN, back="")
    for data in (gone, seen("/home/lab/data", there=False)):
        found = folders.shared(RUN, [home, data, envs], "lab")
        assert [one.told.partition(" ")[0] for one in found if one.verdict == "fault"] == ["/home/lab/data"]
        assert "mount /home/lab/data" in found[0].cure
        assert folders.broken(RUN, [home, data, envs]) == ["/home/lab/data"]


# -- together ---------------------------------------------------------------------------------------------------


def test_every_check_is_told_in_its_order_and_the_worst_is_the_verdict() -> None:
    seen, do = Message("doctor_no_facts"), Message("do_mend_file")
    ill, bad = warning("start", seen, do), fault("python", seen, do)
    found = completed([ill, bad, ok("python", seen)], Message("doctor_no_time"))
    assert list(dict.fromkeys(one.check for one in found)) == list(CHECKS)
    assert [one.verdict for one in found if one.check == "python"] == ["fault", "ok"]
    assert found[0] == skipped("reachable", Message("doctor_no_time"))
    assert worst(found) == "fault"
    assert worst(found[:1]) == "ok"
    assert worst([ill, found[0]]) == "warning"


def test_what_a_machine_says_stays_one_bearable_line() -> None:
    told = machine.silent("start", "a\nb\r\n" + "x" * 9999).told
    assert told.startswith("a b x")
    assert len(told) <= 400


ACCOUNTS = {"li": SshAccount("li2", "/keys/li"), "wang": SshAccount("wang", "/keys/wang")}


def test_accounts_that_can_be_used_are_named_and_each_that_cannot_has_its_cure() -> None:
    (well,) = accounts.accounts("gpu1", ACCOUNTS, {})
    assert (well.check, well.verdict, "li, wang" in well.told) == ("account", "ok", True)
    bad, well = accounts.accounts("gpu1", ACCOUNTS, {"li": Message("doctor_said", said="it refuses the key")})
    assert (bad.verdict, "li's tasks wait" in bad.told, "refuses the key" in bad.told) == ("fault", True, True)
    assert "/keys/li" in bad.cure
    assert "li2" in bad.cure
    assert "`muster agents start gpu1`" in bad.cure
    assert "li" not in well.told.replace("wang", "").rpartition(":")[2]


def test_where_nobody_can_tell_of_what_runs_over_an_account_the_way_to_give_it_up_is_told() -> None:
    trouble = {"li": Message("doctor_said", said="it refuses the key")}
    bad, _ = accounts.accounts("gpu1", ACCOUNTS, trouble, silent={"li2"})
    assert "/keys/li" in bad.cure
    assert "`muster node lost gpu1 --account li2`" in bad.cure
    of_another, _ = accounts.accounts("gpu1", ACCOUNTS, trouble, silent={"wang"})
    assert "lost" not in of_another.cure


def test_an_account_that_nothing_names_any_more_is_told_while_something_of_it_runs() -> None:
    fault, well = accounts.accounts("gpu1", ACCOUNTS, {}, silent={"deng"})
    assert (fault.verdict, well.verdict, "over the account deng" in fault.told) == ("fault", "ok", True)
    assert "write it back" in fault.cure
    assert "`muster node lost gpu1 --account deng`" in fault.cure


def test_that_the_master_cannot_write_its_ids_is_told() -> None:
    found = machine.masters_ids(
        Message("ids_with_witness", path="/q/ids", detail="Operation not permitted", witness="/w")
    )
    assert (found.check, found.verdict, "/q/ids" in found.told) == ("disk", "warning", True)
    assert found.cure


def test_why_nothing_new_is_started_over_an_account_is_told() -> None:
    (found,) = accounts.closed(
        "gpu1", {"li2": Message("account_closed", account="li2", why=(Message("remnants", count=1),))}
    )
    assert (found.check, found.verdict, "over the account li2" in found.told) == ("account", "warning", True)
    assert found.cure
    assert accounts.closed("gpu1", {}) == []


def test_an_account_whose_log_in_shell_says_nothing_is_told_by_its_name() -> None:
    (found,) = accounts.environments("gpu1", {"li2": "bash -l said nothing", "wang": ""})
    assert (found.check, found.verdict) == ("environment", "warning")
    assert found.told == "over the account li2: bash -l said nothing"
    assert ".profile of li2" in found.cure


@pytest.mark.parametrize(
    ("others", "is_named", "verdict"),
    [((), False, "ok"), (("pcs",), False, "ok"), (("pcs",), True, "ok"), ((), True, "warning")],
)
def test_a_group_of_the_desktop_pcs_account_that_it_is_not_in_is_told(
    others: tuple[str, ...],
    is_named: bool,  # noqa: FBT001
    verdict: str,
) -> None:
    found = machine.log_readers(Readers("logs", others, is_named))
    assert (found.check, found.verdict) == ("account", verdict)
    assert ("sudo usermod -aG logs ACCOUNT" in found.cure) == (verdict == "warning")
    assert all(other in found.told for other in others)


def test_an_account_of_two_users_is_told() -> None:
    found = accounts.accounts("gpu1", {**ACCOUNTS, "deng": SshAccount("wang", "/keys/deng")}, {})
    assert [one.verdict for one in found] == ["warning", "ok"]
    assert "wang, deng" in found[0].told


def test_whose_tasks_have_the_masters_own_account_is_told() -> None:
    why = Message("own_account_node", account="lab")
    (closed,) = machine.own_account(Restriction(frozenset({"ann"}), why), is_opened=False)
    assert (closed.verdict, closed.says) == ("ok", why)
    (keeps_out,) = machine.own_account(Restriction(frozenset({"ann"}), why), is_opened=False, keeps_out=["bob", "cy"])
    assert (keeps_out.verdict, keeps_out.says.key) == ("warning", "doctor_keeps_out")
    assert keeps_out.says.args["users"] == names(["bob", "cy"])
    assert keeps_out.do == Message("do_let_users_in")
    (opened,) = machine.own_account(None, is_opened=True)
    assert (opened.verdict, opened.says.key) == ("warning", "doctor_own_account_open")
    assert machine.own_account(None, is_opened=False) == []
