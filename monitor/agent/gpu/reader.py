"""The GPUs' figures, although their driver may hang: a fork reads them, and is watched while it does.

It owns that fork: it asks it, takes its answer, kills it when it does not answer, and keeps the last figures. `sources`
says what a GPU is and which program to ask about it.
"""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from typing import Any, Dict, List, NoReturn

from .. import fork
from .faults import HUNG_S, hung
from .sources import Sources

AGAIN_S = 10.0
"""After a fork had to be killed or failed, the next one waits so long."""
LOOK_AGAIN_S = 60.0
"""Where there is nothing to ask, so long until somebody looks again: drivers are installed while agents run."""
SLACK_S = 1.0
"""The fork itself ends what it waits for after HUNG_S; only then it is ended itself."""
DECLARED = "declared"
UNKNOWN = "its GPUs have not been looked at yet"


class GpuReader:
    """`wanted`: what the registry says of this node's GPUs (`auto`, `nvml`, `gputil`, `declared`); `attempts`: the
    folder of claims. `figures`: the GPUs' keys of a sample; `asked`: whether an answer is still to come; `fd`: where it
    comes, -1 while there is no fork."""

    def __init__(self, wanted: str, attempts: str) -> None:
        # Until they have been looked at, nobody may be given one: somebody may be using it.
        fault = "" if wanted == DECLARED else UNKNOWN
        self.figures: Dict[str, Any] = {"gpus": [], "gpu_source": "none", "gpu_fault": fault}
        self.asked = False
        self.fd = -1
        self._wanted = wanted
        self._attempts = attempts
        self.pid = 0
        """The fork that reads, 0 where there is none; it leads a process group."""
        self._orders = -1
        self._head = b""
        self._known: List[List[Any]] = []  # the GPUs that were seen: a GPU keeps its number also when a fork hung on it
        self._due = 0.0
        self._doing = ""
        self._give_up_at = 0.0

    def ask(self, now: float) -> None:
        """Have the GPUs read, if it is time for it; `now`: monotonic seconds."""
        self.look(now)
        if self._wanted == DECLARED or self.asked or now < self._due:
            return
        if self.fd < 0:
            if self.pid:
                return  # it was killed, and the kernel has not let go of it: another one would hang as well
            if not self._start():
                self._due = now + AGAIN_S
                return
        self.asked = True
        self._doing, self._give_up_at = "its driver", now + HUNG_S + SLACK_S
        with suppress(BrokenPipeError):  # its end is told by the other pipe
            os.write(self._orders, b"\n")

    def look(self, now: float) -> None:
        """From time to time: give up a fork that does not answer."""
        if self.pid and os.waitpid(self.pid, os.WNOHANG)[0]:
            self.pid = 0
        if self.asked and now >= self._give_up_at:
            self._fail(hung(self._doing), now)

    def on_ready(self, now: float) -> None:
        """Take what the fork says."""
        data = os.read(self.fd, 65536)
        if not data:
            self._ended(now)
            return
        lines = (self._head + data).split(b"\n")
        self._head = lines.pop()
        for line in lines:
            self._take(json.loads(line), now)

    def _take(self, told: Dict[str, Any], now: float) -> None:
        if "doing" in told:
            self._doing, self._give_up_at = told["doing"], now + HUNG_S + SLACK_S
            return
        self._due = now + told.pop("again_s")
        self._known = told.pop("known")
        self.figures = told
        self.asked = False

    def _ended(self, now: float) -> None:
        if self.asked:
            self._fail(f"the reading of its GPUs failed (while asking {self._doing}); see agent.log on the node", now)
        else:
            self._close()
            self._due = now + LOOK_AGAIN_S  # it found nothing to ask

    def _fail(self, fault: str, now: float) -> None:
        source = self.figures["gpu_source"]
        self.figures = {"gpus": [], "gpu_source": source, "gpu_fault": fault}
        self.asked = False
        self._due = now + AGAIN_S
        self._close()
        if self.pid:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)  # whatever it runs is in its group

    def _close(self) -> None:
        os.close(self.fd)
        os.close(self._orders)
        self.fd = self._orders = -1
        self._head = b""

    def _start(self) -> bool:
        """Fork; whether that went well."""
        orders, self._orders = os.pipe()
        self.fd, answers = os.pipe()
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            self._close()
            pid = -1
        if pid == 0:
            _serve(orders, answers, parent, Sources(self._wanted, self._attempts, self._known))
        os.close(orders)
        os.close(answers)
        self.pid = max(pid, 0)
        return pid > 0


def _serve(orders: int, answers: int, parent: int, sources: Sources) -> NoReturn:
    """The fork: an answer for each order, until there are no more or there is nothing to ask."""
    try:
        fork.die_with_parent(parent)
        os.setpgid(0, 0)
        fork.close_all_but({orders, answers})

        def say(told: Dict[str, Any]) -> None:
            os.write(answers, json.dumps(told, allow_nan=False).encode() + b"\n")

        while os.read(orders, 1):
            answer = sources.read(lambda name: say({"doing": name}))
            say(answer)
            if answer["gpu_source"] == "none" and not answer["gpu_fault"]:
                break
    except BrokenPipeError:
        os._exit(0)
    except BaseException as error:  # noqa: BLE001  (this is a fork: nothing may return into the code above)
        os.write(2, f"the reading of the GPUs failed: {error!r}\n".encode("utf-8", "replace"))
        os._exit(1)
    os._exit(0)
