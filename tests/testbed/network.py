"""The wires of a testbed: a bridge, an address for everyone, and ways to lose packets.

All of it is called after the run's number, so that two runs stand side by side and what a dead one left is known by
its name. A kernel without netem and iptables is enough: a cut wire is a link that is down, a lost direction is a
neighbour entry that names a card nobody has, a firewall is a small program for the kernel's packet filter.
"""

from __future__ import annotations

import json
import random
import secrets
import subprocess
from typing import Any

from tests.testbed.errors import TestbedError

NOBODY = "02:00:00:00:de:ad"
"""The card of nobody: what is sent to it is swallowed."""
_GATEWAY, _SWALLOWED, _MASTER = "127.1", "127.253", "127.254"
_INNER_GATEWAY = "255.254"
_PASS, _DROP = 0xFFFFFFFF, 2
_FIREWALL = (
    (0x28, 0, 0, 12),  # what protocol is it?
    (0x15, 5, 0, 0x0806),  # ARP passes
    (0x15, 0, 5, 0x0800),  # what is not IPv4 does not
    (0x30, 0, 0, 23),
    (0x15, 0, 3, 6),  # nor what is not TCP
    (0x30, 0, 0, 47),
    (0x45, 0, 1, 0x14),  # nor, of that, what neither acknowledges nor resets: the beginning of a connection
    (0x06, 0, 0, _PASS),
    (0x06, 0, 0, _DROP),
)
"""Classic BPF, as `tc` takes it: operation, jump if so, jump if not, operand; offsets begin at the card's header."""


