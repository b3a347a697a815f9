"""What befalls the hosts: each strike takes one that nothing is wrong with, and gives it back when it is over.

Outages last in threads of their own, so that several hosts are out at a time. Keeps for the audit what may have cost an
attempt its end: which hosts lost power and when, which shims were killed.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.storm.excuses import Excuses
from tests.storm.ground import STATE, Ground, make_sick, make_well, power_cycle
from tests.storm.line import GoneError, Line, RefusedError
from tests.storm.pace import Going
from tests.storm.plan import UNSHARED, Strike
from tests.testbed.errors import TestbedError
from tests.testbed.host import Host
from tests.waiting import NeverError, until

MOST_OUT = 7
MOST_SHARE = 0.6
"""At most so many hosts are out at a time, and at most this share of them."""
FREE_S = 120.0
VICTIM_S = 90.0
RESUMED_S = 90.0
FAILPOINT_S = 90.0
PUSH_S = 2.0
PARTITIONS: dict[str, Callable[[Host], None]] = {
    "cut": Host.cut,
    "deaf": Host.lose_from_master,
    "mute": Host.lose_to_master,
}
AIMED = frozenset({"deaf", "mute"})
"""Only for hosts that this machine talks to itself."""


class HostLane(threading.Thread):
    """Does all of the plan's strikes on hosts. `done`: by kind; `problems`: what did not come back; `set_aside`: how
    often a node had been set aside for its faults and somebody resumed it."""

    def __init__(self, place: Ground, going: Going, strikes: tuple[tuple[int, Strike], ...]) -> None:
        super().__init__(name="host lane", daemon=True)
        self.done: Counter[str] = Counter()
        self.problems: list[str] = []
        self.set_aside = 0
        self.excuses = Excuses()
        self._place = place
        self._hosts = place.lab.hosts
        self._going = going
        self._feed = going.feed
        self._strikes = strikes
        self._chance = random.Random(f"{going.seed}.hosts")
        self._out: dict[str, str] = {}
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._most = max(1, min(MOST_OUT, int(len(self._hosts) * MOST_SHARE)))
        self._does: dict[str, Callable[[Host, Strike], None]] = {
            "partition": self._partition,
            "reboot": self._reboot,
            "full disk": self._full_disk,
            "sick node": self._sick,
            "agent kill": self._agent_kill,
            "agent failpoint": self._agent_failpoint,
        }

    def run(self) -> None:
        """All of them, each when its phase has come and a host is free for it."""
        for phase, strike in self._strikes:
            self._going.pace.wait(phase)
            host = self._take(strike)
            if host is None:
                self.problems.append(f"no host was free for {strike}: {self._out} are out")
                continue
            thread = threading.Thread(
                target=self._do, args=(host, strike), name=f"{strike} of {host.name}", daemon=True
            )
            thread.start()
            self._threads.append(thread)
        for thread in self._threads:
            thread.join()

    def _take(self, strike: Strike) -> Host | None:
        with self._changed:
            if not self._changed.wait_for(lambda: self._free(strike) and len(self._out) < self._most, FREE_S):
                return None
            name = self._chance.choice(self._free(strike))
            self._out[name] = str(strike)
            return self._hosts[name]

    def _free(self, strike: Strike) -> list[str]:
        small = set(self._place.small_disks)
        fits = (
            (small if strike.what == "node" else set(self._hosts) - small)
            if strike.kind in ("full disk", "reboot")
            else set(self._hosts)
        )
        aimed = strike.what in AIMED
        return sorted(name for name in fits - set(self._out) if not (aimed and self._hosts[name].inner))

    def _do(self, host: Host, strike: Strike) -> None:
        try:
            self._does[strike.kind](host, strike)
        except (TestbedError, NeverError, OSError) as error:
            self.problems.append(f"{strike} of {host.name}: {error}")
        with self._changed:
            del self._out[host.name]
            self.done[strike.kind] += 1
            self._going.last.over()
            self._changed.notify_all()

    # -- each kind --------------------------------------------------------------------------------------------

    def _partition(self, host: Host, strike: Strike) -> None:
        PARTITIONS[strike.what](host)
        try:
            time.sleep(strike.seconds)
        finally:
            host.heal()

    def _reboot(self, host: Host, strike: Strike) -> None:
        off = time.time()
        power_cycle(host, strike.seconds)
        self.excuses.reboots.setdefault(host.name, []).append((off, time.time()))

    def _full_disk(self, host: Host, strike: Strike) -> None:
        host.fill_disk(STATE)
        self._feed.push(host.name)
        try:
            time.sleep(strike.seconds)
        finally:
            host.empty_disk(STATE)
        until(f"{host.name} takes tasks again", lambda: self._resumed(host), RESUMED_S)

    def _sick(self, host: Host, strike: Strike) -> None:
        began = time.time()
        make_sick(host, strike.what)
        for name in ("", "", "", host.name):
            self._feed.push(name)  # three that another host can take, and one that has to wait for this one
        try:
            time.sleep(strike.seconds)
        finally:
            make_well(host, strike.what)
            if strike.what == UNSHARED:
                self.excuses.unshared.append((host.name, began, time.time()))
        until(f"{host.name} takes tasks again", lambda: self._resumed(host), RESUMED_S)

    def _resumed(self, host: Host) -> bool:
        """Does it take tasks again? If it was set aside for its faults, somebody has to say that it is mended."""
        with suppress(GoneError, RefusedError), Line(self._place.lab.ports["data_port"]) as line:
            node = next(node for node in line.call("node.list") if node["name"] == host.name)
            if "set aside" in (node["reason"] or ""):
                line.call("node.resume", name=host.name)
                self.set_aside += 1
            return bool(node["state"] == "online" and node["schedulable"])
        return False

    def _agent_kill(self, host: Host, strike: Strike) -> None:
        kill = self._kill_shim if strike.what == "shim" else self._kill_agent
        until(f"a victim on {host.name}", lambda: kill(host), VICTIM_S)

    def _kill_agent(self, host: Host) -> bool:
        return self._place.lab.kill_agent(host.name)

    def _kill_shim(self, host: Host) -> bool:
        """The shim over one of the host's attempts, which is the parent of the attempt's first process."""
        everything = host.processes()
        attempts = {process.pid for process in everything if process.launch_id}
        roots = [process for process in everything if process.launch_id and process.parent not in attempts]
        shims = {process.pid for process in everything if not process.launch_id}
        victims = [process for process in roots if process.parent in shims]
        if not victims:
            self._feed.push(host.name)
            time.sleep(PUSH_S / 4)
            return False
        victim = self._chance.choice(victims)
        self.excuses.shims.add(victim.launch_id)
        with suppress(ProcessLookupError):
            os.kill(victim.parent, signal.SIGKILL)
        return True

    def _agent_failpoint(self, host: Host, strike: Strike) -> None:
        began = time.time()
        armed = self._place.lab.arm_agent(host.name, strike.what)
        try:
            self._await_gone(host, armed, strike)
        finally:
            armed.unlink(missing_ok=True)
            if strike.what.startswith("shim."):
                self.excuses.shim_points.append((host.name, began, time.time() + 1.0))

    def _await_gone(self, host: Host, armed: Path, strike: Strike) -> None:
        pushed = 0.0

        def push() -> None:
            nonlocal pushed
            if time.monotonic() >= pushed + PUSH_S:
                self._feed.push(host.name)
                pushed = time.monotonic()
            time.sleep(0.05)

        until(f"something came by {strike.what}", lambda: not armed.exists(), FAILPOINT_S, turn=push)
