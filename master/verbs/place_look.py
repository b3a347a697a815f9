"""Check which things that a task names are on the disks that all machines have, as far as somebody may see them.

Blocks as long as a disk does: it is called in threads. If the caller may not see a place, or the master cannot, nothing
is said of it; of the master's own folder nobody is told anything.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from master.core.attempts.preflight import HEAD, Finding, Lack, Want, interpreter_of
from master.files.beneath import Beneath
from master.files.public_paths import public_view
from wire.errors import MusterError, NotFoundError

_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_MAY_RUN = 0o111


class Look:
    """The view that a caller has of places in the folder `root`, except those in `own`, which are the master's alone.
    `beneath`: the visible folders, as the caller sees them; `conda`: the shared prefix of environments; `sees_all`:
    whether the caller may also see paths in no visible folder."""

    def __init__(self, root: str, own: str, beneath: Beneath, *, conda: str, sees_all: bool) -> None:
        self._root = root.rstrip("/") + "/"
        self._own = own.rstrip("/") + "/"
        self._conda = conda.rstrip("/") + "/"
        self._beneath = beneath
        self._sees_all = sees_all

    def is_shared(self, path: str) -> bool:
        """Is it what every machine has? Of the master's own disk nobody is told."""
        place = os.path.normpath(path) + "/"
        return path.startswith("/") and place.startswith(self._root) and not place.startswith(self._own)

    def is_of_conda(self, path: str) -> bool:
        """Does it lie in the shared prefix of environments?"""
        return path.startswith(self._conda)

    def may_name(self, path: str) -> bool:
        """Tell whether the caller may know of it by its name alone. Without rules, yes."""
        if not self.is_shared(path):
            return not (os.path.normpath(path) + "/").startswith(self._own)
        try:
            spot = self._beneath.spot(self._inside(path))
        except MusterError:
            return True  # it has no owner
        return self._beneath.sight is None or self._beneath.sight.has(spot.place)

    def findings(self, wants: Sequence[Want]) -> Iterator[Finding]:
        """Yield a finding for each of these that is not as it should be."""
        for want in wants:
            if want.kind == "beside":
                if self._is_beside(want):
                    yield Finding(want, Lack.BESIDE)
                continue
            lacks = [self._lack(want, path) for path in want.paths]
            if want.kind == "log" and lacks == [(Lack.ABSENT, "")]:
                continue  # it is made
            if lacks and all(lacks) and lacks[0] is not None:
                yield Finding(want, *lacks[0])

    def _is_beside(self, want: Want) -> bool:
        """Is the file in the folder, and no program of this name known, of this machine or of the environment?"""
        import shutil  # noqa: PLC0415  (with the codecs that it loads it takes half a MiB, and few tasks come to this)

        path, *programs = want.paths
        if not self.is_shared(path) or shutil.which(want.name) is not None or not self._is_seen_file(path):
            return False
        return all(self._lack(Want("file", want.name), program) == (Lack.ABSENT, "") for program in programs)

    def _is_seen_file(self, path: str) -> bool:
        """Whether it is a file, and they may know that."""
        try:
            spot = self._beneath.spot(self._inside(path))
        except MusterError:
            return self._sees_all and os.path.isfile(path)  # noqa: PTH113  (a link in the folder is followed, too)
        try:
            with self._beneath.find(spot, follow=True) as found:
                there = os.stat(found.name, dir_fd=found.folder, follow_symlinks=False)
        except (MusterError, OSError):
            return False
        return stat.S_ISREG(there.st_mode)

    def _lack(self, want: Want, path: str) -> tuple[Lack, str] | None:
        if want.kind == "env" and path.startswith(self._conda):
            # Which environments have names there is told to everybody; a path may lead up again.
            is_absent = _is_absent(path) if self._sees_all or not want.name.startswith("/") else _is_known_absent(path)
            return (Lack.ABSENT, "") if is_absent else None
        if not self.is_shared(path):
            return None
        try:
            spot = self._beneath.spot(self._inside(path))
        except MusterError:
            return self._of_nobody(want, path)
        try:
            with self._beneath.find(spot, follow=True) as found:
                return self._seen(want, os.fsdecode(found.name), found.folder)
        except NotFoundError:
            return Lack.ABSENT, ""
        except MusterError:
            return None  # the target of a link in a visible folder: the master may see more than the link's owner

    def _inside(self, path: str) -> str:
        return os.path.normpath(path).removeprefix(self._root)

    def _of_nobody(self, want: Want, path: str) -> tuple[Lack, str] | None:
        """Look at a path in no visible folder, which therefore has no owner. Those who see all get the true answer,
        others what any account of this machine can find out."""
        if not self._sees_all:
            return (Lack.ABSENT, "") if _is_known_absent(path) else None
        try:
            return self._seen(want, os.path.realpath(path), None)
        except OSError as error:
            return (Lack.ABSENT, "") if error.errno in _GONE else None
        except ValueError:
            return Lack.ABSENT, ""  # a NUL in it

    def _seen(self, want: Want, name: str, folder: int | None) -> tuple[Lack, str] | None:
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
        is_folder = stat.S_ISDIR(there.st_mode)
        if want.kind == "folder":
            return None if is_folder else (Lack.NO_FOLDER, "")
        if want.kind == "env":
            return None
        if is_folder:
            return Lack.IS_FOLDER, ""
        if want.kind in ("file", "log"):
            return None
        if not there.st_mode & _MAY_RUN:
            return Lack.NOT_EXECUTABLE, ""
        return self._program(name, folder) if stat.S_ISREG(there.st_mode) else None

    def _program(self, name: str, folder: int | None) -> tuple[Lack, str] | None:
        try:
            fd = os.open(name, _READ, dir_fd=folder)
        except PermissionError:
            return None  # who runs it may read it
        try:
            interpreter = interpreter_of(os.read(fd, HEAD))
        finally:
            os.close(fd)
        if interpreter is None:
            return None
        if interpreter.endswith("\r"):
            return Lack.LINE_END, ""
        is_gone = self._lack(Want("file", interpreter), interpreter)
        return (Lack.NO_INTERPRETER, interpreter) if is_gone == (Lack.ABSENT, "") else None


def _is_known_absent(path: str) -> bool:
    return public_view(path) == "absent"


def _is_absent(path: str) -> bool:
    """Nothing is said of what cannot be looked at: the master's account may not be everybody's."""
    try:
        Path(path).stat()
    except OSError as error:
        return error.errno in _GONE
    except ValueError:
        return True  # a NUL in it
    return False