def ip(*lines: str, namespace: str = "") -> None:
    """Let iproute2 do all the lines. Raises TestbedError at the first that fails."""
    words = ["ip", *(["-n", namespace] if namespace else []), "-batch", "-"]
    done = subprocess.run(words, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise TestbedError(f"ip {'; '.join(lines)}: {' '.join(done.stderr.split())}")


def tc(*lines: str, namespace: str) -> None:
    """Let iproute2 do all the lines. Raises TestbedError at the first that fails."""
    words = ["tc", "-n", namespace, "-batch", "-"]
    done = subprocess.run(words, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise TestbedError(f"tc {'; '.join(lines)}: {' '.join(done.stderr.split())}")


def _told(*words: str) -> list[dict[str, Any]]:
    done = subprocess.run(["ip", "-json", *words], capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout or "[]")
    return found


def neighbours(address: str) -> list[str]:
    """What this machine's kernel believes of an address: one state for each entry."""
    return [entry["state"][0] for entry in _told("neigh", "show", "to", address)]


def links(prefix: str) -> list[str]:
    """The network links whose names begin so."""
    return [link["ifname"] for link in _told("link", "show") if link["ifname"].startswith(prefix)]


def namespaces(prefix: str) -> list[str]:
    """The named network namespaces whose names begin so."""
    return [space["name"] for space in _told("netns", "list") if space["name"].startswith(prefix)]


def free_network() -> int:
    """X of a 10.X.0.0/16 in which nothing on this machine has an address or a route. Raises TestbedError."""
    taken = {route["dst"].split(".")[1] for route in _told("-4", "route", "show", "table", "all") if _in_ten(route)}
    free = [number for number in range(16, 250) if str(number) not in taken]
    if not free:
        raise TestbedError("no network beneath 10.0.0.0/8 is free on this machine")
    return random.choice(free)


def _in_ten(route: dict[str, Any]) -> bool:
    return bool(route["dst"].startswith("10."))


class Network:
    """The bridges of one run. `run`: at most 6 characters. Hosts are numbered from 1."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.bridge = f"mtb{run}"
        self.inner_bridge = f"mti{run}"
        self.gateway = f"mt{run}-gw"
        self.number = 0

    def open(self) -> None:
        """Make the outer bridge; this machine has `master` on it. Raises TestbedError."""
        self.number = free_network()
        swallow = f"neigh add {self.swallowed} lladdr {NOBODY} dev {self.bridge} nud permanent"
        ip(*_bridge(self.bridge), f"addr add {self.master}/16 dev {self.bridge}", swallow)

    def open_gateway(self) -> None:
        """Make the inner bridge, which this machine is not on, and a namespace that is on both."""
        outer, inner = f"mt{self.run}-go", f"mt{self.run}-gi"
        ip(
            *_bridge(self.inner_bridge),
            f"netns add {self.gateway}",
            f"link add {outer} type veth peer name eth0 netns {self.gateway}",
            f"link add {inner} type veth peer name eth1 netns {self.gateway}",
            f"link set {outer} master {self.bridge} up",
            f"link set {inner} master {self.inner_bridge} up",
        )
        ip(
            "link set lo up",
            f"addr add {self.gateway_address}/17 dev eth0",
            f"addr add {self._address(_INNER_GATEWAY)}/17 dev eth1",
            "link set eth0 up",
            "link set eth1 up",
            namespace=self.gateway,
        )

    def close(self) -> None:
        """Remove every link and namespace of this run, whoever made it. Nothing may live in them any more."""
        for name in namespaces(f"mt{self.run}-"):
            ip(f"netns del {name}")
        for prefix in (f"mt{self.run}-", self.bridge, self.inner_bridge):
            for name in links(prefix):
                subprocess.run(
                    ["ip", "link", "del", name], capture_output=True, check=False
                )  # maybe gone with its peer

    # -- addresses --------------------------------------------------------------------------------------------

    @property
    def master(self) -> str:
        """This machine's address on the outer bridge."""
        return self._address(_MASTER)

    @property
    def swallowed(self) -> str:
        """An address that swallows packets: a connection to it is neither taken nor refused."""
        return self._address(_SWALLOWED)

    @property
    def gateway_address(self) -> str:
        """Where the outer hosts and this machine find the gateway."""
        return self._address(_GATEWAY)

    def address(self, host: int, *, inner: bool) -> str:
        """The address of a host; that of an inner one answers to nobody outside."""
        return self._address(f"{(host >> 8) + (128 if inner else 0)}.{host & 255}")

    def _address(self, rest: str) -> str:
        return f"10.{self.number}.{rest}"

    # -- hosts ------------------------------------------------------------------------------------------------

    def namespace(self, host: int) -> str:
        """The name of a host's network namespace."""
        return f"mt{self.run}-{host}"

    def plug_in(self, host: int, *, inner: bool) -> None:
        """Give a host that starts a fresh namespace, wired to its bridge. It has the same card each time."""
        space = self.namespace(host)
        card = f"02:6d:74:{self.number:02x}:{host >> 8:02x}:{host & 255:02x}"
        bridge = self.inner_bridge if inner else self.bridge
        ip(
            f"netns add {space}",
            f"link add {space} type veth peer name eth0 address {card} netns {space}",
            f"link set {space} master {bridge} up",
        )
        address = self.address(host, inner=inner)
        ip("link set lo up", f"addr add {address}/17 dev eth0", "link set eth0 up", namespace=space)

    def pull_out(self, host: int) -> None:
        """Take the wire of a host that loses power. Nothing that its kernel still says is heard by anyone."""
        ip(f"link del {self.namespace(host)}")

    def forget(self, host: int) -> None:
        """Remove the namespace of a host without processes."""
        ip(f"netns del {self.namespace(host)}")

    def cut(self, host: int) -> None:
        """Lose all packets in both directions."""
        ip(f"link set {self.namespace(host)} down")

    def lose_to_master(self, host: int) -> None:
        """Lose what an outer host sends to this machine; the other direction works."""
        ip(f"neigh replace {self.master} lladdr {NOBODY} dev eth0 nud permanent", namespace=self.namespace(host))

    def lose_from_master(self, host: int) -> None:
        """Lose what this machine sends to an outer host; the other direction works."""
        ip(f"neigh replace {self.address(host, inner=False)} lladdr {NOBODY} dev {self.bridge} nud permanent")

    def shut_out(self, host: int) -> None:
        """Let only those answers into a host that it asked for. Its namespace has this until it is forgotten."""
        program = f"{len(_FIREWALL)}," + ",".join(" ".join(map(str, line)) for line in _FIREWALL)
        tc(
            "qdisc add dev eth0 ingress",
            f'filter add dev eth0 ingress bpf direct-action bytecode "{program}"',
            namespace=self.namespace(host),
        )

    def heal(self, host: int, *, inner: bool) -> None:
        """Undo `cut` and both kinds of loss."""
        space = self.namespace(host)
        ip(f"link set {space} up")
        if not inner:
            self.reset_neighbours(host)
            ip(
                f"neigh replace {self.master} lladdr {NOBODY} dev eth0 nud reachable",
                f"neigh del {self.master} dev eth0",
                namespace=space,
            )

    def reset_neighbours(self, host: int) -> None:
        """Forget what this machine knows of a host's card, true or not."""
        entry = f"{self.address(host, inner=False)} dev {self.bridge}"
        ip(f"neigh replace {entry} lladdr {NOBODY} nud reachable", f"neigh del {entry}")


def _bridge(name: str) -> tuple[str, str]:
    # Without a card of its own a bridge has its ports' lowest, and each change of that drops permanent neighbours.
    card = f"02:6d:{secrets.token_hex(1)}:{secrets.token_hex(1)}:ff:{secrets.token_hex(1)}"
    return f"link add {name} address {card} type bridge forward_delay 0", f"link set {name} up"
