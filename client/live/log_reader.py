"""Follows one log for a screen: from near its end, each line in its last state."""

from __future__ import annotations

from client.live.worker import Worker
from client.session import ConnectionLostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.address import Address
    from client.api import Client
    from client.live.worker import Tell

TAIL = 256 * 1024
"""Bytes of a log's end that are read at first."""


class LogReader(Worker):
    """Of one task.

    Told as {"method": "log", "params": {"reader": this, "lines": bytes, "rest": bytes}}, or with "error", or "over".
    """

    def __init__(self, task_id: int, address: Address, token: str | None, tell: Tell) -> None:
        super().__init__(f"log {task_id}", address, token)
        self._tell = tell
        self.task_id = task_id

    def _run(self) -> None:
        from wire.errors import MusterError

        client = self.client()
        try:
            _, state = client.read_log(self.task_id, 0, 0)
            offset = self._line_begin(client, max(0, int(state["size"]) - TAIL))
            if offset:
                self._told(lines=b"[earlier output is left out]\n", rest=b"")
            for lines, rest in client.collapsed_logs(self.task_id, follow=True, offset=offset):
                self._told(lines=lines, rest=rest)
            self._told(over=True)
        except (ConnectionLostError, MusterError) as error:
            self._told(error=self.told_of(error))
        finally:
            client.close()

    def _line_begin(self, client: Client, offset: int) -> int:
        """The first place from `offset` on where a line begins; one longer than a read counts as one that begins."""
        if offset == 0:
            return 0
        data, _ = client.read_log(self.task_id, offset - 1, TAIL)
        at = data.find(b"\n")
        return offset + at if at >= 0 else offset

    def _told(self, **what: Any) -> None:
        if not self.ended.is_set():
            self._tell({"method": "log", "params": {"reader": self, **what}})
