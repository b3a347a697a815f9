"""A task runs the code that was there when it was queued."""

from __future__ import annotations

import json
from pathlib import Path

from tests.system.lab import Lab


def test_a_task_runs_what_was_there_when_it_was_queued_and_its_results_stay(lab: Lab) -> None:
    code = lab.folder / "net"
    code.mkdir()
    (code / "train.sh").write_text("echo first; pwd; echo $MUSTER_SNAPSHOT_OF; echo weights > out/model\n")
    (code / "out").mkdir()
    (code / "out/.gitkeep").touch()
    script = lab.folder / "go.sh"
    script.write_text("bash train.sh\n")
    lab.start()

    def submit() -> int:
        done = lab.muster("submit", "--snapshot", "--hold", "--cwd", str(code), "--script", str(script))
        assert "snapshot: 1 file" in done.stderr, done.stderr
        return int(done.stdout)

    with lab.client() as client:
        first = submit()
        (code / "train.sh").write_text("echo second\n")
        second = submit()
        (code / "train.sh").unlink()
        client.release(first)
        client.release(second)
        ended = client.wait([first, second], 60)
        assert [ended[number]["state"] for number in (first, second)] == ["succeeded", "succeeded"]
        said = Path(client.show(first)["log_path"]).read_text().splitlines()
        assert said[:3] == ["first", client.show(first)["cwd"], str(code)]
        assert Path(client.show(second)["log_path"]).read_text().startswith("second")
    assert (code / "out/model").read_text() == "weights\n"
    assert "snapshot" in lab.muster("show", str(first)).stdout
    told = lab.muster("diff", str(first), str(second)).stdout
    assert "code:\n  ~ train.sh" in told
    asked = json.loads(lab.muster("diff", str(first), str(second), "--json").stdout)
    assert asked["code"] == {"train.sh": "changed"}
