"""Records of attempts are removed, emptied or overwritten while no agent runs. What lives is known by its shim, or by
what the master wrote down; what a process carries makes it a candidate at most, and only its owner's."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from monitor.agent.tree import MARK
from tests import rights
from tests.agent.small_master import Link, Message, Node, alive, known
from tests.waiting import until
from wire.agent import TELLS_DOUBT

STRANGER = 54321


def begun(node: Node, link: Link, command: str, launch_id: str = "t1") -> Message:
    """What the master wrote down of the start."""
    node.launch(link, launch_id, command, cwd="/")
    told = link.wait_for("started", launch_id)
    return {"launch_id": launch_id, "pid": told["pid"], "pid_start": told["pid_start"], "started_at": told["at"]}


def kill(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    until("they are dead", lambda: not any(map(alive, pids)))


def knowing(node: Node) -> Link:
    """A connection of a master that tells what it knows of attempts that the agent is in doubt of."""
    return node.link(protocol=TELLS_DOUBT)


def again(node: Node) -> Link:
    assert node.serve().returncode == 0
    return knowing(node)


def without_agent(node: Node, link: Link, *dead: int, shim_lives: bool = False) -> int:
    """End the agent, then the shim of t1 (unless `shim_lives`) and the processes `dead`. Return the shim's pid."""
    shim = node.shim_of("t1")
    node.kill_agent(link)
    if not shim_lives:
        kill(shim, *dead)
    return shim


def empty_record(node: Node) -> None:
    os.truncate(node.claim("t1") / "record", 0)


def forget_claim(node: Node) -> None:
    """Remove the claim of t1, and the note of it."""
    shutil.rmtree(node.claim("t1"))
    (node.state / "claims").unlink()


def end_of(link: Link) -> Message:
    """Kill t1 and return its exit."""
    link.kill("t1", grace_s=0.0)
    return link.wait_for("exit", "t1")


def waiting_for_its_log(node: Node) -> Link:
    """Launch t1 with a log that nobody reads yet, so that its shim waits. Return the link."""
    link = node.up()
    node.logs.mkdir(exist_ok=True)
    os.mkfifo(node.logs / "t1.log")
    node.launch(link, "t1", "exit 5", cwd="/")
    until("the claim", (node.claim("t1") / "record").exists)
    return link


