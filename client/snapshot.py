"""A copy of the code as it is when a task is submitted: what is changed while the task waits does not reach it.

The copy lies beneath the folder that it is of, in `.muster/snapshots`, named by what is in it, so equal code exists
once. In a git work tree, code is every file that git does not ignore; elsewhere, code is every file. The rest (data,
checkpoints, results) is in the copy as links to where it is, so a task reads and writes it as if it ran there. Nothing
is ever removed here: a task may be tried again weeks later.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TypedDict

from client.refusals import coded_error
from client.shapes import Snapshot

FOLDER = ".muster"
MOST_FILES = 20_000
MOST_BYTES = 100_000_000
"""More is no code: it would be copied again for each change."""
DIGEST = 16
"""Hex digits of a copy's name."""
_NEITHER = frozenset({".git", FOLDER, "__pycache__"})
"""Neither copied nor linked: git finds its folder from within the copy, and compiled code is the copy's own."""
_KEEPS_A_FOLDER = frozenset({".gitkeep", ".gitignore", ".keep"})
"""A folder with nothing else in it that git knows is one for results."""
_BLOCK = 1 << 20


class InSnapshot(TypedDict):
    """The fields that a submit gets: the folder to run in, and the copy that contains it."""

    cwd: str
    snapshot: Snapshot


def snapshot(folder: str | os.PathLike[str] = ".") -> InSnapshot:
    """Copy the code of `folder`, with all of the work tree that it is in; the fields for a submit. The folder has to be
    one that the nodes see too. Raises BadRequestError where that cannot be."""
    here = os.path.abspath(folder)
    if not os.path.isdir(here):
        raise coded_error("bad_request", "snapshot_of_no_folder", path=here)
    if f"/{FOLDER}/snapshots/" in f"{here}/":
        raise coded_error("bad_request", "snapshot_of_snapshot", path=here)
    try:
        return _snapshot(here)
    except OSError as error:
        path = error.filename or here
        raise coded_error("bad_request", "snapshot_not_taken", path=path, detail=error.strerror) from None


def _snapshot(here: str) -> InSnapshot:
    import shutil
    import tempfile

    top = _work_tree(here)
    code = _without_kept(_whole(here) if top is None else _of_git(top))
    top = top or here
    if not code:
        raise coded_error("bad_request", "snapshot_of_nothing", path=top)
    home = _home(top)
    trusted = _trusted(top)
    copy, size = tempfile.mkdtemp(prefix=".new-", dir=home), 0
    try:
        digest, size = _copied(top, copy, code)
        os.chmod(copy, _mode(top))
        _link_rest(top, copy, code)
        copy = _settled(copy, os.path.join(home, digest[:DIGEST]), code, digest, trusted)
    except BaseException:
        shutil.rmtree(copy, ignore_errors=True)
        raise
    _link_rest(top, copy, code)  # what came since an equal one was taken
    commit = (_git(top, "rev-parse", "--verify", "--quiet", "HEAD") or "").strip()
    changed = bool(commit) and _git(top, "status", "--porcelain", "--no-renames") != ""
    taken = Snapshot(of=here, digest=digest, files=len(code), bytes=size, commit=commit, changed=changed)
    return InSnapshot(cwd=os.path.normpath(os.path.join(copy, os.path.relpath(here, top))), snapshot=taken)


# -- what is code -------------------------------------------------------------------------------------------------


