"""A lab's day on two machines over SSH, with real processes: sharing, a large task, limits, retries, a pause, quotas, a
gang, and a program that allocates until it dies. Told in the order in which it happens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from client.api import Client
from tests.system.ssh_asking import Door
from tests.system.ssh_lab import SshLab
from tests.testbed.bed import Testbed
from tests.waiting import until
from wire.errors import ImpossibleError

CARD_MIB = 24_564
HUNGRY = (
    'python3 -c "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29)); x = bytearray(1 << 30)"'
)


class Day:
    """The lab, and what its people say to it."""

    def __init__(self, lab: SshLab, client: Client) -> None:
        self.lab = lab
        self.client = client

    def door(self, name: str) -> Door:
        return Door(self.lab, name, 0)

    def state(self, *tasks: int) -> list[str]:
        return [self.client.show(task)["state"] for task in tasks]

    def becomes(self, task: int, state: str) -> None:
        until(f"task {task} is {state}", lambda: self.state(task) == [state], seen=lambda: self.client.why(task))

    def ends(self, *tasks: int) -> list[str]:
        ended = self.client.wait(list(tasks), 60)
        return [ended[task]["state"] for task in tasks]

    def says(self, task: int, word: str) -> None:
        """Wait until it is told why it waits: the queue is planned now and then, not at each question."""
        until(f"{word}, of task {task}", lambda: word in self.why(task), seen=lambda: self.why(task))

    def why(self, task: int) -> str:
        return self.client.why(task)["reason"] or ""


@pytest.fixture
def day(testbed: Testbed, ssh_lab: SshLab) -> Iterator[Day]:
    """Two machines, with two GPUs of 24,564 MiB each, of which the registry is believed."""
    hosts = testbed.hosts[:2]
    ssh_lab.set_hosts(hosts)
    cards = {"gpu_count": 2, "gpu_info": ["RTX4090"] * 2, "gpu_memory": [CARD_MIB] * 2}
    ssh_lab.write_registry([ssh_lab.entry(host, **cards) for host in hosts])
    ssh_lab.start_trusted()
    with ssh_lab.client() as client:
        yield Day(ssh_lab, client)


def test_from_the_first_share_to_the_last_exit(day: Day) -> None:
    client, first, second = day.client, *day.lab.nodes

    # In the morning three students share one GPU; a fourth does not fit there any more, and one asks for too much.
    shared_door = day.door("shared")
    wish = {"gpus": 1, "gpu_ids": [0], "node": first, "share": True, "gpu_memory_mib": 8000}
    shared = [client.submit(shared_door.command, **wish) for _ in range(4)]
    for task in shared[:3]:
        day.becomes(task, "running")
    assert day.state(shared[3]) == ["waiting"]
    day.says(shared[3], "564 MiB left")
    with pytest.raises(ImpossibleError, match="no more than 24564 MiB"):
        client.submit("true", gpus=1, gpu_memory_mib=30_000)

    # A large task is forced: what came later and may last for long does not pass it on the node that is kept for it.
    other_door = day.door("other")
    holder = client.submit(other_door.command, gpus=1, node=second)
    day.becomes(holder, "running")
    large = client.submit("echo large", gpus=2, node=second)
    client.start(large)
    long = client.submit("echo long", gpus=1, node=second)
    day.says(large, "reserved for it")
    day.says(long, f"reserved for task {large}")
    other_door.open()
    assert day.ends(holder, large, long) == ["succeeded"] * 3
    assert (client.show(large)["started_at"] or 0) <= (client.show(long)["started_at"] or 0)

    # Somebody's limit is over; somebody else's program fails once and is tried again; a third one dies of memory.
    limited = client.submit("sleep 1000", time_limit_s=0.5)
    tried = client.submit("[ $MUSTER_ATTEMPT = 2 ]", max_retries=3)
    hungry = client.submit(HUNGRY)
    assert day.ends(limited, tried, hungry) == ["timed_out", "succeeded", "failed"]
    assert (client.show(tried)["attempt"], client.show(hungry)["reason_key"]) == (2, "oom_host")

    # One is paused to let a visitor have the machine's CPUs, and goes on.
    paused_door = day.door("paused")
    paused = client.submit(paused_door.command)
    day.becomes(paused, "running")
    client.pause(paused)
    day.becomes(paused, "paused")
    paused_door.open()
    client.resume(paused)
    assert day.ends(paused) == ["succeeded"]

    # A project may have one GPU at a time.
    client.people.edit_project("vision", max_total_gpus=1)
    quota_door = day.door("quota")
    one, two = (client.submit(quota_door.command, gpus=1, node=second, project="vision") for _ in range(2))
    day.becomes(one, "running")
    day.says(two, "vision")
    quota_door.open()
    assert day.ends(one, two) == ["succeeded"] * 2

    # In the evening the students leave, and both machines work on one training.
    shared_door.open()
    assert day.ends(*shared) == ["succeeded"] * 4
    gang = client.submit("echo $NODE_RANK of $NNODES", nodes=2, gpus=2)
    assert day.ends(gang) == ["succeeded"]
    assert [b"".join(client.logs(gang, rank=rank)).splitlines()[0] for rank in (0, 1)] == [b"0 of 2", b"1 of 2"]
    until("nothing of them lives", lambda: not day.lab.strays(), seen=day.lab.strays)
