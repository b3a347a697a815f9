"""How soon everybody hears of a change: from before a submit is asked for until the last client has been told of it,
its way to the disk included."""

from __future__ import annotations

import json
import time

from bench import people
from bench.lab import Lab, RawConnection, eventually, request

_PAUSE_S = 0.1
_LOOK_S = 0.1


def pushes(lab: Lab, crowd: people.Clients, numbers: range, followers: int) -> list[float]:
    """Milliseconds of each of some submits until the last of the followers has heard of it; `numbers`: what tells them
    apart, each of them used once with these clients. Raises BenchError where somebody does not hear of one."""
    asked_at, ids = {}, []
    heard: dict[int, tuple[float, float, int]] = {}
    with RawConnection(lab.data_port) as connection:
        for number in numbers:
            asked_at[number] = time.monotonic()
            [answer] = connection.exchange(request(number, "task.submit", people.marked(number)))
            ids.append(json.loads(answer)["result"]["id"])
            time.sleep(_PAUSE_S)

        def all_heard() -> bool:
            for number, (first, last, some) in crowd.heard()[1].items():
                before = heard.get(number, (first, last, 0))
                heard[number] = before[0], last, before[2] + some
            return len(heard) == len(numbers) and all(some == followers for _, _, some in heard.values())

        eventually(all_heard, "word of each task to each client", _LOOK_S)
        connection.exchange(b"".join(request(one, "task.remove", {"id": one}) for one in ids), len(ids))
    return [1000 * (heard[number][1] - at) for number, at in asked_at.items()]