def _git(folder: str, *words: str) -> str | None:
    """Return the output of git there; None if it fails, or is not installed."""
    import subprocess

    try:
        done = subprocess.run(
            ["git", "-C", folder, *words],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except FileNotFoundError:
        return None
    return os.fsdecode(done.stdout) if done.returncode == 0 else None


def _work_tree(here: str) -> str | None:
    """The top of the one that the folder is in. Raises BadRequestError where there is one that git does not read."""
    above = _git(here, "rev-parse", "--show-cdup")
    if above is not None:
        return os.path.normpath(os.path.join(here, above.rstrip("\n")))
    if any(os.path.exists(os.path.join(here, folder, ".git")) for folder in ("", *_parents(here))):
        raise coded_error("bad_request", "git_reads_no_tree", path=here)
    return None


def _of_git(top: str) -> list[str]:
    """The paths of what git does not ignore, with that of the repositories within."""
    listed = _git(top, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listed is None:
        raise coded_error("bad_request", "git_lists_no_files", path=top)
    found: set[str] = set()
    for name in filter(None, listed.split("\0")):
        path = os.path.join(top, name)
        if os.path.isdir(path) and not os.path.islink(path):
            inner = os.path.join(path, ".git")
            found.update(os.path.join(name, one) for one in (_of_git(path) if os.path.exists(inner) else []))
        elif os.path.lexists(path) and _is_code(name):
            found.add(name)
    return _few_enough(top, sorted(found))


def _whole(top: str) -> list[str]:
    """The paths of all files; a folder that is too large is no folder of code."""
    return sorted(_few_enough(top, _walked(top)))


def _walked(top: str) -> Iterator[str]:
    for folder, folders, files in os.walk(top):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        folders[:] = [name for name in folders if name not in links and _is_code(name)]
        for name in (*files, *links):
            if _is_code(name):
                yield os.path.relpath(os.path.join(folder, name), top)


def _is_code(name: str) -> bool:
    return _NEITHER.isdisjoint(name.split("/"))


def _few_enough(top: str, names: Iterable[str]) -> list[str]:
    """They, before anything is copied. Raises BadRequestError."""
    found, size = [], 0
    for name in names:
        status = os.lstat(os.path.join(top, name))
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
            continue
        found.append(name)
        size += status.st_size
        if size > MOST_BYTES or len(found) > MOST_FILES:
            megabytes = MOST_BYTES // 1_000_000
            raise coded_error(
                "bad_request", "snapshot_too_large", path=top, name=name, files=MOST_FILES, megabytes=megabytes
            )
    return found


def _without_kept(names: list[str]) -> list[str]:
    """Without the files that only keep a folder there, and so with that as a link."""
    full: set[str] = {""}
    for name in names:
        if os.path.basename(name) not in _KEEPS_A_FOLDER:
            full.update(_parents(name))
    return [name for name in names if os.path.dirname(name) in full]


def _parents(name: str) -> Iterator[str]:
    while name and name != "/":
        name = os.path.dirname(name)
        yield name


# -- the copy -----------------------------------------------------------------------------------------------------


def _trusted(top: str) -> set[int]:
    """Return the accounts whose copies are taken for one's own: the own one, root, and the one that the folder of the
    code belongs to."""
    return {os.geteuid(), 0, os.stat(top).st_uid}


def _home(top: str) -> str:
    """Where copies of this folder lie, out of git's sight. Raises BadRequestError where another account could put
    something else in the place of a copy, and so choose what a waiting task runs."""
    home = top
    for name in (FOLDER, "snapshots"):
        home = os.path.join(home, name)
        with suppress(FileExistsError):
            os.mkdir(home)
            os.chmod(home, _mode(top))
        _check_others(top, home)
    with suppress(FileExistsError), open(os.path.join(top, FOLDER, ".gitignore"), "x", encoding="ascii") as file:
        file.write("*\n")
    return home


def _check_others(top: str, home: str) -> None:
    """Check whose the folder for copies is, and who may write there: anybody who may change names in the folder of the
    code may do so here. Raises BadRequestError."""
    if _may_change(os.stat(top)):
        return
    for status in (os.lstat(home), os.stat(home)):  # a link, and what it leads to
        if status.st_uid not in _trusted(top):
            raise coded_error("bad_request", "snapshots_of_others", path=home, uid=status.st_uid)
    if _may_change(os.stat(home)):
        raise coded_error("bad_request", "snapshots_open_to_others", path=home)


def _may_change(folder: os.stat_result) -> bool:
    """Whether other accounts may rename and remove in it what is not theirs."""
    return bool(folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH)) and not folder.st_mode & stat.S_ISVTX


def _copied(top: str, copy: str, code: list[str]) -> tuple[str, int]:
    """Copy them, on the disk when this returns: the digest of what was copied, and its size in bytes."""
    whole, size = hashlib.sha256(), 0
    for name in code:
        source, target = os.path.join(top, name), os.path.join(copy, name)
        _make_folders(top, copy, os.path.dirname(name))
        if os.path.islink(source):
            os.symlink(_aim(top, name), target)
        else:
            size += _copy_file(source, target)
        whole.update(_entry(copy, name))
    return whole.hexdigest(), size


def _make_folders(top: str, copy: str, folder: str) -> None:
    for name in reversed([folder, *_parents(folder)]):
        path = os.path.join(copy, name)
        if not os.path.isdir(path):
            os.mkdir(path)
            os.chmod(path, _mode(os.path.join(top, name)))


def _mode(folder: str) -> int:
    """As it is there, but that its owner may go on in the copy, and that nobody adds to the copy of a folder in which
    each account has files of its own."""
    mode = stat.S_IMODE(os.stat(folder).st_mode) | stat.S_IRWXU
    return mode & ~(stat.S_IWGRP | stat.S_IWOTH) if mode & stat.S_ISVTX else mode


def _aim(top: str, name: str) -> str:
    """Where a link leads: out of the folder as before, within it to the copy."""
    aim = os.readlink(os.path.join(top, name))
    end = os.path.normpath(os.path.join(top, os.path.dirname(name), aim))
    return aim if os.path.isabs(aim) or end == top or end.startswith(top + "/") else end


def _copy_file(source: str, target: str) -> int:
    """As its times and rights are, but that nobody writes to it by mistake. All is asked of the open file: another
    account may lay something else under its name meanwhile."""
    import shutil

    with open(source, "rb", opener=_open_file) as old, open(target, "xb") as new:
        status = os.fstat(old.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), source)
        os.fchmod(new.fileno(), stat.S_IRUSR | stat.S_IWUSR)
        shutil.copyfileobj(old, new, _BLOCK)
        new.flush()
        os.fsync(new.fileno())
        size = new.tell()
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.chmod(target, stat.S_IMODE(status.st_mode) & ~0o222 | stat.S_IRUSR)
    return size


