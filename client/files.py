"""Files beneath the visible folders, from Python: `client.files`. Uploads and downloads go in pieces, with progress.

Paths begin with a visible folder (`data/run1/model.pt`). Owns what takes more than one call; what each call may reach
is the master's decision. Every method raises a `wire.errors.MusterError`; what concerns our own disk raises OSError.
"""

from __future__ import annotations

import base64
import os
from contextlib import nullcontext

from client.answers import clear_errors
from client.refusals import coded_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, BinaryIO

    from client.caller import Caller

    Progress = Callable[[int, int], None]

PIECE = 1 << 20
AT_ONCE = 256 << 10
"""Bytes of a file that is written with one call instead of an upload."""
_NAME_BYTES = 255
"""The longest name that file systems take."""
HOURS_S = 24 * 3600.0
"""How long copies and deletions may take. They go on in the master whatever happens to us."""


@clear_errors
class Files:
    """The files that a master shows."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._under_way: dict[str, Any] | None = None

    def roots(self) -> list[str]:
        """The visible folders: what every path begins with."""
        return [folder["name"] for folder in self._caller.call("file.roots", {})["folders"]]

    def list(self, path: str) -> list[dict[str, Any]]:
        """Return the entries of a folder, in the order of names: name, kind (file, folder, other), size, mtime, mode,
        link, hidden."""
        return list(self.entries(path))

    def entries(self, path: str) -> Iterator[dict[str, Any]]:
        """The same, one by one, however many there are."""
        after = ""
        while True:
            page = self._caller.call("file.list", {"path": path, "after": after})
            yield from page["entries"]
            if not page["truncated"]:
                return
            if page["entries"]:  # all that were found may be gone when they are looked at
                after = page["entries"][-1]["name"]

    def stat(self, path: str) -> dict[str, Any]:
        """Return the entry that a path leads to, with the keys of `list`."""
        found: dict[str, Any] = self._caller.call("file.stat", {"path": path})
        return found

    def read(self, path: str, offset: int, limit: int = PIECE) -> tuple[bytes, dict[str, Any]]:
        """At most `limit` bytes (1 MiB) from `offset` (negative: from the end), and {offset, size, mtime_ns}."""
        reply = self._caller.call("file.read", {"path": path, "offset": offset, "limit": limit})
        return base64.b64decode(reply.pop("data")), reply

    def pieces(self, path: str) -> Iterator[bytes]:
        """The whole file, piece by piece, as long as it was at the beginning."""
        data, state = self.read(path, 0)
        offset, size = 0, state["size"]
        while data:
            yield data
            offset += len(data)
            data = self.read(path, offset, min(PIECE, size - offset))[0] if offset < size else b""

    def write(self, path: str, content: bytes, *, overwrite: bool = True, mode: int | None = None) -> None:
        """Write a small file (8 MiB) whole, at one instant."""
        params = {"path": path, "content": base64.b64encode(content).decode("ascii"), "overwrite": overwrite}
        if mode is not None:
            params["mode"] = mode
        self._caller.call("file.write", params, repeatable=overwrite)

    def make_folder(self, path: str, *, parents: bool = False) -> None:
        """Make a folder. `parents`: with those above it, and one that is there is fine."""
        self._caller.call("file.make", {"path": path, "kind": "folder", "parents": parents}, repeatable=parents)

    def make_file(self, path: str) -> None:
        """Make an empty file."""
        self._caller.call("file.make", {"path": path, "kind": "file"}, repeatable=False)

    def move(self, source: str, target: str, *, overwrite: bool = False) -> None:
        """Give a file or folder the path `target`."""
        self._long("file.move", {"from": source, "to": target, "overwrite": overwrite})

    def copy(self, source: str, target: str, *, overwrite: bool = False) -> dict[str, Any]:
        """Copy a file, or a folder with all in it, to the path `target`; gives the numbers of what was copied, and
        what was `skipped` because it is neither file, folder nor link."""
        return self._long("file.copy", {"from": source, "to": target, "overwrite": overwrite})

    def delete(self, path: str, *, recursive: bool = False) -> int:
        """Delete; a folder with things in it only if `recursive`. How many entries went."""
        return int(self._long("file.delete", {"path": path, "recursive": recursive})["deleted"])

    def upload(
        self,
        local: str,
        path: str,
        *,
        overwrite: bool = True,
        progress: Progress | None = None,
        source: BinaryIO | None = None,
    ) -> dict[str, Any]:
        """Send the file `local` to `path`; it appears there when it is complete. Gives what `stat` would.

        `progress` gets the bytes that are there and the whole size, after each piece. `source`: the file, where it is
        open already.
        """
        with open(local, "rb") if source is None else nullcontext(source) as opened:
            info = os.fstat(opened.fileno())
            mode = info.st_mode & 0o777
            if info.st_size <= AT_ONCE:
                self.write(path, opened.read(AT_ONCE), overwrite=overwrite, mode=mode)
                found = self.stat(path)
            else:
                found = self._upload(opened, info.st_size, path, {"overwrite": overwrite, "mode": mode}, progress)
        if progress is not None:
            progress(found["size"], found["size"])
        return found

    def _upload(
        self, source: BinaryIO, size: int, path: str, how: dict[str, Any], progress: Progress | None
    ) -> dict[str, Any]:
        call = self._caller.call
        upload = call("file.upload_begin", {"path": path, "size": size, **how}, repeatable=False)["upload"]
        which = self._under_way = {"path": path, "upload": upload}
        try:
            offset = 0
            while data := source.read(min(PIECE, size - offset)):
                content = base64.b64encode(data).decode("ascii")
                call("file.upload_piece", {**which, "offset": offset, "content": content})
                offset += len(data)
                if progress is not None:
                    progress(offset, size)
            last = {**which, "size": size, "overwrite": how["overwrite"]}
            found: dict[str, Any] = call("file.upload_commit", last, repeatable=False)
        except BaseException:
            self.abandon_upload()
            raise
        self._under_way = None
        return found

    def abandon_upload(self) -> None:
        """Let the master remove what it has of an upload that is under way. For whoever ends the process; an exception
        in the midst of `upload` does it by itself."""
        from wire.errors import MusterError

        if self._under_way is None:
            return
        # The answer to the call that was interrupted may still come: a new connection knows nothing of it.
        self._caller.session.close()
        try:
            self._caller.call("file.upload_cancel", self._under_way, repeatable=False)
        except MusterError:
            return  # the master removes it within a day; what went wrong first is what is told
        finally:
            self._under_way = None

    def download(self, path: str, local: str, *, progress: Progress | None = None, folder: int | None = None) -> bool:
        """Fetch a file to the path `local`, where it appears when it is complete. The part that an earlier try has
        fetched of the same version is not fetched again. Return False if the file was written to meanwhile. Raises
        ConflictError if another one took its place: nothing is put together from both. `folder`: the descriptor of the
        folder of `local`, where its path may lead elsewhere meanwhile."""
        data, state = self.read(path, 0)
        first, size, version = state, state["size"], state["mtime_ns"]
        part = _part(local, size, version)
        with open(_own_part(part, folder), "ab") as target:
            _alone(target, local)
            done = target.tell()
            if done == 0 or done > size:
                target.truncate(0)
                done = target.write(data)
            while True:
                if progress is not None:
                    progress(done, size)
                if done >= size:
                    break
                data, state = self.read(path, done, min(PIECE, size - done))
                if not data or _is_shorter(first, state):
                    raise _shrunk(path)
                if _is_another(first, state):
                    raise coded_error("conflict", "file_replaced", path=path)
                done += target.write(data)
            rights = (0o666 | (state["mode"] & 0o111)) & ~_umask()
            os.fchmod(target.fileno(), rights)
            target.flush()
            os.replace(_in(folder, part), _in(folder, local), src_dir_fd=folder, dst_dir_fd=folder)
        return bool(state["mtime_ns"] == version)

    def _long(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = self._caller.session.call(method, params, timeout=HOURS_S, repeatable=False)
        return result


def _part(local: str, size: int, version: int) -> str:
    """Where a download is collected: named after the version, so that two are never mixed."""
    folder, name = os.path.split(local)
    ending = f".{version:x}-{size:x}.part"
    raw = os.fsencode(name)
    if len(raw) + len(ending) >= _NAME_BYTES:
        from zlib import crc32

        ending = f".{crc32(raw):x}{ending}"
        name = raw[: _NAME_BYTES - 1 - len(ending)].decode(errors="ignore")
    return os.path.join(folder, f".{name}{ending}")


def _in(folder: int | None, path: str) -> str:
    """A path as it is named from the open folder that it lies in, if that is open."""
    return path if folder is None else os.path.basename(path)


def _own_part(part: str, folder: int | None = None) -> int:
    """Open what was collected so far, or begin. In a folder that others can write, they could have put a link or their
    own file at a name that they can tell. Raises ConflictError."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(_in(folder, part), flags | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder)
    except FileExistsError:
        found = os.stat(_in(folder, part), dir_fd=folder, follow_symlinks=False)
    if _is_own(found):
        fd = os.open(_in(folder, part), flags, dir_fd=folder)
        if _is_own(os.fstat(fd)):
            return fd
        os.close(fd)
    raise coded_error("conflict", "part_not_yours", path=part)


def _is_own(found: os.stat_result) -> bool:
    import stat

    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid == os.geteuid()


def _alone(target: BinaryIO, local: str) -> None:
    import fcntl

    try:
        fcntl.flock(target, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise coded_error("conflict", "fetched_already", path=local) from None


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _is_another(first: dict[str, Any], state: dict[str, Any]) -> bool:
    """Whether what was read now is of another file than what was read first. A master of an earlier version does not
    say which file it is."""
    return bool(state["mtime_ns"] != first["mtime_ns"] and state.get("file") != first.get("file"))


def _is_shorter(first: dict[str, Any], state: dict[str, Any]) -> bool:
    return bool(state["size"] < first["size"])


def _shrunk(path: str) -> Exception:
    return coded_error("conflict", "became_shorter", path=path)
