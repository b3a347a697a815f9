"""What a machine shows against what its registry entry says."""

from __future__ import annotations

import pytest

from master.core.nodes.gpu_models import mismatch
from master.core.nodes.gpu_watch import GpuReport
from wire.message import Message


def shown(*models: str) -> dict[int, GpuReport]:
    return {index: GpuReport(index=index, model=model) for index, model in enumerate(models)}


@pytest.mark.parametrize(
    ("said", "real"),
    [
        ("RTX3090", "NVIDIA GeForce RTX 3090"),
        ("2080Ti", "NVIDIA GeForce RTX 2080 Ti"),
        ("RTX 4090 24G", "NVIDIA GeForce RTX 4090"),
        ("A100", "NVIDIA A100-SXM4-80GB"),
        ("H100-SXM", "NVIDIA H100 80GB HBM3"),
        ("V100-32G", "Tesla V100-SXM2-32GB"),
        ("RTX6000Ada", "NVIDIA RTX 6000 Ada Generation"),
        ("titan xp", "NVIDIA TITAN Xp"),
        ("GB200", "NVIDIA GB200"),
        ("GPU", "NVIDIA H100 80GB HBM3"),
        ("大卡", "NVIDIA H100 80GB HBM3"),
        ("A100", ""),
    ],
)
def test_people_and_drivers_call_one_thing_by_two_names(said: str, real: str) -> None:
    assert mismatch((said,), shown(real)) is None


@pytest.mark.parametrize(
    ("said", "real"), [("A100", "NVIDIA H100 80GB HBM3"), ("RTX3090", "NVIDIA GeForce RTX 4090"), ("V100", "Tesla T4")]
)
def test_another_model_is_told(said: str, real: str) -> None:
    assert mismatch((said, said), shown(real, real)) == Message("gpu_other_model", gpus=(0, 1), real=real, model=said)


def test_more_than_the_registry_counts_are_told_and_fewer_are_for_others_to_tell() -> None:
    assert mismatch(("GPU",), shown("A", "B")) == Message("gpu_missing", shown=2, count=1)
    assert mismatch(("GPU",), shown("A", "B", "C")) == Message("gpu_missing", shown=3, count=1)
    assert mismatch(("A100", "A100"), shown("A100")) is None
    assert mismatch(("A100",), shown("H100", "H100")) == Message(
        "gpus_differ",
        faults=(
            Message("gpu_missing", shown=2, count=1),
            Message("gpu_other_model", gpus=(0,), real="H100", model="A100"),
        ),
    )
    assert mismatch(("A100",), {}) is None
