"""In which files two copies of code differ, where this machine sees both."""

from __future__ import annotations

import filecmp
import os
import stat
from collections.abc import Iterator

from client.snapshot import FOLDER


def changes(here: str, there: str) -> dict[str, str]:
    """From the copy in which the folder `here` lies to that of `there`: the files that are `changed`, `added` or
    `removed`, by their paths within; none where either is no copy, or not to be seen. Files that a task wrote into a
    copy, and links to files that are not code, do not count as differences."""
    first, second = _top(here), _top(there)
    if first is None or second is None or first == second:
        return {}
    old, new = set(_files(first)), set(_files(second))
    found = dict.fromkeys(old - new, "removed") | dict.fromkeys(new - old, "added")
    found |= {name: "changed" for name in old & new if not _same(first, second, name)}
    return dict(sorted(found.items()))


def _top(folder: str) -> str | None:
    """Of the copy that the folder lies in."""
    above, mark, within = folder.partition(f"/{FOLDER}/snapshots/")
    top = f"{above}{mark}{within.partition('/')[0]}"
    return top if mark and os.path.isdir(top) else None


def _files(top: str) -> Iterator[str]:
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if not (os.path.islink(path) or os.stat(path).st_mode & stat.S_IWUSR):  # nobody writes to copied code
                yield os.path.relpath(path, top)


def _same(first: str, second: str, name: str) -> bool:
    try:
        return filecmp.cmp(os.path.join(first, name), os.path.join(second, name), shallow=False)
    except OSError:
        return False
