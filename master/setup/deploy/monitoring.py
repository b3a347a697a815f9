"""InfluxDB and Grafana as containers: a compose file with our data source and dashboards, and a template for secrets.

Secrets are in `.env` beside the compose file, which an admin makes from the template: nothing here reads or writes it.
`monitor` owns which metrics there are.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from master.config.conf_file import Influx
from master.setup.deploy.lab import Lab
from master.setup.deploy.quoting import yaml
from wire.file_fault import fault
from wire.message import Message

INFLUX_IMAGES = {1: "influxdb:1.8", 2: "influxdb:2.7"}
GRAFANA_IMAGE = "grafana/grafana-oss:11.6.0"
GRAFANA_PORT = 3000
KEPT = "52w"
"""How long InfluxDB keeps points: without an end, its disk fills."""
_GRAFANA_USER = "472"
_DATA = {1: "/var/lib/influxdb", 2: "/var/lib/influxdb2"}
_HTTP_PORTS = {"http": 80, "https": 443}

_COMPOSE = """\
# Made by `muster deploy`: InfluxDB {version} and Grafana for the lab of {conf}. With Docker Compose 2.23 or newer:
#   cp -p env.example .env && $EDITOR .env && docker compose up --detach
# What is secret comes from .env, which `muster deploy` never writes.
name: muster
services:
  influxdb:
    image: {influx_image}
    restart: unless-stopped
    environment:
{influx_environment}
    ports:
      # As `influx.url` of conf.json says.
      - target: 8086
        published: "{influx_port}"
{influx_host}{influx_configs}    volumes:
      - influxdb:{data}
  grafana:
    image: {grafana_image}
    restart: unless-stopped
    depends_on: [influxdb]
    environment:
      GF_SECURITY_ADMIN_PASSWORD: "${{MUSTER_GRAFANA_PASSWORD:?fill in .env}}"
      GF_ANALYTICS_REPORTING_ENABLED: "false"
      GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH: /var/lib/grafana/dashboards/muster/muster-cluster.json
      MUSTER_INFLUX_URL: http://influxdb:8086
      MUSTER_INFLUX_BUCKET: {bucket}
      MUSTER_INFLUX_USER: {influx_user}
    ports:
      # As `bind` of conf.json says.
      - target: 3000
        published: "{grafana_port}"
{grafana_host}    secrets:
      # Grafana's own account must be able to read it, and nobody else.
      - source: influx
        target: /etc/grafana/muster_influx_secret
        uid: "{grafana_user}"
        mode: 0400
    volumes:
      - ./grafana/datasources/influxdb{version}.yaml:/etc/grafana/provisioning/datasources/muster.yaml:ro
      - ./grafana/alerting:/etc/grafana/provisioning/alerting:ro
      - ./grafana/providers/muster.yaml:/etc/grafana/provisioning/dashboards/muster.yaml:ro
      - ./grafana/dashboards:/var/lib/grafana/dashboards/muster:ro
      - grafana:/var/lib/grafana
secrets:
  influx:
    environment: MUSTER_INFLUX_SECRET
{configs}volumes:
  influxdb: {{}}
  grafana: {{}}
"""
_ROOM_1 = """\
      # Each task that uses a GPU is a value of a tag: by default 100,000 of them are taken and no more.
      INFLUXDB_DATA_INDEX_VERSION: tsi1
      INFLUXDB_DATA_MAX_VALUES_PER_TAG: "0"
"""
_RETENTION_1 = """\
configs:
  # Run at the first start alone; later: ALTER RETENTION POLICY, as written here.
  retention:
    content: {statement}
"""
_RETENTION_1_MOUNT = """\
    configs:
      - source: retention
        target: /docker-entrypoint-initdb.d/retention.iql
"""
_OPEN_1 = """\
      # `influx.token` of conf.json is empty, so InfluxDB asks nobody: keep it on an address that only the lab reaches.
      INFLUXDB_HTTP_AUTH_ENABLED: "false"
      INFLUXDB_DB: {bucket}"""
_CLOSED_1 = """\
      INFLUXDB_HTTP_AUTH_ENABLED: "true"
      INFLUXDB_DB: {bucket}
      INFLUXDB_ADMIN_USER: "${{MUSTER_INFLUX_USER:?fill in .env}}"
      INFLUXDB_ADMIN_PASSWORD: "${{MUSTER_INFLUX_SECRET:?fill in .env}}\""""
_TWO = """\
      # Read at the first start alone; later changes are made with the `influx` command.
      DOCKER_INFLUXDB_INIT_MODE: setup
      DOCKER_INFLUXDB_INIT_ORG: {org}
      DOCKER_INFLUXDB_INIT_BUCKET: {bucket}
      DOCKER_INFLUXDB_INIT_RETENTION: {kept}
      DOCKER_INFLUXDB_INIT_USERNAME: admin
      DOCKER_INFLUXDB_INIT_PASSWORD: "${{MUSTER_INFLUX_ADMIN_PASSWORD:?fill in .env}}"
      DOCKER_INFLUXDB_INIT_ADMIN_TOKEN: "${{MUSTER_INFLUX_SECRET:?fill in .env}}\""""
