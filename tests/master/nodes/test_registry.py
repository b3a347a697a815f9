"""The registry of nodes: what the seed's entries become, and what makes a file wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from master.nodes.registry import load_registry
from tests.faults import fault_in, part, wrong
from wire.message import Message

OBJECT = Message("an_object")
WHOLE = Message("whole_number")
ROOT = Path(__file__).parents[3]
SEED = {
    "name": "Slaver1",
    "ip": "192.168.36.130",
    "user_name": "aaaaa",
    "gpu_count": 3,
    "gpu_info": ["RTX3090", "RTX3090", "RTX1080ti"],
}


def write(folder: Path, value: Any) -> Path:
    path = folder / "gpu_slaver_info.json"
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def refusal(path: Path) -> Message:
    return fault_in(path, lambda: load_registry(path))


def seed_but(**keys: Any) -> list[dict[str, Any]]:
    return [{**SEED, **keys}]


def test_the_old_systems_entry_is_a_node_reached_by_ssh(tmp_path: Path) -> None:
    (node,) = load_registry(write(tmp_path, [SEED]))
    assert (node.name, node.ip, node.user_name, node.driver, node.port) == (
        "Slaver1", "192.168.36.130", "aaaaa", "ssh", 22,
    )  # fmt: skip
    assert node.gpu_models == ("RTX3090", "RTX3090", "RTX1080ti")
    assert node.schedulable


def test_what_planning_needs_is_taken_over(tmp_path: Path) -> None:
    (node,) = load_registry(
        write(tmp_path, seed_but(gpu_memory=[24576, 24576, 11264], cpus=16, slots=4, schedulable=False))
    )
    spec = node.spec()
    assert (spec.name, spec.address, spec.gpu_models) == ("Slaver1", "aaaaa@192.168.36.130:22", node.gpu_models)
    assert (spec.gpu_memory_mib, spec.cpus, spec.slots, spec.schedulable) == ((24576, 24576, 11264), 16, 4, False)
    assert not spec.is_declared
    (node,) = load_registry(write(tmp_path, seed_but(gpu_probe="declared")))
    assert node.spec().is_declared


def test_gpus_without_names_are_counted_all_the_same(tmp_path: Path) -> None:
    (node,) = load_registry(write(tmp_path, [{"name": "a", "driver": "local", "gpu_count": 2}]))
    assert node.gpu_models == ("GPU", "GPU")


def test_nodes_keep_the_files_order_and_may_share_an_address(tmp_path: Path) -> None:
    entries = [{"name": name, "ip": "127.0.0.1", "driver": "local", "gpu_count": 8} for name in ("b", "a", "节点")]
    assert [node.name for node in load_registry(write(tmp_path, entries))] == ["b", "a", "节点"]


def test_an_empty_registry_is_a_registry(tmp_path: Path) -> None:
    assert load_registry(write(tmp_path, [])) == ()


def test_a_missing_file_is_told_with_its_cure(tmp_path: Path) -> None:
    said = Message("file_missing", cure=Message("init_writes_registry"))
    assert refusal(tmp_path / "gpu_slaver_info.json") == said


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"name": "a"}, Message("no_list_of_nodes", example="[{…}, …]")),
        ([3], wrong("[0]", found="3", expected=OBJECT)),
        ([{"gpu_count": 1}], Message("missing_key", where="[0]", key="name")),
        ([{"name": "a"}], Message("missing_key", where="[0] (a)", key="gpu_count")),
        (
            seed_but(gpu_count=-1),
            wrong("[0] (Slaver1).gpu_count", found="-1", expected=Message("within_bound", what=WHOLE, bound=">= 0")),
        ),
        (seed_but(gpu_count="3"), wrong("[0] (Slaver1).gpu_count", found='"3"', expected=WHOLE)),
        (seed_but(gpu_count=True), wrong("[0] (Slaver1).gpu_count", found="true", expected=WHOLE)),
        (
            seed_but(gpu_info=["RTX3090"]),
            wrong("[0] (Slaver1).gpu_info", found='["RTX3090"]', expected=Message("as_many_as_gpus", count=3, found=1)),
        ),
        (
            seed_but(gpu_memory=[1, 2]),
            wrong("[0] (Slaver1).gpu_memory", found="[1, 2]", expected=Message("as_many_as_gpus", count=3, found=2)),
        ),
        (
            seed_but(gpu_memory=[1, 2, 0]),
            wrong("[0] (Slaver1).gpu_memory[2]", found="0", expected=Message("within_bound", what=WHOLE, bound=">= 1")),
        ),
        (
            seed_but(driver="slurm"),
            wrong(
                "[0] (Slaver1).driver",
                found='"slurm"',
                expected=Message("one_of_texts", texts=('"local"', '"report"', '"ssh"')),
            ),
        ),
        (seed_but(username="b"), Message("unknown_key_but", where="[0] (Slaver1)", key="username", meant="user_name")),
        (
            seed_but(cpus=0),
            wrong("[0] (Slaver1).cpus", found="0", expected=Message("within_bound", what=WHOLE, bound=">= 1")),
        ),
        (
            seed_but(cpus=10**20),
            wrong(
                "[0] (Slaver1).cpus",
                found="100000000000000000000",
                expected=Message("within_bound", what=WHOLE, bound="<= 2147483648"),
            ),
        ),
        (
            seed_but(slots=10**20),
            wrong(
                "[0] (Slaver1).slots",
                found="100000000000000000000",
                expected=Message("within_bound", what=WHOLE, bound="<= 2147483648"),
            ),
        ),
        (seed_but(labels=["fast"]), wrong("[0] (Slaver1).labels", found='["fast"]', expected=OBJECT)),
        (seed_but(name=""), wrong("[0].name", found='""', expected=Message("node_name"))),
        (seed_but(name="a,b"), wrong("[0] (a,b).name", found='"a,b"', expected=Message("node_name"))),
        (seed_but(name="<默认>"), wrong("[0] (<默认>).name", found='"<默认>"', expected=Message("node_name"))),
        (
            seed_but(name="x" * 65),
            wrong(
                "[0] (xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx).name",
                found='"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…',
                expected=Message("node_name"),
            ),
        ),
        (seed_but(ip=""), wrong("[0] (Slaver1).ip", found='""', expected=Message("entry_for_ssh"))),
        (
            [SEED, {**SEED, "ip": "192.168.36.131"}],
            wrong("[1].name", found='"Slaver1"', expected=Message("node_name_free", entry=0)),
        ),
    ],
)
def test_a_mistake_is_told_with_the_node_the_key_and_what_is_allowed(
    tmp_path: Path, entries: Any, said: Message
) -> None:
    assert part(refusal(write(tmp_path, entries)), said) == said


def test_a_proxy_with_a_mistake_does_not_show_its_password(tmp_path: Path) -> None:
    said = wrong("[0] (Slaver1).proxy", found=Message("not_shown"), expected=Message("socks_proxy"))
    assert refusal(write(tmp_path, seed_but(proxy="sock5://me:hunter2@host:1080"))) == said
    (node,) = load_registry(write(tmp_path, seed_but(proxy="socks5://me:hunter2@host:1080")))
    assert node.proxy == "socks5://me:hunter2@host:1080"


def test_the_shipped_registry_works_on_a_machine_without_gpus() -> None:
    (node,) = load_registry(ROOT / "gpu_slaver_info.json")
    assert (node.name, node.driver, node.gpu_probe, node.gpu_count) == ("local", "local", "declared", 0)
