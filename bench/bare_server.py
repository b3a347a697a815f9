"""The least that a queue can cost which answers after a sync, one request at a time: a process that reads a line of
JSON, appends a record, syncs it and answers with a line. It knows no tasks and has one client.

`python -m bench.bare_server FILE` appends to FILE; it says its port on stdout and ends with its client.
"""

from __future__ import annotations

import json
import os
import socket
import sys

RECORD = 300
"""Bytes: about what the journal gets for one submit."""


def main(path: str) -> None:
    """Serve one client to its end."""
    record = b"." * (RECORD - 1) + b"\n"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        connection, _ = listening.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with connection, connection.makefile("rb") as lines:
        for line in lines:
            asked = json.loads(line)
            os.write(file, record)
            os.fdatasync(file)
            answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"id": asked["id"]}}
            connection.sendall(json.dumps(answer).encode() + b"\n")
    os.close(file)


if __name__ == "__main__":
    main(sys.argv[1])
