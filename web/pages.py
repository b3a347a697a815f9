"""The pages: index.html for every path of theirs, and the files that it is made of.

They are read once, when the console starts. A file is made smaller when it is first asked for, since that takes longer
for all of them than the rest of a start: comments of our scripts are taken off (`lean`), and it is compressed if that
is worth it. The modules that every page begins with are named in index.html, so that a browser asks for all of them at
once, instead of for each when the one that imports it has come. A file is asked for by a path that holds the digest of
all of them, and kept by browsers for a year; or by its plain name, and then looked at again each time.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import posixpath
import re
from html import escape
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from web.lean import lean
from web.whence import Whence
from wire.errors import NotFoundError
from wire.message import Message

FOLDER = Path(__file__).parent / "static"
HOW_IT_IS_SERVED = Path(__file__).with_name("lean.py")
"""With another one the same sources are other files."""
OTHERS = "vendor/"
"""The folder of files that are as their authors published them."""
KEPT_FROM_PEOPLE = frozenset({".py", ".ts"})
FOREVER = "public, max-age=31536000, immutable"
LOOK_AGAIN = "no-cache"
BEGUN_WITH = ("start.js", "app.js")
_IMPORTED = re.compile(r'^(?:import|export)\b[^;"]*"(\.[^"]+)";', re.MULTILINE)
_BASE = '<base href="/">'
_STATIC = '"static/'
_TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".svg": "image/svg+xml", ".woff2": "font/woff2"}


def policy(whence: Whence) -> str:
    """Return the policy of what our pages may load: scripts from our own folder of scripts and nowhere else, because
    users' files have this origin, too."""
    base = f"{whence.origin}{whence.base}"
    return (
        f"default-src 'none'; script-src {base}static/; style-src 'self'; img-src 'self'; connect-src 'self'; "
        f"frame-ancestors 'none'; base-uri {base}; form-action 'none'"
    )


class Served(NamedTuple):
    """A file as it is sent: its bytes, the same compressed (empty where that is not shorter), digest and type."""

    data: bytes
    packed: bytes
    digest: str
    kind: str


class Pages:
    """The files of `folder`, by their paths beneath it."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._sources: dict[str, bytes] = {}
        self._served: dict[str, Served] = {}
        whole = hashlib.sha256(HOW_IT_IS_SERVED.read_bytes())
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if not path.is_file() or path.suffix in KEPT_FROM_PEOPLE:
                continue
            data = self._sources[name] = path.read_bytes()
            whole.update(f"{name}\0{len(data)}\0".encode() + data)
        self._version = f"v-{whole.hexdigest()[:16]}"
        index = self._sources.get("index.html")
        self._index = self._with_modules(index.decode()) if index else ""

    def _with_modules(self, text: str) -> str:
        found: dict[str, None] = {}
        todo = list(BEGUN_WITH)
        while todo:
            name = todo.pop(0)
            if name in self._sources and name not in found:
                found[name] = None
                source = self._sources[name].decode()
                todo += [
                    posixpath.normpath(posixpath.join(posixpath.dirname(name), one))
                    for one in _IMPORTED.findall(source)
                ]
        links = "".join(f'<link rel="modulepreload" href={_STATIC}{name}">\n' for name in found)
        return text.replace("</head>", f"{links}</head>")

    def index(self, request: Request) -> Response:
        """The one page, for whichever path of it somebody opens. Raises NotFoundError where pages are not installed."""
        if not self._index:
            raise NotFoundError(Message("no_page", path=request.url.path))
        whence: Whence = request.scope["muster"]
        text = self._index.replace(_BASE, f'<base href="{escape(whence.base)}">')
        text = text.replace(_STATIC, f"{_STATIC}{self._version}/")
        headers = {"Cache-Control": LOOK_AGAIN, "Content-Security-Policy": policy(whence)}
        return Response(text, media_type="text/html", headers=headers)

    def file(self, request: Request) -> Response:
        """One of the files. Raises NotFoundError."""
        name: str = request.path_params["path"]
        version, _, rest = name.partition("/")
        is_versioned = version.startswith("v-")
        found = self._find(rest if is_versioned else name)
        if found is None:
            raise NotFoundError(Message("no_page", path=request.url.path))
        is_packed = bool(found.packed) and _takes_gzip(request.headers.get("accept-encoding", ""))
        tag = f'"{found.digest}{"-gz" if is_packed else ""}"'
        # Of another version than ours: whoever kept an old page gets what there is, and does not keep it.
        headers = {"ETag": tag, "Cache-Control": FOREVER if version == self._version else LOOK_AGAIN}
        if found.packed:
            headers["Vary"] = "Accept-Encoding"
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        if is_packed:
            headers["Content-Encoding"] = "gzip"
        return Response(found.packed if is_packed else found.data, media_type=found.kind, headers=headers)

    def _find(self, name: str) -> Served | None:
        if name not in self._served and name in self._sources:
            self._served[name] = _made(name, self._sources[name])
        return self._served.get(name)


def _made(name: str, data: bytes) -> Served:
    if name.endswith(".js") and not name.startswith(OTHERS):
        data = lean(data.decode()).encode()
    packed = gzip.compress(data, mtime=0)
    digest = hashlib.sha256(data).hexdigest()[:32]
    return Served(data, packed if len(packed) < len(data) else b"", digest, _type(name))


def _takes_gzip(accepted: str) -> bool:
    """Of an `Accept-Encoding`."""
    said = [one.replace(" ", "").lower().partition(";q=") for one in accepted.split(",")]
    return any(name == "gzip" and quality not in ("0", "0.0", "0.00", "0.000") for name, _, quality in said)


def _type(name: str) -> str:
    return _TYPES.get(posixpath.splitext(name)[1]) or mimetypes.guess_type(name)[0] or "application/octet-stream"
