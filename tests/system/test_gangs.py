"""A task on several nodes, by real agents: its parts meet, and end together, whatever befalls the master meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from master.core.nodes.inventory import NAMES
from tests.system.conftest import LabMaker
from tests.system.lab import Lab
from tests.system.ssh_asking import ended, task_of
from tests.system.ssh_lab import SshLab
from tests.waiting import until
from wire.message import Message, names


@pytest.fixture
def two(make_system_lab: LabMaker) -> Lab:
    """A lab of two nodes, started."""
    lab = make_system_lab(nodes=2)
    lab.start()
    return lab


MEET = """
import os, socket, sys
rank, address = int(os.environ["NODE_RANK"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
print(rank, os.environ["WORLD_SIZE"], os.environ["MUSTER_HOSTS"], os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
if rank == 0:
    with socket.create_server(("", address[1])) as server:
        print("heard", server.accept()[0].makefile().readline(), flush=True)
else:
    while True:
        try:
            with socket.create_connection(address) as other:
                other.sendall(b"from rank 1\\n")
            break
        except ConnectionRefusedError:
            pass
"""
"""The second part finds the first, as torchrun would."""


def log_of(lab: Lab, task: int, rank: int) -> str:
    return lab.muster("logs", str(task), "--rank", str(rank)).stdout


def test_the_parts_meet_and_each_has_its_log(two: Lab) -> None:
    lab = two
    with lab.client() as client:
        task = client.submit(["python3", "-c", MEET], nodes=2, gpus=4)
        assert client.wait([task], 60)[task]["state"] == "succeeded"
        shown = client.show(task)
    assert [part["node"] for part in shown["allocation"]] == lab.nodes
    assert log_of(lab, task, 0).startswith("0 8 127.0.0.1,127.0.0.1 0,1,2,3\nheard from rank 1\n")
    assert log_of(lab, task, 1).startswith("1 8 ")
    refused = lab.muster("logs", str(task), "--rank", "2")
    assert str(Message("no_rank", id=task, rank=2, count=2, last=1)) in refused.stderr
    assert "on each of 2 nodes" in lab.muster("show", str(task)).stdout


def test_a_part_that_fails_ends_the_others_also_over_a_restart_of_the_master(two: Lab, tmp_path: Path) -> None:
    lab = two
    gate = tmp_path / "gate"
    command = (
        f"while [ $NODE_RANK = 1 ] && [ ! -e {gate} ]; do sleep 0.05; done; [ $NODE_RANK = 1 ] && exit 7; sleep 1000"
    )
    with lab.client() as client:
        task = client.submit(command, nodes=2)
        until("both run", lambda: len({one.launch_id for one in lab.attempts_alive()}) == 2)
    lab.kill_master()
    gate.write_text("", encoding="utf-8")
    until("one part has ended", lambda: len({one.launch_id for one in lab.attempts_alive()}) == 1)
    lab.start()
    with lab.client() as client:
        told = client.wait([task], 60)[task]
        assert (told["state"], told["exit_code"]) == ("failed", 7)
        assert client.show(task)["reason"] == "part 1 (on node1): exit code 7"
    until("nothing of it lives", lambda: not lab.attempts_alive())


def test_a_cancel_reaches_every_part(two: Lab) -> None:
    lab = two
    with lab.client() as client:
        task = client.submit("sleep 1000", nodes=2)
        until("both run", lambda: len({one.launch_id for one in lab.attempts_alive()}) == 2)
        client.cancel([task])
        assert client.wait([task], 60)[task]["state"] == "cancelled"
    until("nothing of it lives", lambda: not lab.attempts_alive())


def test_the_parts_run_on_the_nodes_and_gpus_that_are_named_the_first_of_them_first(two: Lab, tmp_path: Path) -> None:
    lab = two
    first, second = lab.nodes
    meet, no = tmp_path / "meet.sh", tmp_path / "no.sh"
    meet.write_text(f"#MUSTER --gpus-on {second}=2,3\npython3 -c '{MEET}'", encoding="utf-8")
    no.write_text("true", encoding="utf-8")
    task = int(lab.muster("submit", "--gpus-on", f"{first}=0-1", "--script", str(meet)).stdout)
    with lab.client() as client:
        assert client.wait([task], 60)[task]["state"] == "succeeded"
        held = [(part["node"], part["gpus"]) for part in client.show(task)["allocation"]]
        either = client.submit("true", node_list=[second, first], nodes=2)
        assert client.wait([either], 60)[either]["state"] == "succeeded"
        assert [part["node"] for part in client.show(either)["allocation"]] == [second, first]
    assert held == [(second, [2, 3]), (first, [0, 1])]
    assert log_of(lab, task, 0).startswith("0 4 127.0.0.1,127.0.0.1 2,3\nheard from rank 1\n")
    assert log_of(lab, task, 1).startswith("1 4 127.0.0.1,127.0.0.1 0,1\n")
    assert f"GPU 2-3 of {second} and GPU 0-1 of {first}" in lab.muster("show", str(task)).stdout
    on = ["--gpus-on", f"{second}=2,3", "--gpus-on", f"{first}=0-1"]
    asked = lab.muster("submit", "--dry-run", *on, "--script", str(no))
    assert f"would start now: node {second} on GPU 2,3; node {first} on GPU 0,1" in asked.stdout, asked
    refused = lab.muster("submit", "--node", f"{first},nowhere", "--script", str(no))
    none = Message("no_such_node", node="nowhere", nodes=names(lab.nodes, NAMES))
    assert (refused.returncode, str(none) in refused.stderr) == (1, True), refused


def test_over_ssh_the_parts_meet_by_the_addresses_of_the_registry(ssh_lab: SshLab) -> None:
    ssh_lab.start_trusted()
    (ssh_lab.root / "meet.py").write_text(MEET, encoding="utf-8")
    with ssh_lab.client() as client:
        task = client.submit(f"python3 {ssh_lab.root}/meet.py", nodes=2)
    assert ended(ssh_lab, task) == ("succeeded", 0)
    first = Path(task_of(ssh_lab, task)["log_path"])
    assert "heard from rank 1" in first.read_text(encoding="utf-8")
    assert first.with_name(f"{task}.1.log").read_text(encoding="utf-8").startswith("1 2 ")
    until("nothing of them lives", lambda: not ssh_lab.strays(), seen=ssh_lab.strays)


MPI = """
#MUSTER --nodes 2 --gpus 2
[ "$NODE_RANK" = 0 ] || exec sleep 1000
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpirun --hostfile "$MUSTER_HOSTFILE" sh -c 'echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE'
echo all: $?
mpirun --hostfile "$MUSTER_HOSTFILE" -n 5 true
echo one too many: $?
cat "$MUSTER_HOSTFILE"
stat -c '%a %u' "$MUSTER_HOSTFILE"
echo file: "$MUSTER_HOSTFILE"
exit 3
"""


def test_mpirun_reads_the_hosts_and_their_slots_from_a_file_that_goes_with_the_attempt(two: Lab) -> None:
    lab = two
    script = lab.folder / "mpi.sh"
    script.write_text(MPI, encoding="utf-8")
    task = int(lab.muster("submit", "--script", str(script)).stdout)
    with lab.client() as client:
        assert client.wait([task], 120)[task]["exit_code"] == 3
    said = log_of(lab, task, 0)
    assert sorted(line for line in said.splitlines() if line.startswith("rank ")) == [
        f"rank {rank} of 4" for rank in range(4)
    ], said
    assert "all: 0" in said
    assert "one too many: 1" in said
    assert f"127.0.0.1 slots=4\n600 {os.geteuid()}\n" in said
    file = Path(next(line.removeprefix("file: ") for line in said.splitlines() if line.startswith("file: ")))
    assert not file.exists()
    until("nothing of it lives", lambda: not lab.attempts_alive())


REDUCE = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
ranks = torch.tensor([float(dist.get_rank())])
dist.all_reduce(ranks)
print("sum of ranks", int(ranks.item()), "of", dist.get_world_size(), flush=True)
"""
TORCHRUN = (
    # `-r 1 -t 1`: Debian's torch of 1.13 finds no other way of its own to print with a Python of 3.11.
    "torchrun -r 1 -t 1 --nnodes $NNODES --nproc_per_node 2 --node_rank $NODE_RANK"
    " --master_addr $MASTER_ADDR --master_port $MASTER_PORT {}"
)


def test_torchrun_reduces_over_two_machines(ssh_lab: SshLab) -> None:
    ssh_lab.start_trusted()
    program = ssh_lab.root / "reduce.py"
    program.write_text(REDUCE, encoding="utf-8")
    with ssh_lab.client() as client:
        task = client.submit(TORCHRUN.format(program), nodes=2, gpus=2)
        client.wait([task], 120)
        told = client.show(task)
    log = Path(told["log_path"])
    logs = [path.read_text(encoding="utf-8") for path in (log, log.with_name(f"{task}.1.log"))]
    assert (told["state"], told["reason"]) == ("succeeded", None), logs
    assert [text.count("sum of ranks 6 of 4") for text in logs] == [2, 2]