def check_exit_once_read(node: Node, link: Link) -> None:
    """Read the log of t1; then its command exits with 5."""
    reader = os.open(node.logs / "t1.log", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert link.wait_for("exit", "t1")["code"] == 5
    finally:
        os.close(reader)


@contextmanager
def carrier(launch_id: str, *, uid: int | None = None) -> Iterator[int]:
    """A process of nobody's attempt that says that it is of this one."""
    become = [] if uid is None else ["setpriv", f"--reuid={uid}", "--clear-groups"]
    process = subprocess.Popen(
        [*become, "sleep", "1000"], env={**os.environ, MARK: known(launch_id)}, start_new_session=True
    )
    wanted = os.geteuid() if uid is None else uid
    until("it is there", lambda: b"sleep" in Path(f"/proc/{process.pid}/cmdline").read_bytes()[:5])
    until("it is this account's", lambda: Path(f"/proc/{process.pid}").stat().st_uid == wanted)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def test_what_ends_while_its_record_is_gone_and_no_agent_lives_tells_its_exit_code(node: Node) -> None:
    link = node.up()
    gate = node.logs.parent / "gate"
    os.mkfifo(gate)
    begun(node, link, f"read word < {gate}; exit 9")
    shim = without_agent(node, link, shim_lives=True)
    shutil.rmtree(node.claim("t1"))
    gate.write_text("go\n", encoding="utf-8")
    until("the shim's end", lambda: not alive(shim))
    end = again(node).wait_for("exit", "t1")
    assert (end["cause"], end["code"]) == ("exited", 9)


def test_what_another_account_carries_neither_holds_an_attempt_nor_is_signalled(node: Node) -> None:
    rights.need_real_root()
    link = node.up()
    told = begun(node, link, "exec sleep 1000")
    with carrier("t1", uid=STRANGER) as stranger:
        without_agent(node, link)
        empty_record(node)
        new = again(node)
        new.adopt(told)
        assert end_of(new)["cause"] == "killed"
        assert not alive(told["pid"])
        assert alive(stranger)


def test_what_another_account_carries_does_not_hold_an_attempt_whose_record_is_there(node: Node) -> None:
    rights.need_real_root()
    link = node.up()
    told = begun(node, link, "exec sleep 1000")
    with carrier("t1", uid=STRANGER) as stranger:
        without_agent(node, link)
        assert end_of(again(node))["cause"] == "killed"
        assert not alive(told["pid"])
        assert alive(stranger)


def test_what_became_another_accounts_and_hid_is_ended_though_its_shim_died(node: Node) -> None:
    rights.need_real_root()
    link = node.up()
    begun(node, link, f"(setsid setpriv --reuid={STRANGER} --clear-groups sleep 1000 &); exec sleep 1000")
    daemon = until("the daemon", lambda: of_the_stranger(node))
    kill(node.shim_of("t1"))
    try:
        assert end_of(link)["cause"] == "killed"
        assert not any(map(alive, daemon))
    finally:
        kill(*filter(alive, daemon))


def of_the_stranger(node: Node) -> list[int]:
    """What carries t1 and has become that account's for good."""
    return [pid for pid in node.carriers("t1") if _is_the_strangers(Path(f"/proc/{pid}"))]


def _is_the_strangers(process: Path) -> bool:
    try:
        return process.stat().st_uid == STRANGER and process.joinpath("comm").read_bytes() == b"sleep\n"
    except (FileNotFoundError, ProcessLookupError):  # the shell that starts it in the background ends at once
        return False


def test_what_its_own_account_carries_is_named_and_not_signalled_and_holds_it(node: Node) -> None:
    link = node.up()
    told = begun(node, link, "exec sleep 1000")
    with carrier("t1") as stranger:
        without_agent(node, link)
        empty_record(node)
        new = again(node)
        new.adopt(told)
        new.kill("t1", grace_s=0.0)
        until("what is proven is dead", lambda: not alive(told["pid"]))
        while (said := new.wait_for("unproven", "t1"))["pids"] != [stranger]:
            pass
        new.ping()
        assert alive(stranger)
        assert knowing(node).inventory["t1"]["unproven"] == said["pids"]
        os.kill(stranger, signal.SIGKILL)
    assert node.link().wait_for("exit", "t1")["cause"] == "killed"


def test_what_is_older_than_the_attempt_does_not_hold_it(node: Node) -> None:
    link = node.up()
    with carrier("t1") as stranger:
        begins = begun(node, link, "exec sleep 1000")
        without_agent(node, link, begins["pid"])
        empty_record(node)
        new = again(node)
        new.adopt({**begins, "pid_start": begins["pid_start"] + 1})
        assert new.wait_for("exit", "t1")["cause"] == "unknown"
        assert alive(stranger)


def test_what_is_in_doubt_is_not_over_before_the_master_has_told_what_it_knows(node: Node) -> None:
    link = node.up()
    told = begun(node, link, "exec env -i /bin/sleep 1000")
    until("the clean environment", lambda: not node.carriers("t1"))
    without_agent(node, link)
    empty_record(node)
    new = again(node)
    assert new.inventory["t1"]["doubt"]
    for _ in range(3):
        new.ping()
    assert knowing(node).inventory["t1"]["state"] == "claimed"
    last = knowing(node)
    last.adopt(told)
    assert (last.inventory["t1"]["state"], last.inventory["t1"].get("doubt")) == ("running", None)
    assert alive(told["pid"])
    assert end_of(last)["cause"] == "killed"
    assert not alive(told["pid"])


@pytest.mark.parametrize("lives", [True, False])
def test_what_was_claimed_is_not_started_again_after_its_claim_was_removed(node: Node, lives: bool) -> None:  # noqa: FBT001
    link = node.up()
    starts = node.logs.parent / "starts"
    command = f"echo $$ >> {starts}; " + ("exec sleep 1000" if lives else "exit 3")
    node.launch(link, "t1", command, cwd="/")
    link.wait_for("started" if lives else "exit", "t1")
    without_agent(node, link, shim_lives=not lives)
    shutil.rmtree(node.claim("t1"))
    new = again(node)
    node.launch(new, "t1", command, cwd="/")
    new.ping()
    new.adopt({"launch_id": "t1", "pid": 0, "pid_start": None, "started_at": None})
    if not lives:
        assert new.wait_for("exit", "t1")["cause"] == "unknown"
    new.ping()
    assert len(starts.read_text(encoding="ascii").split()) == 1


def test_what_carries_the_id_of_a_launch_keeps_it_from_being_started_again(node: Node) -> None:
    """All that told of the claim is gone."""
    link = node.up()
    starts = node.logs.parent / "starts"
    command = f"echo $$ >> {starts}; exec sleep 1000"
    told = begun(node, link, command)
    without_agent(node, link)
    forget_claim(node)
    new = again(node)
    node.launch(new, "t1", command, cwd="/")
    assert new.wait_for("unproven", "t1")["pids"] == [told["pid"]]
    assert len(starts.read_text(encoding="ascii").split()) == 1
    kill(told["pid"])
    assert new.wait_for("exit", "t1")["cause"] == "unknown"


def test_a_kill_of_what_nothing_tells_of_waits_for_what_carries_its_id(node: Node) -> None:
    link = node.up()
    told = begun(node, link, "exec sleep 1000")
    without_agent(node, link)
    forget_claim(node)
    new = again(node)
    new.kill("t1", grace_s=0.0)
    said = new.read()
    assert (said["op"], said.get("pids")) == ("unproven", [told["pid"]])
    kill(told["pid"])
    assert new.wait_for("exit", "t1")["cause"] == "killed"


def test_what_of_its_session_is_another_accounts_by_now_holds_it(node: Node) -> None:
    rights.need_real_root()
    link = node.up()
    told = begun(node, link, f"setpriv --reuid={STRANGER} --clear-groups sleep 1000 & wait")
    child = until("the child", lambda: of_the_stranger(node))
    try:
        without_agent(node, link, told["pid"])
        empty_record(node)
        new = again(node)
        new.adopt(told)
        said = new.read()
        assert (said["op"], said.get("pids")) == ("unproven", child)
        new.kill("t1", grace_s=0.0)
        new.ping()
        assert all(map(alive, child))
    finally:
        kill(*filter(alive, child))
    assert new.wait_for("exit", "t1")["cause"] == "killed"


@pytest.mark.parametrize("loss", ["emptied", "removed"])
def test_a_command_that_became_another_accounts_is_held_and_named(node: Node, loss: str) -> None:
    """As `sudo` does, which nobody but root may signal."""
    rights.need_real_root()
    link = node.up()
    told = begun(node, link, f"exec setpriv --reuid={STRANGER} --clear-groups sleep 1000")
    until("the other account", lambda: of_the_stranger(node) == [told["pid"]])
    try:
        without_agent(node, link)
        empty_record(node) if loss == "emptied" else shutil.rmtree(node.claim("t1"))
        new = again(node)
        new.adopt(told)
        entry = new.inventory["t1"]
        assert (entry["state"], entry["pid"], entry.get("doubt")) == ("running", told["pid"], None)
        assert new.wait_for("unproven", "t1")["pids"] == [told["pid"]]
        new.kill("t1", grace_s=0.0)
        assert new.wait_for("unproven", "t1")["pids"] == [told["pid"]]
        assert alive(told["pid"])
        last = knowing(node)
        assert (last.inventory["t1"]["state"], last.inventory["t1"]["unproven"]) == ("running", [told["pid"]])
    finally:
        kill(*filter(alive, [told["pid"]]))
    assert last.wait_for("exit", "t1")["cause"] == "killed"


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_command_that_its_agent_may_not_signal_is_named_whether_its_record_is_lost_or_not(is_lost: bool) -> None:  # noqa: FBT001
    with of_no_root() as (node, command):
        _named_though_not_ours(node, command, is_lost=is_lost)


def test_a_command_that_its_shim_may_not_signal_is_named_until_it_has_ended() -> None:
    with of_no_root() as (node, command):
        link = node.up()
        told = begun(node, link, command)
        assert link.wait_for("unproven", "t1")["pids"] == [told["pid"]]
        link.kill("t1", grace_s=0.0)
        assert link.wait_for("unproven", "t1")["pids"] == [told["pid"]]
        assert knowing(node).inventory["t1"]["unproven"] == [told["pid"]]
        assert alive(told["pid"])
        last = knowing(node)
        kill(told["pid"])
        assert last.wait_for("exit", "t1")["cause"] == "killed"


@contextmanager
def of_no_root() -> Iterator[tuple[Node, str]]:
    """A node whose agent is not root, and a command that becomes root's."""
    rights.need_real_root()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        os.chown(folder, 0, STRANGER)
        folder.chmod(0o770)
        node = Node(folder, python=_as_stranger(folder))
        try:
            yield node, _becomes_root(folder)
        finally:
            node.clean()


def _named_though_not_ours(node: Node, command: str, *, is_lost: bool) -> None:
    link = node.up()
    told = begun(node, link, command)
    until("it is root's", lambda: Path(f"/proc/{told['pid']}/comm").read_bytes() == b"sleep\n")
    without_agent(node, link)
    if is_lost:
        empty_record(node)
    new = again(node)
    if is_lost:
        new.adopt(told)
    until("it is named", lambda: knowing(node).inventory["t1"].get("unproven") == [told["pid"]])
    new = knowing(node)
    new.kill("t1", grace_s=0.0)
    assert new.wait_for("unproven", "t1")["pids"] == [told["pid"]]
    assert alive(told["pid"])
    kill(told["pid"])
    assert new.wait_for("exit", "t1")["cause"] == "killed"


def _as_stranger(folder: Path) -> str:
    """A Python whose processes are that account's."""
    script = folder / "python"
    script.write_text(
        f'#!/bin/sh\nexec setpriv --reuid={STRANGER} --regid={STRANGER} --clear-groups /usr/bin/python3 "$@"\n',
        encoding="ascii",
    )
    script.chmod(0o755)
    return str(script)


def _becomes_root(folder: Path) -> str:
    """A command that does as sudo does; nobody but that account comes to it."""
    program = folder / "become"
    shutil.copy(shutil.which("setpriv") or "setpriv", program)
    os.chown(program, 0, STRANGER)
    program.chmod(0o4750)
    return f"exec {program} --reuid=0 --clear-groups sleep 1000"


def test_a_claim_whose_command_has_not_begun_is_not_made_anew(node: Node) -> None:
    without_agent(node, waiting_for_its_log(node), shim_lives=True)
    claim = (node.claim("t1") / "record").read_bytes()
    new = again(node)
    assert new.inventory["t1"]["state"] == "claimed"
    assert (node.claim("t1") / "record").read_bytes() == claim
    check_exit_once_read(node, new)


def test_a_start_that_comes_after_its_claim_was_lost_is_told(node: Node) -> None:
    without_agent(node, waiting_for_its_log(node), shim_lives=True)
    shutil.rmtree(node.claim("t1"))
    new = again(node)
    assert new.inventory["t1"]["state"] == "claimed"
    check_exit_once_read(node, new)


def test_a_full_disk_keeps_nothing_that_lives_from_being_known(node: Node) -> None:
    rights.need_real_root()
    node.state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "muster-test", str(node.state)], check=True)
    try:
        link = node.up()
        told = begun(node, link, "exec env -i /bin/sleep 1000")
        without_agent(node, link)
        shutil.rmtree(node.claim("t1"))
        filler = node.state / "filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(4096)):
                pass
        new = again(node)
        new.adopt(told)
        assert new.inventory["t1"]["state"] == "running"
        new.kill("t1", grace_s=0.0)
        until("it is dead", lambda: not alive(told["pid"]))
        filler.unlink()
        assert new.wait_for("exit", "t1")["cause"] == "killed"
        node.kill_agent(new)
    finally:
        node.clean()
        until("unmounted", lambda: subprocess.run(["umount", str(node.state)], check=False).returncode == 0)


