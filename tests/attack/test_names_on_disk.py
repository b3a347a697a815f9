"""What a submit, or the list of environments, tells of files: no name in a folder that the master can search and its
caller's account cannot, by whichever way it is asked for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from master.core.nodes.inventory import NodeState
from master.files.public_paths import public_view
from tests.master.in_process import InProcess, Peer, comes_as, run
from tests.master.verbs.test_preflight import keys, let_all_search

KEPT = ("psw", "backups", "backups/2026")
"""What lies in the master's folder."""


def masters_folder(root: Path) -> Path:
    """A folder of 0700 beneath root, which is no visible one, with names that are nobody's business."""
    folder = root / "masters"
    folder.mkdir()
    for name in KEPT:
        (folder / name).mkdir()
    (folder / "backups/2026/activate").write_text("")
    folder.chmod(0o700)
    return folder


async def both(peer: Peer, folder: Path, **changes: Any) -> tuple[list[str], list[str]]:
    """What is told of a name that is there, and of one that is not."""
    there, absent = (
        {key: str(value).format(f"{folder}/{name}") for key, value in changes.items()} for name in ("psw", "none")
    )
    return await keys(peer, **there), await keys(peer, **absent)


WAYS: dict[str, dict[str, Any]] = {
    "a program": {"command": "{}/x"},
    "a script": {"command": "python3 {}"},
    "a folder to run in": {"cwd": "{}", "command": "true"},
    "an environment": {"env": "{}", "command": "true"},
}


@pytest.mark.usefixtures("unhurried_look")
def test_a_submit_tells_of_no_name_in_the_masters_folder(tmp_path: Path) -> None:
    async def story() -> None:
        let_all_search(tmp_path)
        folder = masters_folder(tmp_path)
        (tmp_path / "data").mkdir()
        (tmp_path / "way").symlink_to(folder)
        (tmp_path / "data" / "way").symlink_to(folder)
        ways = [folder, tmp_path / "way", tmp_path / "data" / "way", tmp_path / "data/way/../masters"]
        async with InProcess(tmp_path) as master:
            conda = master.place.conda
            up = "/".join([".."] * len(conda.split("/")))
            with comes_as("ann", master.core):
                peer = await master.peer()
                for place in ways:
                    for what, said in WAYS.items():
                        there, absent = await both(peer, place, **said)
                        assert there == absent, (str(place), what)
                there, absent = await both(peer, folder, env=f"{conda}/{up}{{}}", command="true")
                assert there == absent
                found = {}
                for name in ("psw", "none"):
                    script = tmp_path / "data" / f"{name}.sh"
                    script.write_text(f"#!{folder}/{name}/bin/python\n")
                    script.chmod(0o755)
                    found[name] = await keys(peer, command=[str(script)])
                assert found["psw"] == found["none"]
                assert await keys(peer, command=[f"{tmp_path}/none.sh"]) == ["file_absent"], "any account sees that"

    run(story())


@pytest.mark.usefixtures("unhurried_look")
def test_after_a_start_nobody_is_told_what_the_account_of_a_task_may_not_see(tmp_path: Path) -> None:
    """Before a node has said that tasks run as their owners there, it is known from the last time."""

    async def story() -> None:
        let_all_search(tmp_path)
        (tmp_path / "data").mkdir()
        async with InProcess(tmp_path) as master:
            core = master.core
            master.place.run_as = lambda owner: owner
            master.engine.event(lambda: core.node_state("a", NodeState.CONNECTING))
            with comes_as("ann", core):
                peer = await master.peer()
                said = {"command": [f"{tmp_path}/data/none.sh"]}
                assert await keys(peer, **said) == ["file_absent"]
                master.engine.event(lambda: core.set_as_owners("a", "there"))
                assert await keys(peer, **said) == []

    run(story())


def environment(folder: Path) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    return folder


def test_environments_that_no_account_may_see_are_not_listed_where_the_master_itself_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_all_search(tmp_path)
    folder = masters_folder(tmp_path)
    hidden, public = environment(folder / "venv"), environment(tmp_path / "venv")
    public.chmod(0o755)
    (tmp_path / "home" / ".conda").mkdir(parents=True)
    (tmp_path / "home" / ".conda" / "environments.txt").write_text(f"{hidden}\n{public}\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    async def story() -> None:
        async with InProcess(tmp_path) as master:
            core = master.core
            master.engine.event(lambda: core.node_state("a", NodeState.UNREACHABLE, "away"))
            owner = await master.peer()
            assert {str(hidden), str(public)} <= {env["path"] for env in (await owner.call("env.list"))["envs"]}
            with comes_as("ann", master.core):
                told = {env["path"] for env in (await (await master.peer()).call("env.list"))["envs"]}
            assert str(public) in told
            assert str(hidden) not in told

    run(story())


def test_only_what_all_may_search_is_told(tmp_path: Path) -> None:
    let_all_search(tmp_path)
    folder = masters_folder(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "to file").symlink_to("file")
    (tmp_path / "into").symlink_to(folder / "psw")
    (tmp_path / "nowhere").symlink_to("nothing/at/all")
    (tmp_path / "round").symlink_to("round")
    paths = {
        "file": "there", "to file": "there", "nothing": "absent", "file/x": "absent", "nowhere": "absent",
        "masters": "there", "masters/psw": "hidden", "masters/none": "hidden", "into": "hidden", "into/x": "hidden",
        "masters/../file": "hidden", "round": "absent", "x" * 300: "absent", "./file": "there", "a\0b": "hidden",
    }  # fmt: skip
    assert {name: public_view(f"{tmp_path}/{name}") for name in paths} == paths
    assert public_view("relative") == "hidden"
