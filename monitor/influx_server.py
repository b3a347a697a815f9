"""An InfluxDB: bodies in line protocol go to it, and what it answers comes back as one of four errors.

Owns the two dialects (2, also spoken by 1.8 and by VictoriaMetrics; 1, spoken by every 1.x) and how a missing bucket or
database is made. All of it goes through influxdb-client; its own batching is not used, since that holds what it cannot
write without a bound and gives up a batch after some tries. When to write and what to keep is the writer's.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Any

from influxdb_client.client.influxdb_client import InfluxDBClient
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.domain.write_precision import WritePrecision
from influxdb_client.rest import ApiException
from urllib3.exceptions import HTTPError

from monitor.influx_errors import DeniedError, InfluxError, MissingError, RefusedError, UnavailableError
from monitor.influx_settings import Settings
from monitor.influx_writer import Server

TIMEOUT_MS = 10_000
_TEXT = {"Content-Type": "text/plain; charset=utf-8"}
_DROPPED = re.compile(r"dropped=(\d+)")
_SAID_LIMIT = 300


def connect(settings: Settings) -> Server:
    """The InfluxDB of these settings; nothing is sent yet."""
    return Version1(settings) if settings.version == 1 else Version2(settings)


class Version2:
    """`/api/v2/write`, with a token of InfluxDB 2, or USER:PASSWORD for 1.8."""

    def __init__(self, settings: Settings) -> None:
        self._client = _client(settings, settings.token, enable_gzip=True)
        self._settings = settings
        self._write = self._client.write_api(write_options=SYNCHRONOUS).write

    def write(self, body: bytes) -> None:
        """Write lines."""
        _do(lambda: self._write(self._settings.bucket, self._settings.org, body, WritePrecision.NS))

    def make_bucket(self) -> None:
        """Make the bucket, and name it for InfluxQL as well, which older versions do not do by themselves."""
        try:
            found = _call(self._client, "GET", "/api/v2/orgs", [("org", self._settings.org)])
        except (MissingError, RefusedError):
            # No InfluxDB 2 after all: 1.8 writes through this end point too, and makes databases the old way.
            _create_database(self._client, self._settings.bucket)
            return
        if not found.get("orgs"):
            raise MissingError(f"there is no organisation {self._settings.org!r} (influx.org in conf.json)")
        organisation = found["orgs"][0]["id"]
        name = self._settings.bucket
        made = _call(self._client, "POST", "/api/v2/buckets", body={"orgID": organisation, "name": name})
        names = {"orgID": organisation, "bucketID": made["id"], "database": name, "retention_policy": "autogen"}
        _call(self._client, "POST", "/api/v2/dbrps", body={**names, "default": True})

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class Version1:
    """`/write`, as every 1.x has it, with USER:PASSWORD where the server asks for one."""

    def __init__(self, settings: Settings) -> None:
        self._client = _client(settings, settings.token, auth_basic=bool(settings.token))
        self._database = settings.bucket

    def write(self, body: bytes) -> None:
        """Write lines."""
        where = [("db", self._database), ("precision", "ns")]
        _do(lambda: self._client.api_client.call_api("/write", "POST", None, where, dict(_TEXT), body))

    def make_bucket(self) -> None:
        """Make the database."""
        _create_database(self._client, self._database)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _client(settings: Settings, token: str, **options: Any) -> Any:
    # Certificates: those of certifi, or the lab's own by the variable that every program here follows.
    own = os.environ.get("SSL_CERT_FILE")
    org = settings.org or "-"
    return InfluxDBClient(settings.url, token, timeout=TIMEOUT_MS, org=org, ssl_ca_cert=own, **options)


def _create_database(client: Any, name: str) -> None:
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    answer = _call(client, "POST", "/query", [("q", f'CREATE DATABASE "{quoted}"')])
    for result in answer.get("results", []):
        if "error" in result:
            raise RefusedError(result["error"])


def _call(client: Any, method: str, path: str, query: list[tuple[str, str]] | None = None, body: Any = None) -> Any:
    """Ask for a JSON object."""

    def ask() -> Any:
        return client.api_client.call_api(
            path, method, None, query, {}, body, _preload_content=False, _return_http_data_only=True
        )

    try:
        return json.loads(_do(ask).data)
    except ValueError:
        raise RefusedError(f"{path} does not answer as InfluxDB would") from None


def _do(request: Callable[[], Any]) -> Any:
    try:
        return request()
    except ApiException as error:
        raise _told(error) from None
    except (HTTPError, OSError) as error:
        raise UnavailableError(_plain(error)) from None


def _told(error: ApiException) -> InfluxError:
    """What an answer that is no success means."""
    status, said = error.status or 0, f"{error.status} {_message(error)}"
    if status in (401, 403):
        return DeniedError(said)
    if status == 404:  # noqa: PLR2004  (HTTP's not found)
        return MissingError(said)
    if status in (408, 429) or not 400 <= status < 500:  # noqa: PLR2004  (HTTP's classes)
        headers: Any = error.headers or {}
        after = str(headers.get("Retry-After", ""))
        return UnavailableError(said, float(after) if after.isdigit() else 0.0)
    dropped = _DROPPED.search(said)
    return RefusedError(said, int(dropped[1]) if dropped else None)


def _message(error: ApiException) -> str:
    """What it says: `message` in InfluxDB 2, `error` in 1, else whatever came."""
    body = error.body or b""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, dict):
        text = str(value.get("message") or value.get("error") or text)
    return " ".join((text or error.reason or "").split())[:_SAID_LIMIT]


def _plain(error: Exception) -> str:
    """One line, without the objects that urllib3 names."""
    text = " ".join(str(error).split())
    return (text.partition("): ")[2] or text or type(error).__name__)[:_SAID_LIMIT]
