"""A lab whose one node dials in from a host of the testbed to which nobody can open a connection.

The master listens on the bridge that the host sees. On the host an ordinary account does what `muster node token`
prints; nothing there is started by this machine otherwise. Owns the same as `SshLab`, without SSH.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.system.far_node import Steps
from tests.system.ssh_lab import SshLab
from tests.testbed.bed import Testbed
from tests.testbed.host import Host
from tests.testbed.processes import Process
from tests.waiting import NeverError, until

STALE_S = 27.0
"""Well over the 15 s after which a silent connection is given up, for between the two it is shown as `connecting`; less
than the cut of a wire lasts."""
STATE = ".local/state/muster"
TYPED_S = 100
"""Nothing that is typed takes so long, unless it goes on for ever (status 124)."""


class FarLab(SshLab):
    """The host is behind its firewall and runs no sshd; the master runs, and nobody has dialled yet. `user`: who types
    there what is printed."""

    user = Host.user

    def __init__(self, folder: Path, bed: Testbed, host: Host) -> None:
        super().__init__(folder, bed, hosts=[host])
        self.host = host
        self.name = host.name
        self.write_conf(bind=bed.master_address, scheduler={"grace_s": 2.0, "report_stale_s": STALE_S})
        host.stop_sshd()
        host.shut_out()
        self.start()

    def entry(self, host: Host, **changes: Any) -> dict[str, Any]:
        """What the registry says of a host: nothing of how to get there."""
        kept = {"name", "gpu_probe", "gpu_count", "slots"}
        found = {key: value for key, value in super().entry(host).items() if key in kept}
        return {**found, "driver": "report", **changes}

    @property
    def where(self) -> str:
        """The master's data port, as the host reaches it."""
        return f"{self.bed.master_address}:{self.keys['socket_info']['data_port']}"

    # -- on this machine --------------------------------------------------------------------------------------

    def steps(self, *words: str) -> Steps:
        """What `muster node token` prints."""
        done = self.muster("node", "token", self.name, *words)
        assert done.returncode == 0, done.stderr
        return Steps(done.stdout)

    def rotate(self) -> str:
        """Another token."""
        return str(json.loads(self.muster("node", "token", self.name, "--rotate", "--json").stdout)["token"])

    def times_dialled(self) -> int:
        """How often the agent was let in."""
        return self.server_log().count("its agent dialled in from")

    # -- on the host ------------------------------------------------------------------------------------------

    def typed(self, line: str, said: str = "", host: Host | None = None) -> tuple[int, str]:
        """Type a line at home, as the account, and answer what it asks; status and what it says on both streams."""
        bounded = f"cd; timeout {TYPED_S} sh -c {shlex.quote(line)} 2>&1; echo $?"
        told = (host or self.host).run("sh", "-c", bounded, user=self.user, said=said)
        text, _, status = told.rstrip("\n").rpartition("\n")
        return int(status), text

    def install(self, host: Host | None = None) -> Steps:
        """Do what is printed, and nothing else."""
        steps = self.steps()
        assert self.typed(steps.fetch, host=host) == (0, "")
        status, said = self.typed(steps.report, steps.token + "\n", host)
        assert (status, "reporting to" in said) == (0, True), said
        return steps

    def report(self, *words: str, said: str = "", host: Host | None = None) -> tuple[int, str]:
        """`report` with what is remembered, in the foreground until it ends."""
        return self.typed(" ".join(["python3 muster-agent.pyz report --node", self.name, *words]), said, host)

    @property
    def base(self) -> Path:
        """Where the agent keeps its things."""
        return (self.host.disk / "root" if self.user == "root" else self.host.home) / STATE

    @property
    def said(self) -> str:
        """What the process that dials wrote into its log."""
        return (self.base / f"report-{self.name}.log").read_text(encoding="utf-8")

    def callers(self) -> list[Process]:
        """The processes that dial."""
        return [process for process in self.host.processes() if "report --node" in process.command]

    def agent_folder(self, node: str) -> Path:
        """The state folder of the node's agent."""
        return until("a state folder", lambda: next(self.base.glob(f"report-{node}-*/"), None))

    def strays(self) -> list[Process]:
        """As in any lab; who dials belongs there."""
        return [process for process in super().strays() if "report --node" not in process.command]

    def await_online(self, names: Iterable[str] = ()) -> None:
        """Wait until the node takes tasks. Its agent may have come to a pause of some length meanwhile."""
        try:
            until("it dials in", lambda: self.node_state == "online", patience=60)
        except NeverError:
            raise NeverError(f"{self.node_state}; it said {self.said}; the master: {self.server_log()}") from None
        super().await_online(names)

    @property
    def node_state(self) -> str:
        """As the master tells it."""
        with self.client() as client:
            return str(client.node(self.name)["state"])
