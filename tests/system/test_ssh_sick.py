"""Machines that cannot be used, each for another reason: one clear line each, cure included, and nobody else pays."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

from client.shapes import Node
from tests.faults import link_of, says
from tests.system.ssh_asking import ended, node_of, submit, task_of, until_node, until_state
from tests.system.ssh_lab import SshLab
from tests.testbed.bed import Testbed
from tests.testbed.host import Host
from tests.waiting import PATIENCE_S, until

TRIES = 30
STATE = f"/home/{Host.user}/.local/state"


def reason_of(lab: SshLab, name: str) -> str:
    return node_of(lab, name)["reason"] or ""


def lines_of(lab: SshLab, name: str) -> list[str]:
    """What `muster nodes` says of a node, beneath its table."""
    done = lab.muster("nodes")
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith(f"{name}: ")]


def try_now(lab: SshLab, *names: str) -> None:
    """What an admin types who has mended something and does not want to wait."""
    done = lab.muster("agents", "start", *names)
    assert done.returncode == 0, done.stderr


def sick_nodes(lab: SshLab, bed: Testbed) -> dict[str, tuple[dict[str, Any], str, str]]:
    """Entries of the registry with the state that they lead to, and a key or an argument of what tells why."""
    first = bed.hosts[0]
    broken_key = lab.folder / "half-a-key"
    broken_key.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n", encoding="ascii")
    broken_key.chmod(0o600)
    by_key = {"key_file": str(bed.key)}
    wrong_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
    found: dict[str, tuple[dict[str, Any], str, str]] = {
        "wrong-password": ({}, "unreachable", "password_refused"),
        "wrong-user": ({"user_name": "nobody-here", **by_key}, "unreachable", "key_refused"),
        "broken-key": ({"key_file": str(broken_key)}, "unreachable", str(broken_key)),
        "no-key": ({"key_file": "/nowhere/key"}, "unreachable", "key_file_unreadable"),
        "swallowed": ({"ip": bed.blackhole}, "unreachable", "no_answer_in_time"),
        "refusing": ({"port": 2222}, "unreachable", "connection_refused"),
        "wrong-pin": ({"host_key": wrong_key}, "untrusted", "correct_host_key"),
        "no-proxy": ({"proxy": f"socks5://{bed.master_address}:9"}, "unreachable", "the proxy"),
        "no-way": ({"ip": "10.255.255.1", "proxy": bed.proxy}, "unreachable", "cannot reach 10.255.255.1:22"),
        "no-such-python": ({"python": "python9", **by_key}, "unreachable", "python9"),
    }
    return {
        name: (lab.entry(first, name=name, **changes), state, words) for name, (changes, state, words) in found.items()
    }


def test_each_sick_machine_has_one_line_with_the_cure_and_the_others_work(testbed: Testbed, ssh_lab: SshLab) -> None:
    well = testbed.hosts[2]
    sick = sick_nodes(ssh_lab, testbed)
    ssh_lab.write_psw(f"*:{Host.password}\nwrong-password:sesame\n")
    ssh_lab.write_registry([ssh_lab.entry(well), *(entry for entry, _, _ in sick.values())])
    ssh_lab.start()
    for host in (well, testbed.hosts[0]):
        ssh_lab.pin(host)
    try_now(ssh_lab, *sick)
    ssh_lab.await_online([well.name])
    for name, (_, state, why) in sick.items():
        node = until_node(ssh_lab, name, f"says {why}", partial(_says, why))
        assert node["state"] == state, name
        told = lines_of(ssh_lab, name)
        assert len(told) == 1, name
        assert str(link_of(node)) in told[0], name
    for number in [submit(ssh_lab, "exit 3", gpus=1) for _ in range(20)]:
        assert ended(ssh_lab, number) == ("failed", 3)
        assert task_of(ssh_lab, number)["attempt"] == 1, "none was given to a sick node"
    assert lines_of(ssh_lab, well.name) == []
    assert "Traceback" not in ssh_lab.server_log()
    assert "sesame" not in ssh_lab.server_log()
    _retries_leave_nothing(testbed, ssh_lab, list(sick))


def _says(why: str, node: Node) -> bool:
    """Whether this is a key of what its link says, or stands among the arguments."""
    said = link_of(node)
    return said is not None and (says(said, why) or why in str(said))


def _retries_leave_nothing(bed: Testbed, lab: SshLab, names: list[str]) -> None:
    """Threads and descriptors of the master after a few tries, and after many more: each sick node is woken again and
    again, which is what hours do by themselves."""
    _try_again(bed, lab, names, 10)
    before = _quiet_counts(lab)
    _try_again(bed, lab, names, TRIES)

    def nothing_more() -> bool:
        return all(late <= early for early, late in zip(before, _counts(lab), strict=True))

    # A try that is still under way has its threads and descriptors; what was left behind never goes.
    until(f"no more threads and descriptors than {before}", nothing_more, seen=lambda: _counts(lab))


def _try_again(bed: Testbed, lab: SshLab, names: list[str], times: int) -> None:
    log = bed.hosts[0]
    begun = log.sshd_log.count("Failed password")
    with lab.client() as client:

        def enough() -> bool:
            client.start_agents(names)
            return log.sshd_log.count("Failed password") >= begun + times

        until(f"{times} more tries", enough, 4.0 * times + PATIENCE_S)


def _quiet_counts(lab: SshLab) -> tuple[int, int]:
    """The fewest threads and descriptors within a moment: what is in the middle of a try does not count."""
    found = []
    deadline = time.monotonic() + 2.0
    while time.monotonic() < deadline:
        found.append(_counts(lab))
        time.sleep(0.02)
    return min(threads for threads, _ in found), min(descriptors for _, descriptors in found)


def _counts(lab: SshLab) -> tuple[int, int]:
    assert lab.master is not None
    threads, descriptors = (Path(f"/proc/{lab.master.pid}/{what}") for what in ("task", "fd"))
    return len(list(threads.iterdir())), len(list(descriptors.iterdir()))


def test_a_machine_that_was_set_up_anew_is_set_aside_until_somebody_trusts_it(ssh_lab: SshLab) -> None:
    ssh_lab.start_trusted()
    name = ssh_lab.nodes[0]
    host = ssh_lab.hosts[name]
    before = host.fingerprint
    host.swap_host_key()
    ssh_lab.kill_master()
    ssh_lab.start()
    reason = until_state(ssh_lab, name, "untrusted")["reason"] or ""
    assert before in reason
    assert host.fingerprint in reason
    assert f"muster node trust {name}" in reason
    ssh_lab.await_online(ssh_lab.nodes[1:])
    refused = ssh_lab.muster("node", "trust", "--all", "--yes")
    assert refused.returncode != 0
    assert node_of(ssh_lab, name)["state"] == "untrusted"
    trusted = ssh_lab.muster("node", "trust", name, "--yes")
    assert trusted.returncode == 0, trusted.stderr
    ssh_lab.await_online([name])
    assert ended(ssh_lab, submit(ssh_lab, "exit 2", name)) == ("failed", 2)


def test_a_corrected_password_is_used_without_a_restart(ssh_lab: SshLab) -> None:
    ssh_lab.write_psw("sesame")
    ssh_lab.start()
    name = ssh_lab.nodes[0]
    ssh_lab.pin(ssh_lab.hosts[name])
    until_node(ssh_lab, name, "refuses", lambda node: "refuses the password" in (node["reason"] or ""))
    ssh_lab.write_psw(Host.password)
    try_now(ssh_lab, name)
    ssh_lab.await_online([name])


def test_passwords_that_others_may_read_are_not_used(ssh_lab: SshLab) -> None:
    ssh_lab.psw.chmod(0o644)
    ssh_lab.start()
    name = ssh_lab.nodes[0]
    ssh_lab.pin(ssh_lab.hosts[name])
    until_node(ssh_lab, name, "says so", lambda node: f"chmod 600 {ssh_lab.psw}" in (node["reason"] or ""))
    ssh_lab.pin(ssh_lab.hosts[ssh_lab.nodes[2]])
    ssh_lab.await_online([ssh_lab.nodes[2]])


def test_machines_without_python_shared_folder_or_disk_say_so_and_are_used_once_they_have_it(ssh_lab: SshLab) -> None:
    bare, unmounted, full, well = ssh_lab.hosts.values()
    bare.hide_python()
    unmounted.hide_shared()
    full.small_disk(STATE, 4 << 20)
    full.fill_disk(STATE)
    ssh_lab.start()
    ssh_lab.trust_all()
    ssh_lab.await_online([well.name])
    for host, words in ((bare, "python3"), (full, "No space left on device"), (unmounted, f"mount {ssh_lab.root}")):
        until_node(ssh_lab, host.name, f"says {words}", lambda node, words=words: words in (node["reason"] or ""))  # type: ignore[misc]
        assert len(lines_of(ssh_lab, host.name)) == 1
    waiting = [submit(ssh_lab, "exit 2", host.name) for host in (bare, unmounted, full)]
    assert ended(ssh_lab, submit(ssh_lab, "exit 3", well.name)) == ("failed", 3)
    assert [task_of(ssh_lab, number)["state"] for number in waiting] == ["waiting"] * 3
    bare.show_python()
    unmounted.show_shared()
    full.empty_disk(STATE)
    try_now(ssh_lab, bare.name, full.name)
    assert ssh_lab.muster("agents", "restart", unmounted.name).returncode == 0  # it would look again by itself, later
    assert [ended(ssh_lab, number) for number in waiting] == [("failed", 2)] * 3


BASHRC = {
    "prints": "echo welcome; echo welcome >&2; printf 'no newline'",
    "is slow": "sleep 2",
    "speaks binary": r"printf '\377\376\000\n\033[2J'",
    "changes directory": "cd /tmp",
    "asks": "read -r answer </dev/null",
    "sets traps": "set -u; trap 'echo bye' EXIT",
}


def test_whatever_a_bashrc_does_but_exit_the_machine_is_used(ssh_lab: SshLab) -> None:
    ssh_lab.hosts[ssh_lab.nodes[0]].set_bashrc("\n".join(BASHRC.values()) + "\n")
    ssh_lab.hosts[ssh_lab.nodes[1]].set_bashrc("exit 0\n")
    ssh_lab.start()
    ssh_lab.trust_all()
    ssh_lab.await_online([ssh_lab.nodes[0], *ssh_lab.nodes[2:]])
    assert ended(ssh_lab, submit(ssh_lab, "exit 2", ssh_lab.nodes[0])) == ("failed", 2)
    name = ssh_lab.nodes[1]
    until_node(ssh_lab, name, "names the file", lambda node: ".bashrc" in (node["reason"] or ""))
    assert len(lines_of(ssh_lab, name)) == 1
    ssh_lab.hosts[name].set_bashrc("")
    try_now(ssh_lab, name)
    ssh_lab.await_online([name])


def test_a_disk_that_fills_up_while_tasks_run_costs_no_exit(ssh_lab: SshLab) -> None:
    host = ssh_lab.hosts[ssh_lab.nodes[0]]
    host.small_disk(STATE, 4 << 20)
    ssh_lab.start_trusted()
    door_path = ssh_lab.root / "door"
    number = submit(ssh_lab, f"until [ -e {door_path} ]; do sleep 0.1; done; exit 5", host.name)
    until("it runs", lambda: task_of(ssh_lab, number)["state"] == "running")
    host.fill_disk(STATE)
    door_path.touch()
    assert ended(ssh_lab, number) == ("failed", 5)
    assert ended(ssh_lab, submit(ssh_lab, "exit 6", host.name)) == ("failed", 6)
