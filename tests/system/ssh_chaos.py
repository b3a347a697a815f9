"""The chaos run on a testbed: besides all that befalls the local one, links are cut, machines lose power, sshd stops.

An outage lasts while other strikes go on. It is over, and the node back, before the books are read.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.system.chaos import Gate, Plan, Report, Say, Stage, Storm, run
from tests.system.ssh_lab import SshLab, ssh_oracle
from tests.testbed.bed import Testbed
from tests.testbed.errors import TestbedError
from tests.testbed.host import Host
from tests.waiting import NeverError, until

HOSTS = 4
MENDED_S = 60.0
"""So long a strike waits for the end of another one's outage, when there is none to strike."""


@dataclass(frozen=True)
class Outage:
    """What happens to a host, and what ends it."""

    begin: Callable[[Host], None]
    end: Callable[[Host], None]


OUTAGES = {
    "cut": Outage(Host.cut, Host.heal),
    "power": Outage(Host.power_off, Host.power_on),
    "sshd": Outage(Host.stop_sshd, Host.start_sshd),
    "frozen": Outage(Host.freeze, Host.thaw),
    "deaf": Outage(Host.lose_from_master, Host.heal),
    "mute": Outage(Host.lose_to_master, Host.heal),
}
DIRECT = frozenset({"deaf", "mute"})
"""Only for hosts that this machine talks to itself."""


class SshStorm(Storm):
    """Also does outages, `KIND:SECONDS` each, every one to another host."""

    def __init__(self, lab: SshLab, gate: Gate, report: Report, chance: random.Random, say: Say) -> None:
        super().__init__(lab, gate, report, chance, say)
        self._hosts = lab.hosts
        self._out: set[str] = set()
        self._menders: list[threading.Thread] = []
        self._failed: list[str] = []

    def standing(self) -> list[str]:
        """The nodes without an outage."""
        return [name for name in self._hosts if name not in self._out]

    def end(self) -> None:
        """Wait for the end of all outages."""
        for mender in self._menders:
            mender.join()
        if self._failed:
            raise NeverError("; ".join(self._failed))

    def _strike(self, kind: str, name: str) -> None:
        if kind != "outage":
            super()._strike(kind, name)
            return
        what, _, seconds = name.partition(":")
        candidates = until("a host to strike", lambda: self._candidates(what), MENDED_S)
        host = self._hosts[self._chance.choice(candidates)]
        self._say(f"  {what} of {host.name} for {seconds} s")
        self._out.add(host.name)
        if what == "power":
            self._report.rebooted.add(host.name)
        OUTAGES[what].begin(host)
        mender = threading.Thread(target=self._mend, args=(host, what, float(seconds)), name=f"mends {host.name}")
        mender.start()
        self._menders.append(mender)

    def _candidates(self, what: str) -> list[str]:
        return [name for name in self.standing() if what not in DIRECT or not self._hosts[name].inner]

    def _mend(self, host: Host, what: str, seconds: float) -> None:
        time.sleep(seconds)
        try:
            OUTAGES[what].end(host)
        except TestbedError as error:
            self._failed.append(str(error))
        self._out.discard(host.name)
        self._say(f"  {what} of {host.name} is over")


def run_over_ssh(folder: Path, plan: Plan, say: Say = lambda _line: None) -> Report:
    """A chaos run on a testbed of its own, its last host behind the proxy."""
    with Testbed(HOSTS, inner=[HOSTS]) as bed:
        lab = SshLab(folder / "lab", bed)
        return run(folder, plan, say, Stage(lab, ssh_oracle(bed), SshStorm, lab.start_trusted))
