"""The testbed itself: its hosts behave as machines do, and nothing of it stays behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testbed import leftovers, network, processes
from tests.testbed.bed import Testbed
from tests.testbed.host import Host
from tests.testbed.processes import Process
from tests.waiting import PATIENCE_S, until

ROOT = Path(__file__).parents[2]
SILENCE_S = 0.3
"""Longer than anything takes here: what has not come by then, does not come."""


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    with Testbed(3, inner=[3]) as made:
        yield made


@pytest.fixture
def host(bed: Testbed) -> Iterator[Host]:
    """A host that is as new after each test."""
    yield bed.hosts[0]
    bed.hosts[0].renew()


def banner(host: Host) -> socket.socket:
    """A connection to the host's sshd, its greeting read."""
    made = socket.create_connection((host.address, host.port), PATIENCE_S)
    try:
        assert made.recv(64).startswith(b"SSH-2.0")
    except BaseException:
        made.close()
        raise
    return made


def ssh(host: Host, bed: Testbed, command: str, *options: str, **keys: str) -> subprocess.CompletedProcess[str]:
    """What ssh itself says of the host."""
    trust = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
    words = ["ssh", "-F", "none", *trust, *(options or ("-i", str(bed.key))), f"{host.user}@{host.address}", command]
    environment = {**os.environ, **keys}
    return subprocess.run(
        words,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_each_host_is_a_machine_of_its_own(bed: Testbed) -> None:
    tell = "hostname; cat /proc/sys/kernel/random/boot_id /etc/machine-id; hostname -i"
    told = [host.run("sh", "-c", tell).split() for host in bed.hosts]
    assert [name for name, *_ in told] == ["host1", "host2", "host3"]
    for number in (1, 2):
        assert len({lines[number] for lines in told}) == 3
    assert [lines[1] for lines in told] == [host.boot_id for host in bed.hosts]
    assert [lines[3] for lines in told] == [host.address for host in bed.hosts]


@pytest.mark.parametrize("folder", ["/tmp", "/home", "/var/tmp", "/run", "/root"])  # noqa: S108
def test_each_host_has_this_folder_for_itself(bed: Testbed, host: Host, folder: str, tmp_path: Path) -> None:
    host.run("touch", f"{folder}/mine")
    assert "mine" not in bed.hosts[1].run("ls", folder)
    assert not Path(folder, "mine").exists()
    assert not bed.hosts[1].outside(str(tmp_path)).exists()


def test_the_shared_folder_is_at_one_path_for_all(bed: Testbed) -> None:
    bed.hosts[0].run("sh", "-c", f"echo hello >{bed.shared}/greeting", user=Host.user)
    assert (bed.shared / "greeting").read_text(encoding="ascii") == "hello\n"
    assert bed.hosts[2].run("cat", f"{bed.shared}/greeting") == "hello\n"


def test_a_host_has_none_of_these_sources(bed: Testbed) -> None:
    assert not bed.hosts[0].outside(str(ROOT / "pyproject.toml")).exists()


def test_the_account_logs_in_by_key(bed: Testbed) -> None:
    done = ssh(bed.hosts[0], bed, "id -un; hostname; echo $HOME")
    assert done.stdout.split() == [Host.user, "host1", f"/home/{Host.user}"], done.stderr


@pytest.mark.parametrize(("password", "code"), [(Host.password, 0), ("sesame open", 255)])
def test_the_account_logs_in_by_password(bed: Testbed, tmp_path: Path, password: str, code: int) -> None:
    ask = tmp_path / "ask"
    ask.write_text(f"#!/bin/sh\necho '{password}'\n", encoding="ascii")
    ask.chmod(0o700)
    only = ("-o", "PubkeyAuthentication=no", "-o", "NumberOfPasswordPrompts=1")
    done = ssh(bed.hosts[0], bed, "true", *only, SSH_ASKPASS=str(ask), SSH_ASKPASS_REQUIRE="force")
    assert done.returncode == code, done.stderr


def test_what_a_session_leaves_behind_lives_on_and_is_taken_in_when_it_ends(bed: Testbed, host: Host) -> None:
    assert ssh(host, bed, "setsid sleep 1234 >&- 2>&- <&- &").returncode == 0
    host.stop_sshd()

    def orphan() -> Process | None:
        found = (one for one in host.processes() if one.command == "sleep 1234" and one.parent == host.init)
        return next(found, None)

    sleeper = until("the sleeper is an orphan", orphan, seen=host.processes)
    os.kill(sleeper.pid, signal.SIGKILL)
    until("it is taken in", lambda: not Path(f"/proc/{sleeper.pid}").exists())


def test_the_processes_of_attempts_are_found(host: Host) -> None:
    host.run("sh", "-c", "MUSTER_LAUNCH_ID=7.1.abc setsid sleep 1234 >&- 2>&- &")
    [attempt] = until("an attempt", host.attempts)
    assert attempt.launch_id == "7.1.abc"
    assert host.outside("/proc").exists()


def test_a_power_loss_is_silent_and_a_reboot_has_another_boot_id(host: Host) -> None:
    host.run("sh", "-c", "echo kept >/home/lab/file; echo gone >/run/file")
    before = host.boot_id
    with banner(host) as connection:
        connection.settimeout(SILENCE_S)
        host.power_off()
        assert not host.is_on
        with pytest.raises(TimeoutError):
            connection.recv(1)
        host.power_on()
        assert host.boot_id != before
        assert host.run("cat", "/home/lab/file") == "kept\n"
        assert not host.outside("/run/file").exists()
        connection.settimeout(PATIENCE_S)
        connection.sendall(b"are you there?\r\n")
        with pytest.raises(ConnectionResetError):
            connection.recv(1)


def test_nothing_of_a_host_without_power_lives(host: Host) -> None:
    host.run("sh", "-c", "setsid sleep 1234 >&- 2>&- &")
    until("it and the listener are all there is", lambda: len(host.processes()) == 2, seen=host.processes)
    pids = [process.pid for process in host.processes()]
    host.power_off()
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    assert host.processes() == []


def test_a_cut_link_loses_packets_and_no_connection(host: Host) -> None:
    with banner(host) as connection:
        host.cut()
        connection.sendall(b"SSH-2.0-test\r\n")
        connection.settimeout(SILENCE_S)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        host.heal()
        connection.settimeout(PATIENCE_S)
        assert connection.recv(1)  # the start of its key exchange


def test_what_a_host_sends_can_be_lost_alone(bed: Testbed, host: Host) -> None:
    host.lose_to_master()
    await_hearing(host)
    assert not _is_heard(bed, host)
    host.heal()
    await_hearing(host)
    await_heard(bed, host)


def test_what_is_sent_to_a_host_can_be_lost_alone(bed: Testbed, host: Host) -> None:
    host.lose_from_master()
    assert not _hears(host)
    await_heard(bed, host)
    host.heal()
    await_hearing(host)
    await_heard(bed, host)


def test_a_host_behind_a_firewall_takes_answers_and_nothing_else(bed: Testbed, host: Host) -> None:
    banner(host).close()
    with banner(host) as before:
        host.shut_out()
        before.sendall(b"SSH-2.0-test\r\n")
        assert before.recv(1)  # a connection that it took goes on
    with pytest.raises(TimeoutError):
        socket.create_connection((host.address, host.port), SILENCE_S)
    assert not _hears(host)
    await_heard(bed, host)
    with socket.create_server((bed.master_address, 0)) as server:
        server.settimeout(PATIENCE_S)
        ask = f"exec 3<>/dev/tcp/{bed.master_address}/{server.getsockname()[1]}; echo hello >&3; cat <&3"
        words = ["nsenter", f"--target={host.init}", "--net", "bash", "-c", ask]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as asking:
            with server.accept()[0] as taken:
                taken.settimeout(PATIENCE_S)
                assert taken.recv(64) == b"hello\n"
                taken.sendall(b"x" * 100_000)
            assert len(asking.communicate()[0]) == 100_000
    host.renew()
    banner(host).close()


def await_hearing(host: Host) -> None:
    """Wait until a datagram reaches the host."""
    until("it hears", lambda: _hears(host))


def await_heard(bed: Testbed, host: Host) -> None:
    """Wait until a datagram of the host's arrives here."""
    until("it is heard", lambda: _is_heard(bed, host))


def _hears(host: Host) -> bool:
    """Does a datagram reach the host in time? Its kernel counts those that nobody waits for."""
    before = _unwanted(host)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"hello", (host.address, 9))
    deadline = time.monotonic() + SILENCE_S
    while time.monotonic() < deadline:
        if _unwanted(host) > before:
            return True
    return False


