"""Are the shared folders really shared: what is written on one side is read on the other. The master's side, in files,
and the judgement.

A mount point without its mount looks like a folder, and so does the mount of another server: only a word that was
written a moment ago tells. Each side removes its own files. All calls here that touch a folder are made in threads
that the master can do without; what asks the node is `doctor`'s.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from master.doctor.finding import SHARED_FOLDERS, Finding, fault, heard, ok, skipped, warning
from master.doctor.scripts import FolderTold
from master.files.threads import Threads
from wire.errors import MusterError
from wire.message import Message

HERE_S = 4.0
"""How long a folder here may take to answer."""
PATIENCE_S = 3.0
"""How long what was written on one side may take to be seen on the other: file systems of networks keep what they
know of a folder for a while, but ask anew when it is opened."""
AGAIN_S = 0.2
SILENT = str(Message("doctor_silent_here", seconds=HERE_S))
_LONGEST = 200

T = TypeVar("T")


class Nonces:
    """The files of one run here. `run`: a word that no other run has; it is in every name and every file."""

    def __init__(self, threads: Threads, run: str) -> None:
        self.run = run
        self.name = f".muster-doctor-{run}"
        self.refused: dict[str, str] = {}
        """The folders that are there, and why nothing could be written into one; "" where it was."""
        self.left: set[str] = set()
        """Files of nodes that could not remove them themselves."""
        self._threads = threads
        self._over = False

    def name_there(self, number: int) -> str:
        """Return the name of the file that the node of this number writes."""
        return f"{self.name}-{number}"

    async def look(self, folders: Iterable[str]) -> None:
        """Find out which of the folders are there; the others the lab does not have."""
        wanted = list(folders)
        found = await asyncio.gather(*(self._here(folder, Path(folder).is_dir) for folder in wanted))
        for folder, (there, error) in zip(wanted, found, strict=True):
            if there or error:
                self.refused[folder] = error

    async def lay(self) -> None:
        """Write into each folder that answers."""
        await asyncio.gather(*(self._lay(folder) for folder, error in list(self.refused.items()) if not error))

    async def _lay(self, folder: str) -> None:
        _, self.refused[folder] = await self._here(folder, partial(self._write, Path(folder, self.name)))

    def _write(self, path: Path) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            os.write(fd, self.run.encode("ascii"))
            os.fchmod(fd, 0o644)
        finally:
            os.close(fd)
            if self._over:  # nobody waited for so slow a storage
                path.unlink()

    async def back(self, folder: str, number: int) -> str:
        """Why what the node wrote cannot be read here; "" if it can."""
        read = partial(_read_patiently, Path(folder, self.name_there(number)))
        text, error = await self._here(folder, read, PATIENCE_S + HERE_S)
        return error or ("" if text == self.run else "it reads something else here")

    async def clear(self) -> None:
        """Remove ours, and what nodes have left."""
        self._over = True
        by_folder = {folder: [Path(folder, self.name)] for folder, error in self.refused.items() if not error}
        for left in map(Path, self.left):
            by_folder.setdefault(str(left.parent), []).append(left)
        await asyncio.gather(*(self._here(folder, partial(_remove, paths)) for folder, paths in by_folder.items()))

    async def holds(self, folder: str, names: Iterable[str]) -> bool:
        """Whether one of these is in the folder here; also where that cannot be told."""
        paths = [Path(folder, name) for name in names]
        there, error = await self._here(folder, lambda: any(path.exists() for path in paths))
        return bool(there or error)

    async def _here(self, folder: str, work: Callable[[], T], limit_s: float = HERE_S) -> tuple[T | None, str]:
        """Return the result of `work`; or None, and why there is none."""
        try:
            async with asyncio.timeout(limit_s):
                return await self._threads.call(folder, lambda _tick: work()), ""
        except TimeoutError:
            return None, SILENT
        except OSError as error:
            return None, error.strerror or str(error)
        except MusterError as error:
            return None, str(error)


def _read_patiently(path: Path) -> str:
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return _read(path)
        except FileNotFoundError:
            if time.monotonic() > end:
                raise
        time.sleep(AGAIN_S)


def _read(path: Path) -> str:
    with suppress(PermissionError):  # NFS asks its server what is new when a folder is opened
        os.close(os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    # The folder is everybody's: what lies there under the name may be a link to a secret, or a pipe.
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(fd, _LONGEST).decode("ascii", "replace")
    finally:
        os.close(fd)


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(OSError):  # it never came here, or may be removed by the node only
            path.unlink()


# -- the judgement (pure) -------------------------------------------------------------------------------------


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One folder, from both sides. `refused`: why the master could not write there, "" if it could. `answer`: what
    the script on the node told, None where it did not, because of `silence`. `back`: why what the node wrote was not
    read here, "" if it was, None where nothing was written."""

    folder: str
    refused: str
    answer: FolderTold | None
    silence: str = ""
    back: str | None = None


