"""The section `influx` of conf.json, as the writer of points needs it: checked, the token fetched.

The master checks the section too, for its own start; this process reads the file itself, since it may outlive several
masters. The token is a secret: it is never on a command line and never in a log.
"""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from wire.file_fault import fault
from wire.message import Message

TOKEN_FILE = "file:"  # noqa: S105  (what a token begins with that stands in a file)
_TEXTS = {"url": None, "token": "", "org": "", "bucket": "muster"}
_OTHERS = 0o077


class Settings(NamedTuple):
    """Where points go. `token`: of InfluxDB 2; USER:PASSWORD for InfluxDB 1. `hides`: no point tells whose a task is,
    nor which (`privacy` of conf.json is `own`)."""

    url: str
    version: int
    token: str
    org: str
    bucket: str
    hides: bool = False


def load_settings(conf: Path) -> Settings:
    """Read them from conf.json. Raises ConfigError with the file, the key and the cure."""
    whole = _read(conf)
    section = whole.get("influx")
    if section is None:
        raise fault(conf, Message("influx_missing", example='{"url": "http://HOST:8086"}'))
    if not isinstance(section, dict):
        raise fault(conf, Message("influx_no_object", found=repr(section)))
    texts = {key: _text(conf, section, key) for key in _TEXTS}
    version = section.get("version", 2)
    if version not in (1, 2) or isinstance(version, bool):
        raise fault(conf, Message("influx_version", found=repr(version)))
    _check_url(conf, texts["url"])
    token = _token(conf, texts["token"])
    if version == 1 and token and ":" not in token:
        raise fault(conf, Message("influx_token_of_1"))
    if not token.isprintable() or (version != 1 and not token.isascii()):
        # It could not be sent, and whoever tells that would show it.
        raise fault(conf, Message("influx_token_line"))
    return Settings(
        texts["url"].rstrip("/"), version, token, texts["org"], texts["bucket"], whole.get("privacy", "open") != "open"
    )


def lock_file(conf: Path) -> Path:
    """The file that says which process writes for this lab. Raises ConfigError."""
    return _task_info(conf) / "influx.lock"


def service_token(conf: Path) -> str | None:
    """With what the writer comes in: it looks on, and may do nothing else. None where the master has made nothing of
    the kind, as earlier ones. Raises ConfigError."""
    path = _task_info(conf) / "services" / "metrics"
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise fault(path, Message("file_unreadable", detail=error.strerror)) from None


def _task_info(conf: Path) -> Path:
    folder = _read(conf).get("task_info", "task_info")
    if not isinstance(folder, str):
        raise fault(conf, Message("task_info_no_path", found=repr(folder)))
    return conf.absolute().parent / Path(folder).expanduser()


def _read(conf: Path) -> dict[str, Any]:
    try:
        value = json.loads(conf.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise fault(conf, Message("file_unreadable", detail=error.strerror)) from None
    except ValueError as error:
        raise fault(conf, Message("not_json", detail=str(error))) from None
    if not isinstance(value, dict):
        raise fault(conf, Message("object_expected"))
    return value


def _text(conf: Path, section: dict[str, Any], key: str) -> str:
    value = section.get(key, _TEXTS[key])
    if not isinstance(value, str) or (not value and _TEXTS[key] != ""):
        found = "something else" if key == "token" else repr(value)
        raise fault(conf, Message("influx_no_text", key=key, found=found))
    return value


def _check_url(conf: Path, url: str) -> None:
    if "@" in url:
        raise fault(conf, Message("influx_url_with_user"))
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise fault(conf, Message("influx_url", found=url))


def _token(conf: Path, token: str) -> str:
    """The token itself. Raises ConfigError where it lies open."""
    if not token.startswith(TOKEN_FILE):
        if token and _is_open(conf):
            raise fault(conf, Message("influx_token_open", path=str(conf)))
        return token
    path = conf.absolute().parent / Path(token.removeprefix(TOKEN_FILE)).expanduser()
    try:
        held = path.read_text(encoding="utf-8").strip()
        if _is_open(path):
            raise fault(path, Message("token_readable", path=str(path)))
    except OSError as error:
        raise fault(conf, Message("influx_token_refused", path=str(path), detail=error.strerror)) from None
    except UnicodeDecodeError:
        raise fault(path, Message("token_not_text")) from None
    return held


def _is_open(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & _OTHERS)