def test_what_is_in_a_control_group_of_its_own_is_proven_by_it(node: Node) -> None:
    rights.need_real_root()
    group = own_group()
    try:
        link = node.up()
        daemon = "setsid sleep 1000 & echo $! > /dev/null; wait"
        told = begun(node, link, daemon)
        left = until("the daemon", lambda: [pid for pid in node.carriers("t1") if pid != told["pid"]])
        for pid in (told["pid"], *left):
            (group / "cgroup.procs").write_text(str(pid), encoding="ascii")
        without_agent(node, link)
        empty_record(node)
        new = again(node)
        new.adopt(told)
        new.ping()
        assert end_of(knowing(node))["cause"] == "killed"
        assert not any(map(alive, [told["pid"], *left]))
    finally:
        node.clean()
        until("the group is empty", lambda: _is_gone(group))


def test_what_left_its_tree_and_became_another_accounts_holds_its_attempt(node: Node) -> None:
    """The agent and the shim are killed together, and the record is whole."""
    rights.need_real_root()
    group = _service()
    try:
        link = _in_group(node, group).up()
        begun(node, link, f"(setsid setpriv --reuid={STRANGER} --clear-groups sleep 1000 &); exec sleep 1000")
        daemon = until("the daemon", lambda: of_the_stranger(node))
        main = [pid for pid in node.carriers("t1") if pid not in daemon]
        with carrier("t1", uid=STRANGER) as stranger:
            kill(link.welcome["pid"], node.shim_of("t1"), *main)
            assert node.serve().returncode == 0
            until("it is held", lambda: knowing(node).inventory["t1"].get("unproven") == daemon)
            new = knowing(node)
            new.kill("t1", grace_s=0.0)
            assert new.wait_for("unproven", "t1")["pids"] == daemon
            assert all(map(alive, daemon))
            kill(*daemon)
            assert new.wait_for("exit", "t1")["cause"] == "killed"
            assert alive(stranger)
    finally:
        node.clean()
        until("the group is empty", lambda: _is_gone(group))


def _in_group(node: Node, group: Path) -> Node:
    """Its agents, and all that they start, are in a control group of their own, as a service is."""
    script = node.state.parent / "python"
    words = f'#!/bin/sh\necho $$ > {group}/cgroup.procs || exit 9\nexec {shlex.quote(sys.executable)} "$@"\n'
    script.write_text(words, encoding="utf-8")
    script.chmod(0o755)
    node.python = str(script)
    return node


def _service() -> Path:
    """A control group as systemd makes for a service."""
    for top in ("/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"):
        group = Path(top) / f"muster-test-{os.getpid()}.service"
        with suppress(OSError):
            group.mkdir()
            if (group / "cgroup.procs").exists():
                return group
            group.rmdir()
    raise rights.CannotHere("needs a control group that root may make", "in a container: --privileged")


def own_group() -> Path:
    for top in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup/memory", "/sys/fs/cgroup"):
        group = Path(top) / f"muster-test-own-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        if (group / "cgroup.procs").exists():
            return group
        group.rmdir()
    raise rights.CannotHere("needs a control group that root may make", "in a container: --privileged")


def _is_gone(group: Path) -> bool:
    try:
        group.rmdir()
    except OSError:  # somebody is dying in it
        return False
    return True