_ENV = """\
# Copy this to .env (cp -p keeps its mode, 0600) and fill it in; `openssl rand -hex 24` makes a good secret.
# The password of Grafana's user `admin`, at its first start.
MUSTER_GRAFANA_PASSWORD=
"""
_ENV_2 = """\
# The password of InfluxDB's user `admin`, at its first start; at least 8 characters.
MUSTER_INFLUX_ADMIN_PASSWORD=
# The token of InfluxDB: what `influx.token` of conf.json says, or the file that it names holds.
MUSTER_INFLUX_SECRET=
"""
_ENV_1 = """\
# User and password of InfluxDB: the two halves of `influx.token` of conf.json (USER:PASSWORD).
MUSTER_INFLUX_USER=
MUSTER_INFLUX_SECRET=
"""
_ENV_OPEN = """\
# InfluxDB asks for no password; Grafana wants to read one all the same.
MUSTER_INFLUX_SECRET=none
"""


class Address(NamedTuple):
    """Where a published port is: on one address of the machine, or (None) on all."""

    host: str | None
    port: int


def compose(lab: Lab, influx: Influx) -> str:
    """compose.yaml. Raises ConfigError for a URL that InfluxDB cannot be published at."""
    where, bucket = influx_address(lab, influx), yaml(influx.bucket)
    kind = _TWO if influx.version == 2 else _CLOSED_1 if influx.token else _OPEN_1  # noqa: PLR2004  (2 is InfluxDB 2)
    room = _ROOM_1 if influx.version == 1 else ""
    user = '"${MUSTER_INFLUX_USER:?fill in .env}"' if kind is _CLOSED_1 else '""'
    return _COMPOSE.format(
        version=influx.version,
        conf=lab.config.path,
        influx_image=INFLUX_IMAGES[influx.version],
        influx_environment=room + kind.format(bucket=bucket, org=yaml(influx.org or "muster"), kept=KEPT),
        influx_configs=_RETENTION_1_MOUNT if influx.version == 1 else "",
        configs=_RETENTION_1.format(statement=yaml(retention(influx.bucket))) if influx.version == 1 else "",
        influx_port=where.port,
        influx_host=_host_line(where.host),
        data=_DATA[influx.version],
        grafana_image=GRAFANA_IMAGE,
        bucket=bucket,
        influx_user=user,
        grafana_port=GRAFANA_PORT,
        grafana_host=_host_line(_published(lab.config.bind)),
        grafana_user=_GRAFANA_USER,
    )


def retention(database: str) -> str:
    """The statement by which InfluxDB 1 keeps points for KEPT."""
    quoted = database.replace("\\", "\\\\").replace('"', '\\"')
    return f'ALTER RETENTION POLICY "autogen" ON "{quoted}" DURATION {KEPT}'


def env_template(influx: Influx) -> str:
    """env.example: names without values."""
    if influx.version == 2:  # noqa: PLR2004  (InfluxDB 2)
        return _ENV + _ENV_2
    return _ENV + (_ENV_1 if influx.token else _ENV_OPEN)


def influx_address(lab: Lab, influx: Influx) -> Address:
    """Where `influx.url` says that InfluxDB is. Raises ConfigError."""
    try:
        parts = urlsplit(influx.url)
        # A password in a URL would end up in what is written here.
        host = parts.hostname if parts.username is None and parts.password is None else None
        port = parts.port or _HTTP_PORTS.get(parts.scheme)
    except ValueError:
        host = port = None
    if not host or not port:
        raise fault(lab.config.path, Message("influx_url_for_deploy"))
    return Address("127.0.0.1" if host == "localhost" else _published(host), port)


def is_elsewhere(lab: Lab, influx: Influx) -> str | None:
    """The machine that InfluxDB is on, if that is not this one."""
    host = urlsplit(influx.url).hostname or ""
    here = host in ("localhost", lab.machine.host, lab.config.bind) or lab.machine.towards(host) == host
    return None if here or _is_loopback(host) else host


def provisioning(lab: Lab) -> dict[str, bytes]:
    """Our data sources and dashboards, as they lie in the package `monitor`; beneath `grafana/`."""
    base = lab.machine.grafana
    files = sorted(path for path in base.rglob("*") if path.suffix in (".json", ".yaml"))
    return {str(Path("grafana") / path.relative_to(base)): path.read_bytes() for path in files}


def _published(host: str) -> str | None:
    """The address to publish on; None (all) for a name, which docker does not take, and where all are meant."""
    try:
        return None if ipaddress.ip_address(host).is_unspecified else host
    except ValueError:
        return None


def is_one_address(host: str) -> bool:
    """Whether this is an address (no name) that any other machine, Windows too, may find this one at."""
    try:
        address = ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host_line(host: str | None) -> str:
    return f"        host_ip: {yaml(host)}\n" if host else ""
