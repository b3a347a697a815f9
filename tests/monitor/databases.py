"""A real InfluxDB 1.6 and a real VictoriaMetrics (it is written to as InfluxDB 2 is), each in a folder of its own; and
a stub that answers as it is told to.

Owns starting, stopping and asking; a stopped one comes back on its port with its data.
"""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3
from urllib3.exceptions import HTTPError

from master.tls.certificates import OwnCertificates
from tests.ports import free_ports
from tests.waiting import NeverError, until

_INFLUX_CONF = """
reporting-disabled = true
bind-address = "127.0.0.1:{backup}"
[meta]
  dir = "{folder}/meta"
[data]
  dir = "{folder}/data"
  wal-dir = "{folder}/wal"
  query-log-enabled = false
[http]
  bind-address = "127.0.0.1:{port}"
  auth-enabled = {auth}
  log-enabled = false
[monitor]
  store-enabled = false
[continuous_queries]
  enabled = false
"""
ADMIN = "admin:secret of the admin"


class Database:
    """A process that answers at `url`; `secret` is USER:PASSWORD where it asks for one."""

    def __init__(self, folder: Path, command: list[str], port: int, health: str, secret: str = "") -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.folder = folder
        self._command = command
        self._health = health
        self._secret = secret
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        with (self.folder / "out").open("ab") as out:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        until(f"{self._command[0]} answers", self._answers)

    def stop(self) -> None:
        """End it and wait; its data stays."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def ask(self, path: str, *, post: bool = False, **query: str) -> Any:
        """The answer, decoded where it is JSON. Raises urllib3's HTTPError."""
        headers = {"Authorization": f"Basic {b64encode(self._secret.encode()).decode()}"} if self._secret else {}
        text = urlencode(query)
        data = urllib3.request(
            "POST" if post else "GET", f"{self.url}{path}?{text}", headers=headers, timeout=60, retries=False
        ).data
        return json.loads(data) if data.startswith((b"{", b"[")) else data

    def _answers(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise NeverError((self.folder / "out").read_text(encoding="utf-8")[-2000:])
        try:
            self.ask(self._health)
        except HTTPError:
            return False
        return True


class Influx(Database):
    """InfluxDB 1.6; with `auth` only ADMIN may come in."""

    def __init__(self, folder: Path, *, auth: bool = False) -> None:
        folder.mkdir()
        port, backup = free_ports(2)
        conf = folder / "influxdb.conf"
        text = _INFLUX_CONF.format(folder=folder, port=port, backup=backup, auth=str(auth).lower())
        conf.write_text(text, encoding="utf-8")
        super().__init__(folder, ["influxd", "-config", str(conf)], port, "/ping", ADMIN if auth else "")
        self.start()
        if auth:
            user, _, password = ADMIN.partition(":")
            self.ask("/query", post=True, q=f"CREATE USER {user} WITH PASSWORD '{password}' WITH ALL PRIVILEGES")

    def query(self, text: str, database: str = "muster") -> list[dict[str, Any]]:
        """The series of one statement, each with `name`, `tags`, `columns`, `values`; times are nanoseconds."""
        result = self.ask("/query", post=True, q=text, db=database, epoch="ns")["results"][0]
        if "error" in result:
            raise AssertionError(f"{text}: {result['error']}")
        return list(result.get("series", []))

    def rows(self, text: str) -> list[dict[str, Any]]:
        """The rows of one statement, as dictionaries, their series' tags among them; [] without a database."""
        try:
            series = self.query(text)
        except AssertionError as error:
            if "database not found" in str(error):
                return []
            raise
        return [
            {**one.get("tags", {}), **dict(zip(one["columns"], row, strict=True))}
            for one in series
            for row in one["values"]
        ]


class Victoria(Database):
    """VictoriaMetrics; `secret` is USER:PASSWORD that it wants."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        (port,) = free_ports(1)
        command = [
            "victoria-metrics",
            f"-httpListenAddr=127.0.0.1:{port}",
            f"-storageDataPath={folder}/data",
            "-search.latencyOffset=0s",
            "-retentionPeriod=100y",
            "-search.disableCache",
        ]
        super().__init__(folder, command, port, "/api/v1/labels")
        self.start()

    def values(self, metric: str, at: float, **tags: str) -> dict[str, list[tuple[float, float]]]:
        """All stored (time in seconds, value) of a metric MEASUREMENT_FIELD around a time, by its `host` label."""
        wanted = ",".join(f'{name}="{value}"' for name, value in tags.items())
        lines = self._export(f"{metric}{{{wanted}}}", at)
        return {
            line["metric"].get("host", ""): [
                (stamp / 1000, value) for stamp, value in zip(line["timestamps"], line["values"], strict=True)
            ]
            for line in lines
        }

    def _export(self, match: str, at: float) -> list[dict[str, Any]]:
        self.ask("/internal/force_flush")
        span = {"start": str(at - 3600), "end": str(at + 3600)}
        answer = urllib3.request("GET", f"{self.url}/api/v1/export?{urlencode({'match[]': match, **span})}", timeout=60)
        return [json.loads(line) for line in answer.data.splitlines()]


@contextmanager
def stub(
    answer: Callable[[str, str, bytes], tuple[int, Any]], folder: Path | None = None, **headers: str
) -> Iterator[str]:
    """An HTTP server: (method, path, body) -> (status, bytes or JSON). Gives its address. `folder`: it speaks TLS, with
    a certificate of an authority of its own, `ca.pem` there."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, value = answer(self.command, self.path, body)
            data = value if isinstance(value, bytes) else b"" if value is None else json.dumps(value).encode()
            self.send_response(status)
            for name, text in headers.items():
                self.send_header(name.replace("_", "-"), text)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _serve  # noqa: N815  (the names that http.server looks for)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if folder is not None:
            certificates = OwnCertificates(folder, ["127.0.0.1"])
            certificates.ensure()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificates.shown)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http{'s' if folder else ''}://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