def broken(run: str, seen: Sequence[Seen]) -> list[str]:
    """The folders that are not there, do not answer, or are not the master's and should be."""
    return [one.folder for one in seen if _ill(run, one) and not _frames(run, one, seen)]


def shared(run: str, seen: Sequence[Seen], user: str) -> list[Finding]:
    """All the folders of a node; those that are well in one finding, and those that lie in one that is not with it.
    `run`: what the files hold."""
    findings = []
    well = []
    own = [one for one in seen if _frames(run, one, seen)]
    for one in seen:
        if one in own or any(_follows(run, one, other) for other in seen if other not in own):
            continue
        finding = _one(run, one, heard(user) if user else Message("doctor_account_there"))
        if finding is None:
            well.append(one.folder)
        else:
            findings.append(finding)
    if well:
        findings.append(ok(SHARED_FOLDERS, Message("doctor_folders", folders=tuple(well))))
    return findings + [ok(SHARED_FOLDERS, Message("doctor_folder_own", folder=one.folder)) for one in own]


def absent(folders: Iterable[str]) -> list[Finding]:
    """Folders that conf.json names and that are not on the master's own machine: no node need have them."""
    return [skipped(SHARED_FOLDERS, Message("doctor_folder_absent", folder=folder)) for folder in folders]


def _lies_in(one: Seen, other: Seen) -> bool:
    return one.folder != other.folder and Path(one.folder).is_relative_to(other.folder)


def _frames(run: str, one: Seen, seen: Iterable[Seen]) -> bool:
    """Is `one` a folder of the node's own, and rightly so, since shared ones are mounted in it: the home in which the
    lab's folders lie, say, and `root` of conf.json?"""
    return _ill(run, one) == "other" and any(_lies_in(other, one) and _is_shared(run, other) for other in seen)


def _is_shared(run: str, seen: Seen) -> bool:
    return seen.answer is not None and (seen.answer.read == run or (seen.answer.wrote and seen.back == ""))


def _follows(run: str, one: Seen, other: Seen) -> bool:
    """Is `one` ill because it lies in `other`?"""
    outer = _ill(run, other)
    return outer != "" and _lies_in(one, other) and _ill(run, one) in (outer, "missing")


def _ill(run: str, seen: Seen) -> str:
    """In which way the folder is not the master's; "" if it is, or nobody knows."""
    if seen.answer is None:
        return "silent"
    if not seen.answer.there:
        return "missing"
    return "other" if not seen.refused and not seen.answer.closed and seen.answer.read != run else ""


def _one(run: str, seen: Seen, who: Message) -> Finding | None:
    """Return the finding for a folder that is not shared; None if it is shared."""
    folder, answer = seen.folder, seen.answer
    if answer is None:
        silent = Message("doctor_folder_silent", folder=folder, said=heard(seen.silence))
        return fault(SHARED_FOLDERS, silent, Message("do_look_at_file_server", folder=folder))
    if not answer.there:
        missing = Message("doctor_folder_missing", folder=folder)
        return fault(SHARED_FOLDERS, missing, Message("do_mount_folder", folder=folder))
    if answer.closed:
        closed = Message("doctor_folder_closed", folder=folder, who=who)
        return fault(SHARED_FOLDERS, closed, Message("do_correct_mode"))
    if seen.refused == SILENT:
        silent = Message("doctor_folder_silent_here", folder=folder, said=Message("doctor_silent_here", seconds=HERE_S))
        return fault(SHARED_FOLDERS, silent, Message("do_look_at_masters_mounts"))
    if not seen.refused:
        return _from_here(run, seen, answer, who)
    if not answer.wrote:
        here, there = heard(seen.refused), heard(answer.write_error)
        return skipped(SHARED_FOLDERS, Message("doctor_folder_untried", folder=folder, who=who, here=here, there=there))
    if not seen.back:
        return None
    not_back = Message("doctor_folder_not_back", folder=folder, who=who, said=heard(seen.back))
    return fault(SHARED_FOLDERS, not_back, Message("do_mount_right_folder", folder=folder))


def _from_here(run: str, seen: Seen, answer: FolderTold, who: Message) -> Finding | None:
    folder = seen.folder
    if answer.read != run:
        why = heard(answer.read_error) if answer.read_error else Message("doctor_reads_other")
        other = Message("doctor_folder_other", folder=folder, said=why)
        return fault(SHARED_FOLDERS, other, Message("do_mount_right_folder", folder=folder))
    if seen.back:
        late = Message("doctor_folder_late", folder=folder, who=who, said=heard(seen.back))
        return warning(SHARED_FOLDERS, late, Message("do_look_at_caches"))
    return None
