"""The doctor among real machines: one that is well, and each of the others ill in its own way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.ssh_lab import SshLab
from tests.testbed.bed import Testbed
from tests.waiting import until


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    """Four hosts, the last one behind the proxy."""
    with Testbed(4, inner=[4]) as made:
        yield made


@pytest.fixture
def lab(bed: Testbed, tmp_path: Path) -> Iterator[SshLab]:
    made = SshLab(tmp_path / "lab", bed)
    _make_conda(made.root / "envs" / "miniconda3")
    yield made
    left = made.close()
    assert "Traceback" not in made.server_log()
    bed.renew()
    assert left == []


def _make_conda(prefix: Path) -> None:
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "activate").write_text(f"PATH={prefix}/bin:$PATH\n", encoding="utf-8")
    (prefix / "bin" / "python").symlink_to("/usr/bin/python3")


def diagnose(lab: SshLab, *names: str) -> tuple[dict[str, dict[str, Any]], int]:
    """What `muster node doctor --json` says of each node, and its exit status."""
    done = lab.muster("node", "doctor", *names, "--json")  # which has a time limit of its own
    assert done.stderr == ""
    return {node["name"]: node for node in json.loads(done.stdout)}, done.returncode


def ills(node: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Its findings that are neither ok nor skipped, by check."""
    found = {one["check"]: one for one in node["findings"] if one["verdict"] not in ("ok", "skipped")}
    assert all(one["cure"] for one in found.values())
    return found


def left_behind(bed: Testbed) -> list[Path]:
    return [path for root in (bed.shared, *(host.disk for host in bed.hosts)) for path in root.rglob(".muster-doctor*")]


def test_each_machine_is_told_what_ails_it_and_how_to_cure_it(bed: Testbed, lab: SshLab) -> None:
    well, unmounted, bare, inner = bed.hosts
    unmounted.hide_shared()
    bare.hide_python()
    sick: dict[str, dict[str, Any]] = {"dead": {"ip": bed.blackhole}, "refusing": {"port": 2222}}
    entries = [lab.entry(host) for host in bed.hosts]
    lab.write_registry([*entries, *(lab.entry(well, name=name, **changes) for name, changes in sick.items())])
    lab.start()
    for host in (well, unmounted, bare):
        lab.pin(host)
    lab.await_online([well.name])
    _until_told(lab, unmounted.name, "shared folder")
    _until_told(lab, bare.name, "python3")
    _until_told(lab, inner.name, "not known")
    nodes, code = diagnose(lab)
    assert code == 1
    assert nodes[well.name]["verdict"] == "ok"
    checks = {one["check"]: one["verdict"] for one in nodes[well.name]["findings"]}
    assert [check for check, verdict in checks.items() if verdict != "ok"] == ["gpus"]  # declared: nothing is probed
    assert "running for" in _told(nodes[well.name], "agent")
    assert "/.local/state/muster/" in _told(nodes[well.name], "disk")
    expected = {
        unmounted.name: ("shared_folders", f"{lab.root} is not there", f"mount {lab.root}"),
        bare.name: ("python", "no `python3`", "install Python 3.8"),
        inner.name: ("host_key", inner.fingerprint, f"muster node trust {inner.name}"),
        "dead": ("reachable", "does not answer within", "look whether"),
        "refusing": ("reachable", "refuses the connection", "port 2222"),
    }
    for name, (check, words, cure) in expected.items():
        found = ills(nodes[name])
        assert set(found) == {check}, (name, found)
        assert found[check]["verdict"] == "fault"
        assert words in found[check]["told"]
        assert cure in found[check]["cure"]
    assert left_behind(bed) == []


def test_after_the_cures_all_is_well(bed: Testbed, lab: SshLab) -> None:
    well, unmounted, _, inner = bed.hosts
    unmounted.hide_shared()
    lab.start()
    lab.trust_all()
    lab.await_online([well.name, inner.name])
    _until_told(lab, unmounted.name, "shared folder")
    assert diagnose(lab, unmounted.name)[1] == 1
    unmounted.show_shared()
    nodes, code = diagnose(lab)
    assert {name: ills(node) for name, node in nodes.items()} == {name: {} for name in lab.nodes}
    assert code == 0
    assert "through its proxy" in _told(nodes[inner.name], "reachable")


def test_another_folder_under_the_same_path_a_full_disk_and_closed_logs_are_seen(bed: Testbed, lab: SshLab) -> None:
    other, full, closed, _ = bed.hosts
    full.small_disk(f"/home/{full.user}/.local/state", 4 << 20)
    lab.start()
    lab.trust_all()
    lab.await_online()
    # A mount of something else with the same folders in it: nothing but a word that was just written can tell.
    other.hide_shared()
    for folder in ("train_logs", "envs/miniconda3"):
        other.run("mkdir", "-p", "-m", "777", f"{lab.root}/{folder}")
    full.fill_disk(f"/home/{full.user}/.local/state")
    closed.run("mount", "--bind", "-o", "ro", f"{lab.root}/train_logs", f"{lab.root}/train_logs")
    closed.run("mount", "-o", "remount,ro,bind", f"{lab.root}/train_logs")
    nodes, code = diagnose(lab)
    assert code == 1
    found = ills(nodes[other.name])
    assert set(found) == {"shared_folders"}
    assert found["shared_folders"]["told_message"]["key"] == "doctor_folder_other"
    assert ills(nodes[full.name])["disk"]["verdict"] == "fault"
    assert ills(nodes[closed.name])["start"]["told_message"]["key"] == "doctor_no_log"
    assert set(ills(nodes[closed.name])) == {"start"}
    assert left_behind(bed) == []


def test_a_machine_that_freezes_is_told_in_time(bed: Testbed, lab: SshLab) -> None:
    lab.start()
    lab.trust_all()
    lab.await_online()
    bed.hosts[0].freeze()
    try:
        nodes, code = diagnose(lab)
    finally:
        bed.hosts[0].thaw()
    assert code == 1
    assert set(ills(nodes[bed.hosts[0].name])) == {"host_key", "agent"}
    assert [node["verdict"] for node in nodes.values()] == ["fault", "ok", "ok", "ok"]
    until("nothing is left behind", lambda: not left_behind(bed))


def _told(node: dict[str, Any], check: str) -> str:
    return next(str(one["told"]) for one in node["findings"] if one["check"] == check)


def _until_told(lab: SshLab, name: str, words: str) -> None:
    with lab.client() as client:
        until(f"{name} says {words}", lambda: words in (client.node(name)["reason"] or ""))
