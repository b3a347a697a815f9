"""The desktop clients of the benchmark: what they make of frames that arrive together."""

from __future__ import annotations

import socket

from bench.desktop_clients import TERMINATOR, Pushed

ROW = b'{"mode":"mon","ui":"main","info":{"name":"a"}}' + TERMINATOR


def test_frames_that_arrive_together_are_counted_and_the_next_is_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = Pushed("127.0.0.1", server.getsockname()[1])
        master, _ = server.accept()
        with client.socket, master:
            for now, sent in enumerate((ROW, ROW + ROW, ROW)):
                master.sendall(sent)
                client.receive(float(now))
        assert client.unreadable == 1
        assert client.gaps == [2.0]
