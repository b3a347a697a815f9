"""nvidia-smi: what its outputs are taken for, whatever they are, and that the program itself can do no harm."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.agent.gpu import faults, nvidia_smi
from monitor.agent.gpu.figures import Found
from monitor.agent.gpu.nvidia_smi import FIELDS, SmiSource, parse_gpus, parse_holders
from tests.agent.fake_gpus import DATA, Machine, gpu, process, uuid
from tests.agent.small_master import alive
from tests.cases import each_case
from tests.waiting import until

CASES = DATA / "cases"
TOO_LONG_S = 60.0


def outcome(case: Path) -> dict[str, Any]:
    """What a case is taken for, as its expected.json says it."""
    status = case / "status"
    apps = case / "compute-apps.txt"
    code = int(status.read_text(encoding="ascii")) if status.exists() else 0
    parsed = parse_gpus((case / "query-gpu.txt").read_bytes().decode("utf-8", "replace"), code)
    holders = parse_holders(apps.read_bytes().decode("utf-8", "replace")) if apps.exists() else {}
    found = [gpu._replace(holders=tuple(holders.get(gpu.uuid, ())))._asdict() for gpu in parsed.found]
    told: dict[str, Any] = json.loads(json.dumps({"gpus": found, "fault": parsed.fault}))
    return told


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_an_output_is_taken_for_what_it_says(case: str) -> None:
    expected = json.loads((CASES / case / "expected.json").read_text(encoding="utf-8"))
    assert outcome(CASES / case) == expected


def test_an_output_is_taken_for_the_same_in_small_and_in_capital_letters() -> None:
    with each_case() as cases:
        for name in sorted(path.name for path in CASES.iterdir()):
            text = (CASES / name / "query-gpu.txt").read_bytes().decode("utf-8", "replace")
            told, small = parse_gpus(text, 1), parse_gpus(text.lower().replace("gpu-", "GPU-"), 1)
            with cases.case(name):
                assert [gpu._replace(model="") for gpu in small.found] == [gpu._replace(model="") for gpu in told.found]
                assert small.fault.lower() == told.fault.lower()


OUTPUTS = [path.read_bytes().decode("utf-8", "replace") for path in sorted(CASES.glob("*/*.txt"))]


@st.composite
def broken(draw: st.DrawFn) -> str:
    """A real output with a piece of it replaced, or just any text."""
    text = draw(st.sampled_from([*OUTPUTS, ""]))
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, len(text)))
    odd = st.sampled_from(["nan", "inf", "-1", "1e999", "9" * 400, ", ", "\n", "[N/A]", "\0", "٣", "1_0", "GPU-"])
    return text[:start] + draw(st.one_of(st.text(), odd)) + text[end:]


@given(broken(), st.one_of(st.none(), st.integers(-64, 255)))
def test_no_output_raises_and_all_of_it_can_be_sent(text: str, code: int | None) -> None:
    parsed = parse_gpus(text, code)
    for found in parsed.found:
        assert found.utilization is None or 0 <= found.utilization <= 100
        assert found.memory_used_mib is None or 0 <= found.memory_used_mib < 1e9
        assert len(found.model) <= 120
        assert found.model.isprintable()
        assert all(isinstance(part, int) for part in found.bus)
    assert "\n" not in parsed.fault
    assert len(parsed.fault) < 250
    holders = parse_holders(text)
    assert all(0 < pid < 2**31 for each in holders.values() for pid, _ in each)
    json.dumps([parsed, holders], allow_nan=False).encode()


@pytest.mark.parametrize("odd", ["nan", "inf", "-inf", "1e999", "-1", "9" * 400, "[N/A]", "N/A", "", "0x10"])
def test_a_number_that_is_none_is_not_known(odd: str) -> None:
    good = (CASES / "two_gpus" / "query-gpu.txt").read_text(encoding="utf-8").splitlines()[0]
    [found] = parse_gpus(", ".join([*good.split(", ")[:2], *[odd] * 7, "Disabled", "H100"]), 0).found
    assert found == Found(found.bus, found.uuid, "H100")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path / "machine").with_smi()
    for name, value in made.env.items():
        monkeypatch.setenv(name, value)
    return made


@pytest.fixture
def smi(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> SmiSource:
    monkeypatch.setattr(nvidia_smi, "HUNG_S", TOO_LONG_S)  # only what hangs in a test hangs
    assert nvidia_smi.program() == str(machine.bin / "nvidia-smi")
    return SmiSource(str(machine.bin / "nvidia-smi"))


def nothing(_doing: str) -> None:
    """Nobody watches."""


def test_the_program_is_asked_for_gpus_and_for_processes(machine: Machine, smi: SmiSource) -> None:
    machine.has(gpu(0, util=50, used=700), gpu(1), process(0, 4242, 600), process(1, 4243, "-"))
    reading = smi.read(nothing)
    assert reading.fault == ""
    assert [found.uuid for found in reading.found] == [uuid(0), uuid(1)]
    assert (reading.found[0].utilization, reading.found[0].memory_used_mib, reading.found[0].power) == (50, 700, 123.5)
    assert [found.holders for found in reading.found] == [((4242, 600),), ((4243, None),)]
    assert len(machine.calls()) == 2


def test_fields_that_an_old_version_does_not_know_are_left_out_from_then_on(machine: Machine, smi: SmiSource) -> None:
    old = ("nofield mig.mode.current", "nofield ecc.errors.uncorrected.volatile.total")
    machine.has(gpu(0), *old)
    [found] = smi.read(nothing).found
    assert (found.mig, found.ecc_errors, found.utilization) == (False, None, 37)
    asked = len(machine.calls())
    smi.read(nothing)
    assert len(machine.calls()) == asked + 2


def test_a_program_that_hangs_is_killed_and_the_next_call_asks_again(
    machine: Machine, smi: SmiSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia_smi, "HUNG_S", 2.0)
    machine.has(gpu(0), "hang")
    reading = smi.read(nothing)  # it hangs until it is killed
    assert reading.fault == "its GPU driver does not answer (nvidia-smi hung for 5 s)"
    assert len(machine.calls()) <= 1  # it may have been killed before it was there
    assert children() == []
    monkeypatch.setattr(nvidia_smi, "HUNG_S", TOO_LONG_S)
    machine.has(gpu(0))
    assert smi.read(nothing).fault == ""


def test_one_that_cannot_even_be_killed_is_not_followed_by_another(
    machine: Machine, smi: SmiSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia_smi, "HUNG_S", 0.3)
    monkeypatch.setattr(nvidia_smi, "KILL_S", 0.1)
    real, waited = nvidia_smi._wait, []
    monkeypatch.setattr(nvidia_smi, "_wait", lambda process, _patience: waited.append(process))
    machine.has(gpu(0), "hang")
    assert "hung" in smi.read(nothing).fault
    asked = len(machine.calls())
    monkeypatch.setattr(waited[0], "poll", lambda: None)
    assert "hung" in smi.read(nothing).fault
    assert len(machine.calls()) == asked
    monkeypatch.undo()
    for name, value in machine.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(nvidia_smi, "HUNG_S", TOO_LONG_S)
    assert real(waited[0], TOO_LONG_S)
    machine.has(gpu(0))
    assert smi.read(nothing).fault == ""


def test_a_slow_program_is_waited_for(machine: Machine, smi: SmiSource) -> None:
    machine.has(gpu(0), "slow 0.3")
    assert [found.uuid for found in smi.read(nothing).found] == [uuid(0)]


def test_an_endless_output_is_cut_off(tmp_path: Path) -> None:
    endless = tmp_path / "nvidia-smi"
    endless.write_text("#!/bin/sh\nexec yes GPU\n", encoding="ascii")
    endless.chmod(0o755)
    assert "GPU" in SmiSource(str(endless)).read(nothing).fault
    assert children() == []


def test_a_program_that_cannot_be_started_says_so(tmp_path: Path) -> None:
    path = str(tmp_path / "nvidia-smi")
    fault = SmiSource(path).read(nothing).fault
    assert fault.startswith("its GPU driver cannot be asked: nvidia-smi says “")
    assert "No such file or directory" in fault


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (["init 18"], faults.MISMATCH),
        (["init 9"], faults.NO_DRIVER),
        ([], ""),  # it runs, and there are no GPUs
        (["say ", "exit 3"], "its GPU driver cannot be asked: nvidia-smi ended with exit status 3 and said nothing"),
        (["say what\\n is this"], "its GPU driver cannot be asked: nvidia-smi says “what is this”"),
    ],
)
def test_what_is_wrong_with_the_driver_is_told(machine: Machine, smi: SmiSource, lines: list[str], fault: str) -> None:
    machine.has(*lines)
    reading = smi.read(nothing)
    assert (reading.found, reading.fault) == ([], fault)


def test_a_slow_program_is_asked_the_less_often(machine: Machine, smi: SmiSource, tmp_path: Path) -> None:
    machine.has(gpu(0))
    assert nvidia_smi.AGAIN_S <= smi.read(nothing).again_s <= nvidia_smi.LONGEST_S
    busy = tmp_path / "nvidia-smi"
    busy.write_text("#!/bin/bash\nfor ((i = 0; i < 400000; i++)); do :; done\n", encoding="ascii")
    busy.chmod(0o755)
    assert SmiSource(str(busy)).read(nothing).again_s == nvidia_smi.LONGEST_S


def test_it_is_gone_when_who_asked_is_killed(machine: Machine) -> None:
    machine.has(gpu(0), "hang")
    asker = os.fork()
    if asker == 0:
        SmiSource(str(machine.bin / "nvidia-smi")).read(nothing)
        os._exit(0)
    [asked] = until("the program", lambda: children(asker))
    os.kill(asker, 9)
    os.waitpid(asker, 0)
    until("its end", lambda: not alive(asked))


def children(pid: int = 0) -> list[int]:
    pid = pid or os.getpid()
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [child for child in map(int, text.split()) if alive(child)]


def write_missing() -> None:
    """For cases that were added: write what they are taken for."""
    for case in sorted(CASES.iterdir()):
        path = case / "expected.json"
        if not path.exists():
            path.write_text(json.dumps(outcome(case), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


assert len(FIELDS) == 11, "the cases were written with these fields"
if __name__ == "__main__":
    write_missing()
