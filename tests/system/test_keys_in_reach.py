"""Whether tasks can read the key by which other machines know the master, told where people look."""

from __future__ import annotations

from collections.abc import Callable

from tests.system.lab import Lab
from tests.waiting import until
from wire.message import Message, names


def test_a_node_whose_tasks_are_the_masters_own_account_is_told_and_may_be_accepted(
    make_system_lab: Callable[..., Lab],
) -> None:
    lab = make_system_lab(nodes=1)
    lab.write_conf(bind="0.0.0.0")  # noqa: S104  (others must be able to come in)
    lab.start()
    told = f"tls      {Message('tls_key_in_reach', nodes=names(['node0']))}"
    assert told in lab.muster("status").stdout
    assert told.removeprefix("tls      ") in lab.server_log()
    lab.write_registry([])
    until("nobody is in reach", lambda: told not in (said := lab.muster("status").stdout) and said)
    lab.stop_master()
    entry = {"name": "node0", "ip": "127.0.0.1", "driver": "local", "gpu_probe": "declared", "gpu_count": 1}
    lab.write_registry([entry])
    lab.write_conf(desktop_client={"local_nodes": "allow"})
    lab.start()
    assert told not in lab.muster("status").stdout
