"""A failed task says what it ran out of, and quotes the line of its log that says most."""

from __future__ import annotations

import json

from tests.system.lab import Lab
from wire.message import Message

MESSAGE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacity of 8.00 GiB"
)


def test_each_look_at_a_failed_task_says_why(lab: Lab) -> None:
    lab.start()
    with lab.client() as client:
        full = client.submit(f"echo '{MESSAGE}'; exit 1", gpus=1)
        plain = client.submit("echo begun; echo; echo it is broken; exit 4", gpus=1)
        fine = client.submit("echo begun", gpus=1)
        client.wait([full, plain, fine], 60)
        assert (client.show(full)["reason_key"], client.show(full)["last_line"]) == ("oom_gpu", MESSAGE)
        assert client.show(plain)["last_line"] == "it is broken"
        assert client.show(fine)["last_line"] is None
    listed = {task["id"]: task for task in json.loads(lab.muster("queue", "--all", "--json").stdout)}
    assert listed[plain]["last_line"] == "it is broken"
    assert "exit code 4: it is broken" in lab.muster("queue", "--all").stdout
    told = str(Message("oom_gpu", code=1))
    for words in (["show", str(full)], ["why", str(full)]):
        assert told in " ".join(lab.muster(*words).stdout.split()), words
    assert "out of memory" in lab.muster("queue", "--all").stdout
    assert f"last line:  {MESSAGE[:40]}" in lab.muster("show", str(full)).stdout
    lab.kill_master()
    lab.start()
    with lab.client() as client:
        assert client.show(full)["reason_key"] == "oom_gpu"
        assert client.retry(full)["last_line"] is None
        client.wait([full], 60)
        assert [one["last_line"] for one in client.show(full)["attempts"]] == [MESSAGE, MESSAGE]
