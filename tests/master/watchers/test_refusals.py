"""What a mail server or a web server refuses for good is passed over, and what it refuses for now is tried again."""

from __future__ import annotations

import asyncio
import smtplib
import socketserver
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from master.core.tasks.transitions import State
from master.durable.outbox import Event, Moved
from master.engine.engine import Observer
from master.watchers.deliveries import GATHER_S, RETRY_S, Consumer, Deliveries
from master.watchers.refusals import RefusedForGoodError, is_final_http, is_final_smtp
from tests.cases import each_case
from tests.leaps import Leap
from tests.master.durable.simulated_disk import SimulatedDisk
from tests.master.durable.small_outbox import Lab, is_end
from tests.master.in_process import run
from tests.waiting import settled

OK = {"smtp": 250, "http": 200}


class Server:
    """`answers`: by task the codes that its messages get, one after the other, then that of success. `taken`: of which
    tasks it has taken a message; `tried`: of which it was sent one."""

    def __init__(self, kind: str, answers: Mapping[int, Sequence[int]]) -> None:
        self.kind = kind
        self.answers = {task: list(codes) for task, codes in answers.items()}
        self.tried: list[int] = []
        self.taken: list[int] = []
        self.port = 0

    def answer(self, task: int) -> int:
        """The code for a message about this task."""
        self.tried.append(task)
        codes = self.answers.get(task)
        code = codes.pop(0) if codes else OK[self.kind]
        if code == OK[self.kind]:
            self.taken.append(task)
        return code


def smtp_handler(server: Server) -> type[socketserver.StreamRequestHandler]:
    class Smtp(socketserver.StreamRequestHandler):
        """One session (RFC 5321). A recipient `tN` is refused or taken."""

        def handle(self) -> None:
            self._say("220 mail.lab ESMTP")
            for line in self.rfile:
                word, _, rest = line.decode("ascii").strip().partition(" ")
                if word.upper() == "RCPT":
                    code = server.answer(int(rest.partition("<t")[2].partition("@")[0]))
                    self._say(f"{code} {'taken' if code == OK['smtp'] else 'no'}")
                elif word.upper() == "DATA":
                    self._say("354 go on")
                    while self.rfile.readline() not in (b".\r\n", b""):
                        pass
                    self._say("250 queued")
                elif word.upper() == "QUIT":
                    self._say("221 bye")
                    return
                else:
                    self._say("250 mail.lab")

        def _say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode("ascii"))

    return Smtp


def http_handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Http(BaseHTTPRequestHandler):
        """A POST to `/N` is refused or taken."""

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(server.answer(int(self.path[1:])))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_words: object) -> None:
            """Say nothing."""

    return Http


@contextmanager
def serving(kind: str, answers: Mapping[int, Sequence[int]]) -> Iterator[Server]:
    """A server on a port of its own."""
    server = Server(kind, answers)
    made: socketserver.TCPServer
    if kind == "smtp":
        made = socketserver.ThreadingTCPServer(("127.0.0.1", 0), smtp_handler(server))
    else:
        made = ThreadingHTTPServer(("127.0.0.1", 0), http_handler(server))
    server.port = made.server_address[1]
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        made.shutdown()
        made.server_close()
        thread.join()


class Sender:
    """A consumer that sends one message for each event, as one for mail or for web hooks would."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def wants(self, before: State, after: State) -> bool:
        return is_end(before, after)

    async def deliver(self, events: Sequence[Event]) -> bool:
        send = self._mail if self._server.kind == "smtp" else self._post
        for event in events:
            assert isinstance(event, Moved)
            if not await asyncio.to_thread(send, event):
                return False
        return True

    def _mail(self, event: Moved) -> bool:
        message = EmailMessage()
        message["Message-ID"] = f"<{event.id}@lab>"
        try:
            with smtplib.SMTP("127.0.0.1", self._server.port, "lab") as server:
                server.send_message(message, "muster@lab", [f"t{event.task_id}@lab"])
        except smtplib.SMTPRecipientsRefused as error:
            [(code, said)] = error.recipients.values()
            if is_final_smtp(code):
                raise RefusedForGoodError(f"{code} {said.decode()}") from None
            return False
        return True

    def _post(self, event: Moved) -> bool:
        url = f"http://127.0.0.1:{self._server.port}/{event.task_id}"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, event.id.encode()), timeout=10):
                return True
        except urllib.error.HTTPError as error:
            if is_final_http(error.code):
                raise RefusedForGoodError(f"{error.code}") from None
            return False


@pytest.mark.parametrize(("kind", "final", "passing"), [("smtp", 550, 451), ("http", 410, 429)])
def test_what_is_refused_for_good_is_passed_over_and_what_is_refused_for_now_comes_again(
    leap: Leap, caplog: pytest.LogCaptureFixture, kind: str, final: int, passing: int
) -> None:
    lab = Lab(SimulatedDisk())
    lab.end(1, 2, 3, 4)

    async def story() -> None:
        with serving(kind, {2: [final] * 9, 4: [passing]}) as server:
            observers: list[Observer] = []
            consumer: Consumer = Sender(server)
            deliveries = Deliveries(observers, lab.reader, consumer)
            await asyncio.sleep(0)
            leap(GATHER_S)
            await settled(lambda: deliveries.failing_since is not None, "4 is refused for now")
            assert (set(server.taken), server.tried.count(2)) == ({1, 3}, 3)  # among others twice, and alone
            assert deliveries.refused is not None
            assert deliveries.refused.count == 1
            leap(RETRY_S)
            await settled(lambda: lab.reader.place.next_missing > lab.store.journal.seq, "the next one goes on")
            assert (set(server.taken), server.tried.count(2)) == ({1, 3, 4}, 3)
            assert deliveries.troubles("mail") == []
            await deliveries.close()

    run(story())
    told = [record.getMessage() for record in caplog.records if "refused for good" in record.getMessage()]
    assert len(told) == 1
    assert str(final) in told[0]


def test_which_codes_are_final() -> None:
    final = {"smtp": (500, 501, 521, 550, 551, 553, 554, 556), "http": (400, 401, 403, 404, 405, 410, 413, 422)}
    passing = {"smtp": (250, 421, 450, 451, 452, 530, 535, 552), "http": (200, 301, 408, 425, 429, 500, 502, 503)}
    rules = {"smtp": is_final_smtp, "http": is_final_http}
    with each_case() as cases:
        for kind, rule in rules.items():
            for code in (*final[kind], *passing[kind]):
                with cases.case(f"{kind} {code}"):
                    assert rule(code) is (code in final[kind])