def _open_file(path: str, flags: int) -> int:
    """Follow no link, and wait for no pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _entry(copy: str, name: str) -> bytes:
    """Return the part of the copy's digest that stands for one entry."""
    path = os.path.join(copy, name)
    if os.path.islink(path):
        kind, content = b"link", os.fsencode(os.readlink(path))
    else:
        kind = b"program" if os.stat(path).st_mode & stat.S_IXUSR else b"file"
        with open(path, "rb") as file:
            content = hashlib.file_digest(file, "sha256").digest()
    return b"%s %s\0%d " % (kind, os.fsencode(name), len(content)) + content


def _settled(copy: str, place: str, code: list[str], digest: str, trusted: set[int]) -> str:
    """The copy in its place, or the equal one that is there already; beside one that somebody changed, or that is of
    another account, which could change it later."""
    import shutil

    for number in range(1, MOST_FILES):
        at = place if number == 1 else f"{place}-{number}"
        try:
            os.rename(copy, at)
        except OSError:
            if not os.path.isdir(at):
                raise
            if _is_of(at, code, trusted) and _digest_of(at, code) == digest:
                shutil.rmtree(copy)
                return at
        else:
            return at
    raise coded_error("bad_request", "snapshots_changed", path=place)


def _is_of(copy: str, code: list[str], trusted: set[int]) -> bool:
    """Whether all of it belongs to these accounts."""
    names = {"", *code, *(parent for name in code for parent in _parents(name))}
    try:
        return all(os.lstat(os.path.join(copy, name)).st_uid in trusted for name in names)
    except OSError:
        return False


def _digest_of(copy: str, code: list[str]) -> str | None:
    """None where a file is gone."""
    try:
        return hashlib.sha256(b"".join(_entry(copy, name) for name in code)).hexdigest()
    except OSError:
        return None


def _link_rest(top: str, copy: str, code: list[str]) -> None:
    """All that is no code, by links to where it is."""
    files, folders = set(code), {parent for name in code for parent in _parents(name)}
    links = 0
    for folder in sorted(folders):
        with os.scandir(os.path.join(top, folder)) as entries:
            rest = [entry.name for entry in entries if entry.name not in _NEITHER]
        for name in rest:
            path = os.path.join(folder, name)
            if path in files or path in folders:
                continue
            links += 1
            if links > MOST_FILES:
                beside = os.path.join(top, folder)
                raise coded_error("bad_request", "snapshot_beside_too_many", path=beside, most=MOST_FILES)
            with suppress(FileExistsError):
                os.symlink(os.path.join(top, path), os.path.join(copy, path))
