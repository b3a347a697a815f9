"""An InfluxDB: bodies in line protocol go to it, and what it answers comes back as one of four errors.

Owns the two dialects (2, also spoken by 1.8 and by VictoriaMetrics; 1, spoken by every 1.x) and how a missing bucket or
database is made. All of it goes through influxdb-client; its own batching is not used, since that holds what it cannot
write without a bound and gives up a batch after some tries. When to write and what to keep is the writer's.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from influxdb_client.client.influxdb_client import InfluxDBClient
from influxdb_client.rest import ApiException
from urllib3.exceptions import HTTPError

from monitor.influx_errors import DeniedError, InfluxError, MissingError, RefusedError, UnavailableError
from monitor.influx_settings import Settings
from monitor.influx_writer import Server
from wire.numbers import whole_number

TIMEOUT_MS = 10_000
_TEXT = {"Content-Type": "text/plain; charset=utf-8"}
_LATER = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
_NEVER = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY)
"""Answers to points that it will never take, if it is InfluxDB that says so."""
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

    def write(self, body: bytes) -> None:
        """Write lines."""
        where = [("org", self._settings.org), ("bucket", self._settings.bucket), ("precision", "ns")]
        _write(self._client, "/api/v2/write", where, body)

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
        _write(self._client, "/write", [("db", self._database), ("precision", "ns")], body)

    def make_bucket(self) -> None:
        """Make the database."""
        _create_database(self._client, self._database)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _client(settings: Settings, token: str, **options: Any) -> Any:
    # No certificates are named: so those of the system count, or of SSL_CERT_FILE, as for every program here.
    return InfluxDBClient(settings.url, token, timeout=TIMEOUT_MS, org=settings.org or "-", **options)


def _write(client: Any, path: str, where: list[tuple[str, str]], body: bytes) -> None:
    """One request. Only 204 says that the points are taken: 200 is what any web server answers to anything."""
    _, status, _ = _do(lambda: client.api_client.call_api(path, "POST", None, where, dict(_TEXT), body))
    if status != HTTPStatus.NO_CONTENT:
        raise DeniedError(f"{path} answers {status}, as no InfluxDB would")


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
    except UnicodeDecodeError:
        raise UnavailableError("its answer is no text") from None  # a proxy's page, in an encoding of its own


def _told(error: ApiException) -> InfluxError:
    """Return the error for an answer that reports a failure."""
    status, said = error.status or 0, f"{error.status or ''} {_message(error)}".strip()
    headers: Any = error.headers or {}
    if status == HTTPStatus.NOT_FOUND:
        return MissingError(said)
    if status in _LATER or not 300 <= status < 500:  # noqa: PLR2004  (HTTP's classes)
        return UnavailableError(said, _seconds(str(headers.get("Retry-After", ""))))
    if status in _NEVER and _object(error):
        dropped = _DROPPED.search(_text(error))
        return RefusedError(said, int(dropped[1]) if dropped else None)
    # The token may not, or it is no InfluxDB at all, which would lose every point if its word were taken.
    elsewhere = headers.get("Location")
    return DeniedError(f"{said}, see {elsewhere}" if elsewhere else said)


def _seconds(retry_after: str) -> float:
    """`Retry-After`: a number of seconds, or a date."""
    seconds = whole_number(retry_after)
    if seconds is not None:
        return float(seconds)
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return 0.0


def _object(error: ApiException) -> dict[str, Any]:
    """The JSON object that it says, as every InfluxDB does; empty where it is none."""
    try:
        value = json.loads(_text(error))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _text(error: ApiException) -> str:
    body = error.body or b""
    return body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)


def _message(error: ApiException) -> str:
    """Return the text of an error: `message` in InfluxDB 2, `error` in 1, else the body."""
    value = _object(error)
    text = str(value.get("message") or value.get("error") or _text(error) or error.reason or "")
    return " ".join(text.split())[:_SAID_LIMIT]


def _plain(error: Exception) -> str:
    """One line, without the objects that urllib3 names."""
    text = " ".join(str(error).split())
    return (text.partition("): ")[2] or text or type(error).__name__)[:_SAID_LIMIT]