def _unwanted(host: Host) -> int:
    lines = Path(f"/proc/{host.init}/net/snmp").read_text(encoding="ascii").splitlines()
    names, numbers = (line.split() for line in lines if line.startswith("Udp:"))
    return int(numbers[names.index("NoPorts")])


def _is_heard(bed: Testbed, host: Host) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind((bed.master_address, 0))
        receiver.settimeout(SILENCE_S)
        host.run("bash", "-c", f"echo hello >/dev/udp/{bed.master_address}/{receiver.getsockname()[1]}")
        try:
            return receiver.recv(64) == b"hello\n"
        except TimeoutError:
            return False


@pytest.fixture
def echo(bed: Testbed, host: Host) -> Iterator[Echo]:
    """A session over ssh that is open."""
    words = ["ssh", "-F", "none", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
    with subprocess.Popen(
        [*words, "-i", str(bed.key), f"{host.user}@{host.address}", "cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as session:
        try:
            yield Echo(session)
        finally:
            session.kill()


class Echo:
    """The two ends of a session in which `cat` runs."""

    def __init__(self, session: subprocess.Popen[bytes]) -> None:
        assert session.stdin is not None
        assert session.stdout is not None
        self._said, self._heard = session.stdin, session.stdout

    def say(self, line: bytes) -> bytes:
        """Say a line; what comes back."""
        self._said.write(line)
        self._said.flush()
        return self._heard.readline()


def test_a_stopped_sshd_refuses_and_its_sessions_go_on(host: Host, echo: Echo) -> None:
    assert echo.say(b"first\n") == b"first\n"
    host.stop_sshd()
    with pytest.raises(ConnectionRefusedError):
        banner(host)
    assert echo.say(b"still here\n") == b"still here\n"
    host.start_sshd()
    banner(host).close()


def test_a_frozen_sshd_takes_connections_and_says_nothing(host: Host) -> None:
    host.freeze_sshd()
    with socket.create_connection((host.address, host.port), PATIENCE_S) as connection:
        connection.settimeout(SILENCE_S)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        host.thaw_sshd()
        connection.settimeout(PATIENCE_S)
        assert connection.recv(64).startswith(b"SSH-2.0")


def test_a_frozen_host_still_has_its_connections(host: Host) -> None:
    with banner(host) as connection:
        host.freeze()
        connection.sendall(b"SSH-2.0-test\r\n")
        connection.settimeout(SILENCE_S)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        host.thaw()
        connection.settimeout(PATIENCE_S)
        assert connection.recv(1)


def test_a_swapped_host_key_is_what_sshd_shows(host: Host) -> None:
    before = host.fingerprint
    host.swap_host_key()
    assert host.fingerprint != before
    shown = subprocess.run(
        ["ssh-keyscan", "-T", f"{PATIENCE_S:.0f}", "-t", "ed25519", host.address],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert shown.split(maxsplit=1)[1].strip() == host.host_key


def test_the_black_hole_neither_takes_nor_refuses(bed: Testbed) -> None:
    with pytest.raises(TimeoutError):
        socket.create_connection((bed.blackhole, 22), SILENCE_S)
    assert network.neighbours(bed.blackhole) == ["PERMANENT"]  # else it would be known to be away after 3 s


def test_a_host_without_python_says_that_it_has_none(bed: Testbed, host: Host) -> None:
    host.hide_python()
    done = ssh(host, bed, "python3 -c 'print(1)'")
    assert done.returncode == 127
    assert "not found" in done.stderr
    assert ssh(host, bed, "ls / | wc -l").returncode == 0
    host.show_python()
    assert ssh(host, bed, "python3 -c 'print(1)'").stdout == "1\n"


def test_a_hidden_shared_folder_is_an_empty_one(bed: Testbed, host: Host) -> None:
    (bed.shared / "file").touch()
    host.hide_shared()
    assert host.run("ls", str(bed.shared)) == ""
    assert "file" in bed.hosts[1].run("ls", str(bed.shared))
    host.show_shared()
    assert "file" in host.run("ls", str(bed.shared))


def test_a_full_disk_takes_nothing_until_there_is_room(bed: Testbed, host: Host) -> None:
    host.small_disk("/home/lab/small", 64 << 10)
    host.fill_disk("/home/lab/small")
    done = ssh(host, bed, "echo something >small/file")
    assert "No space left on device" in done.stderr
    host.empty_disk("/home/lab/small")
    assert ssh(host, bed, "echo something >small/file").returncode == 0


def test_the_bashrc_of_a_host_speaks_before_every_command(bed: Testbed, host: Host) -> None:
    host.set_bashrc("echo welcome to the lab\n")
    assert ssh(host, bed, "hostname").stdout == "welcome to the lab\nhost1\n"


def through(bed: Testbed, host: Host) -> socket.socket:
    """A connection through the proxy, up to sshd's greeting."""
    made = socket.create_connection(bed.proxy_address, PATIENCE_S)
    try:
        made.sendall(b"\5\1\0")
        assert made.recv(2) == b"\5\0"
        made.sendall(b"\5\1\0\1" + socket.inet_aton(host.address) + host.port.to_bytes(2, "big"))
        assert made.recv(10)[:2] == b"\5\0"
    except BaseException:
        made.close()
        raise
    return made


def test_an_inner_host_is_reached_through_the_proxy_only(bed: Testbed) -> None:
    inner = bed.hosts[2]
    with pytest.raises(OSError, match=r"timed out|No route to host"):
        socket.create_connection((inner.address, inner.port), SILENCE_S)
    with through(bed, inner) as connection:
        assert connection.recv(64).startswith(b"SSH-2.0")


def test_the_proxy_can_be_slow_and_can_die(bed: Testbed) -> None:
    bed.stop_proxy()
    with pytest.raises(ConnectionRefusedError):
        through(bed, bed.hosts[2])
    bed.start_proxy(delay_s=0.1)
    with through(bed, bed.hosts[2]) as connection:
        assert connection.recv(64).startswith(b"SSH-2.0")
        began = time.monotonic()
        connection.sendall(b"SSH-2.0-test\r\n")
        assert connection.recv(1)
        assert time.monotonic() - began >= 0.2
    bed.stop_proxy()
    bed.start_proxy()


def test_two_testbeds_stand_side_by_side_and_leave_nothing(bed: Testbed) -> None:
    with Testbed(1) as other:
        host, folder = other.hosts[0], other.folder
        assert host.address.split(".")[1] != bed.hosts[0].address.split(".")[1]
        banner(host).close()
        banner(bed.hosts[0]).close()
        pids = [host.init, *(process.pid for process in host.processes())]
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    assert _traces(folder) == []


def test_what_a_killed_run_left_is_removed_by_the_next(bed: Testbed) -> None:
    program = "import subprocess, sys; from tests.testbed.bed import Testbed\nwith Testbed(2, inner=[2]) as bed:\n"
    program += "    disk = bed.folder / 'disk'; disk.mkdir()\n"
    program += "    subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', disk], check=True)\n"
    program += "    print(bed.folder, *(host.init for host in bed.hosts), flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        folder, *inits = run.stdout.readline().split()
        alive = {Path(folder).name, bed.folder.name}
        with leftovers.alone():  # all the time: else a testbed that somebody opens beside us would remove it
            assert alive.isdisjoint(leftovers.sweep())
            run.kill()
            run.wait()
            assert len(_traces(Path(folder))) == 10  # two bridges, four wires, three namespaces, one folder
            assert len(_living(inits)) == 2
            assert leftovers.sweep() == [Path(folder).name]
    assert _traces(Path(folder)) == []
    assert _living(inits) == []
    banner(bed.hosts[0]).close()


def _living(pids: list[str]) -> list[Process]:
    """Those that do more than wait for their parent to notice their end."""
    return processes.alive({int(pid) for pid in pids}.__contains__)


def _traces(folder: Path) -> list[str]:
    """All that shows that a run was, or is: its folder, bridges, wires, namespaces."""
    run = folder.name
    wires = network.Network(run)
    named = [name for prefix in (f"mt{run}-", wires.bridge, wires.inner_bridge) for name in network.links(prefix)]
    return [*named, *network.namespaces(f"mt{run}-"), *([str(folder)] if folder.exists() else [])]
