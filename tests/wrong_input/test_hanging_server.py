"""What would fail at its start, asked of a real master whose file server hangs: who submits waits for a moment, and
nobody else at all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults import in_words
from tests.hanging_share import Share
from tests.waiting import until
from tests.wrong_input.mistakes import Lab8
from wire.message import Message


@pytest.fixture
def share(lab: Lab8) -> Iterator[Share]:
    """A folder beneath the lab's root."""
    folder = lab.folder / "far"
    folder.mkdir()
    made = Share(folder)
    yield made
    made.close()


def test_a_file_server_that_hangs_keeps_no_submit_and_is_named(lab: Lab8, share: Share) -> None:
    lab.start_whole()
    (share.there / "work").mkdir()
    where = ["--hold", "--cwd", str(share.path / "work")]
    found = lab.muster_seen("submit", *where, "--", "./none.sh")
    absent = str(Message("file_absent", path=f"{share.path}/work/none.sh"))
    assert absent in found.stderr
    share.hang()
    try:
        for number in range(10):  # more than may hang on one disk; it says nothing before `go_on`
            done = lab.muster("submit", *where, "--", f"./none{number}.sh")
            assert done.returncode == 0, done.stderr
            assert in_words(done.stderr, "places_unseen", seconds=0.3)
            assert done.stdout.strip().isdigit()
        for words in (["bash", "s.sh"], ["s.sh"], ["a program"]):  # nothing of the folder is read to give a hint
            assert lab.muster("submit", *where, "--", *words).returncode == 0
        strict = lab.muster("submit", "--strict", *where, "--", "./none.sh")
        assert (strict.returncode, strict.stdout) == (1, "")
        assert in_words(strict.stderr, "places_unseen", seconds=0.3)
        with lab.client() as client:
            task = client.submit("true", gpus=1)
            assert client.wait([task], 60)[task]["state"] == "succeeded"
    finally:
        share.go_on()
    until("the server's answer", lambda: absent in lab.muster("submit", *where, "--", "./none.sh").stderr)
