"""`muster files put` and `get`: single files and whole folders, with a bar on the terminal and nothing else on stdout.

Owns which local file belongs to which remote path; how a file travels is `client.files`'.
"""

from __future__ import annotations

import os
import sys
import time
from functools import partial

from client.cli.commands.files import own_folders
from client.cli.commands.files.place import into, needs_r, remote
from client.cli.screen import interrupt
from client.refusals import coded_error
from client.text.columns import cut
from client.text.quantities import duration, size_text
from wire.harmless import harmless
from wire.message import Message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, BinaryIO

    from client.cli.context import Context

_EVERY_S = 0.1
_SOON_S = 0.5
"""A transfer that is over by then gets no bar."""
_NAME_COLUMNS = 40


def run(context: Context) -> int:
    """Do it."""
    work = Transfers(context)
    if context.options.action == "put":
        with interrupt.LastWords(work.files.abandon_upload):
            _put(work)
    else:
        with interrupt.LastWords(lambda: interrupt.tell("\nstopped; the same command goes on where it was")):
            _get(work)
    if context.json:
        context.print_json(work.results)
    return work.code


class Transfers:
    """The transferred files, and whether something was refused."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.files = context.client.files
        self.code = 0
        self.results: list[dict[str, Any]] = []

    def attempt(self, local: str, what: Callable[[], None]) -> None:
        """Do one thing; report a refusal, and go on with the rest. `local`: what it is about, on our own disk."""
        from wire.errors import MusterError, UnreachableError

        try:
            what()
        except UnreachableError:
            raise
        except MusterError as error:
            self._refused(error.code, str(error))
        except OSError as error:
            self._refused("io", f"{error.filename or local}: {error.strerror or error}")

    def skip(self, path: str, why: str) -> None:
        """Say what is left out."""
        self.context.note(f"skipped: {harmless(path)} ({why})")

    def unreadable(self, error: OSError) -> None:
        """Say which folder of our own could not be looked into."""
        self._refused("io", f"{error.filename}: {error.strerror}")

    def _refused(self, code: str, why: str) -> None:
        self.context.note(f"error: {code}: {harmless(why)}")
        self.code = 1


# -- put --------------------------------------------------------------------------------------------------------------


def _put(work: Transfers) -> None:
    *sources, target = work.context.options.paths
    if "-" in sources:
        raise coded_error("bad_request", "put_of_stdin")
    names = {source: _text(os.path.basename(os.path.abspath(source))) for source in sources}
    place = into(work.context, list(names.values()), remote(target))
    for source, name in names.items():
        work.attempt(source, lambda source=source, name=name: put_one(work, source, place(name)))  # type: ignore[misc]


def put_one(work: Transfers, source: str, path: str) -> None:
    """Send a file, or a folder with all that is in it, to become `path`."""
    if not os.path.isdir(source):
        _send(work, source, path)
        return
    if not work.context.options.recursive:
        raise needs_r(source)
    _refuse_file(work, path)
    for folder, opened, names in own_folders.walked(source, work.unreadable):
        beneath = os.path.relpath(folder, source)
        here = path if beneath == "." else f"{path}/{_text(beneath)}"
        work.files.make_folder(here, parents=True)
        for name in names:
            local, there = os.path.join(folder, name), f"{here}/{_text(name)}"
            work.attempt(local, partial(_send_of, work, opened, name, local, there))


def _send_of(work: Transfers, folder: int, name: str, local: str, path: str) -> None:
    """Send the file `name` of an open folder, or say why it is left out. `local`: how people know it."""
    try:
        source = own_folders.open_file(folder, name)
    except own_folders.LeftOutError as error:
        work.skip(local, str(error.why))
        return
    with source:
        _sent(work, local, path, source)


def _refuse_file(work: Transfers, path: str) -> None:
    """A folder does not take the place of a file, with -f or without."""
    from wire.errors import NotFoundError

    try:
        kind = work.files.stat(path)["kind"]
    except NotFoundError:
        return
    if kind != "folder":
        raise coded_error("conflict", "folder_over_file", path=path)


def _send(work: Transfers, local: str, path: str) -> None:
    if os.path.exists(local) and not os.path.isfile(local):
        raise coded_error("bad_request", "neither_file_nor_folder", path=local)
    with open(local, "rb") as source:
        _sent(work, local, path, source)


def _sent(work: Transfers, local: str, path: str, source: BinaryIO) -> None:
    with Bar(path) as bar:
        entry = work.files.upload(local, path, overwrite=work.context.options.force, progress=bar.show, source=source)
    work.results.append({"path": path, "size": entry["size"]})


# -- get --------------------------------------------------------------------------------------------------------------


def _get(work: Transfers) -> None:
    *sources, target = work.context.options.paths
    if not sources:
        sources, target = [target], "."
    if target == "-":
        raise coded_error("bad_request", "get_to_stdout")
    folder = os.path.isdir(target)
    if not folder and (len(sources) > 1 or target.endswith("/")):
        raise coded_error("bad_request", "not_a_folder_here", path=target)
    for source in map(remote, sources):
        local = os.path.join(target, _local(source.rstrip("/").rpartition("/")[2])) if folder else target
        work.attempt(local, lambda source=source, local=local: _get_one(work, source, local))  # type: ignore[misc]


def _get_one(work: Transfers, path: str, local: str) -> None:
    if work.files.stat(path)["kind"] != "folder":
        _fetch(work, path, local)
        return
    if not work.context.options.recursive:
        raise needs_r(path)
    os.makedirs(os.path.dirname(os.path.abspath(local)), exist_ok=True)
    with own_folders.made(local) as top:
        for there, entry in _walk(work, path):
            names = [_local(name) for name in there[len(path.rstrip("/")) + 1 :].split("/")]
            here = os.path.join(local, *names)
            if entry["kind"] == "folder":
                with own_folders.made_beneath(top, local, names):
                    pass
            elif entry["kind"] == "file":
                work.attempt(here, partial(_fetch_beneath, work, there, top, local, names))
            else:
                work.skip(there, str(Message("skipped_neither_or_out")))


def _fetch_beneath(work: Transfers, path: str, top: int, local: str, names: list[str]) -> None:
    """Fetch a file into a folder beneath the open one, wherever the names of the folders above lead by now."""
    with own_folders.made_beneath(top, local, names[:-1]) as folder:
        _fetch(work, path, os.path.join(local, *names), folder)


def _walk(work: Transfers, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Everything beneath a folder, a folder before what is in it."""
    waiting = [path.rstrip("/")]
    while waiting:
        folder = waiting.pop()
        for entry in work.files.entries(folder):
            there = f"{folder}/{entry['name']}"
            if entry["kind"] == "folder" and entry["link"]:
                work.skip(there, "a link to a folder")
                continue
            yield there, entry
            if entry["kind"] == "folder":
                waiting.append(there)


