"""What the `#SBATCH` lines of a script mean here."""

from __future__ import annotations

import pytest

from client.cli.arguments.sbatch import read


def words(*lines: str) -> tuple[str, list[str]]:
    found = read("\n".join(["#!/bin/bash", *(f"#SBATCH {line}" for line in lines), "make"]))
    return " ".join(found.words), found.left


@pytest.mark.parametrize(
    ("line", "due"),
    [
        ("--job-name=bert", "--name bert"),
        ("-J bert", "--name bert"),
        ("-Jbert # why", "--name bert"),
        ("--job-name 'a b'", "--name a b"),
        ("--time=30", "--time-limit 1800"),
        ("--time=10:30", "--time-limit 630"),
        ("-t 1:00:00", "--time-limit 3600"),
        ("-t 2-12", "--time-limit 216000"),
        ("-t 1-00:30", "--time-limit 88200"),
        ("-t 1-01:01:01", "--time-limit 90061"),
        ("--time=UNLIMITED", ""),
        ("--gres=gpu", "--gpus 1"),
        ("--gres=gpu:2", "--gpus 2"),
        ("--gres=gpu:a100:4", "--gpus 4 --gpu-model a100"),
        ("--gres=gpu:a100", "--gpus 1 --gpu-model a100"),
        ("-G 2", "--gpus 2"),
        ("--gpus-per-node=v100:8", "--gpus 8 --gpu-model v100"),
        ("-c 4", "--cpus 4"),
        ("--mem=32G", "--mem 32G"),
        ("--mem=800", "--mem 800M"),
        ("--tmp=50G", "--tmp-disk 50G"),
        ("--tmp 800", "--tmp-disk 800M"),
        ("--dependency=afterok:7:8,afterany:9", "--after 7:ok,8:ok,9:any"),
        ("-d afternotok:7", "--after 7:fail"),
        ("--output=out-%j.log", "--log out-{id}.log"),
        ("-N 2 -n 1", "--nodes 2"),
        ("--nodelist=n1,n2 --exclude=n3", "--node n1,n2 --exclude n3"),
        ("--hold --chdir=/data/x", "--hold --cwd /data/x"),
        ("-J a -c 2 --gres=gpu:1", "--name a --cpus 2 --gpus 1"),
    ],
)
def test_what_has_a_counterpart_is_that(line: str, due: str) -> None:
    assert words(line) == (due, [])


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("--partition=gpu", ["--partition=gpu"]),
        ("-p gpu --mail-type ALL", ["--partition=gpu", "--mail-type=ALL"]),
        ("--exclusive --requeue", ["--exclusive", "--requeue"]),
        ("--ntasks=4", ["--ntasks=4"]),
        ("--nodes=1-2", ["--nodes=1-2"]),
        ("--gres=gpu:2,shard:1", ["--gres=gpu:2,shard:1"]),
        ("--gres=license:2", ["--gres=license:2"]),
        ("--time=soon", ["--time=soon"]),
        ("--mem=0K", ["--mem=0K"]),
        ("--mem=0", ["--mem=0"]),
        ("--time=0:00", ["--time=0:00"]),
        ("--nodelist=n[3-1]", ["--nodelist=n[3-1]"]),
        ("--dependency=singleton", ["--dependency=singleton"]),
        ("--dependency=afterok", ["--dependency=afterok"]),
        ("--output=%N.log", ["--output=%N.log"]),
        ("--array=0-9", ["--array=0-9 (say --array to submit; the index is in MUSTER_ARRAY_INDEX)"]),
        ("-e err.log", ["--error=err.log (both streams go into one log)"]),
        ("--job-name", ["--job-name"]),
    ],
)
def test_what_has_none_is_named_and_changes_nothing(line: str, left: list[str]) -> None:
    assert words(line) == ("", left)


def test_only_the_head_of_a_script_is_read() -> None:
    found = read("#!/bin/bash\n# x\n\n#SBATCH -c 2\nmake\n#SBATCH -c 9\n")
    assert (found.words, found.taken) == (["--cpus", "2"], ["--cpus-per-task=2 is --cpus 2"])
    assert not read("#!/bin/bash\n#SBATCHES\nmake")


def test_a_quote_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match="closing quotation"):
        read("#SBATCH -J 'a\n")