def _fetch(work: Transfers, path: str, local: str, folder: int | None = None) -> None:
    if os.path.isdir(local):
        raise coded_error("bad_request", "file_over_folder", local=local, path=path)
    with Bar(path) as bar:
        unchanged = work.files.download(path, local, progress=bar.show, folder=folder)
    if not unchanged:
        work.context.note(f"{harmless(path)} changed while it was read; what is here may be of both versions")
    work.results.append({"path": path, "local": harmless(local), "size": os.path.getsize(local)})


# -- names ------------------------------------------------------------------------------------------------------------


def _text(name: str) -> str:
    """A local name as it is on the wire."""
    if name.isascii():
        return name
    from wire.names import to_text

    return to_text(os.fsencode(name))


def _local(name: str) -> str:
    """A name of the master as it is here. Raises BadRequestError for one that would lead elsewhere."""
    from wire.names import to_bytes

    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise coded_error("bad_request", "no_file_name", name=name)
    return os.fsdecode(to_bytes(name))


class Bar:
    """A transfer's progress on stderr, if that is a terminal and it takes long enough to be read."""

    def __init__(self, name: str) -> None:
        self._name = cut(harmless(name), _NAME_COLUMNS)
        self._begin = time.monotonic()
        self._first: int | None = None
        self._next = self._begin + _SOON_S if sys.stderr.isatty() else float("inf")
        self._drawn = False
        self._last_words = interrupt.LastWords(self._clear)

    def __enter__(self) -> Bar:  # noqa: PYI034  (not meant to be inherited from)
        self._last_words.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the bar away."""
        self._last_words.__exit__()
        self._clear()

    def _clear(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def show(self, done: int, total: int) -> None:
        """So many bytes of so many are there."""
        self._first = done if self._first is None else self._first
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY_S
        self._drawn = True
        rate = (done - self._first) / max(now - self._begin, 1e-3)
        left = duration((total - done) / rate) if rate else "-"
        share = 100 * done // total if total else 100
        text = f"{share:3d}%  {size_text(done)} of {size_text(total)}  {size_text(int(rate))}/s  {left} left"
        sys.stderr.write(f"\r{self._name} {text}\x1b[K")
        sys.stderr.flush()
