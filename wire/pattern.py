"""Regular expressions that are compiled when they are first used.

Compiling one takes as long as loading a small file, and most of them are for rare events: an error, a name that is set.
The start of a master or a command should not wait for those.
"""

from __future__ import annotations

import re
from functools import cached_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Pattern:
    """As `re.compile` gives it, with what is used of that."""

    def __init__(self, text: str, flags: int = 0) -> None:
        self._text = text
        self._flags = flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self._text, self._flags)

    @cached_property
    def fullmatch(self) -> Callable[[str], re.Match[str] | None]:
        """As of `re.Pattern`."""
        return self._compiled.fullmatch

    @cached_property
    def match(self) -> Callable[[str], re.Match[str] | None]:
        """As of `re.Pattern`."""
        return self._compiled.match

    @cached_property
    def search(self) -> Callable[[str], re.Match[str] | None]:
        """As of `re.Pattern`."""
        return self._compiled.search

    @cached_property
    def finditer(self) -> Callable[[str], Iterator[re.Match[str]]]:
        """As of `re.Pattern`."""
        return self._compiled.finditer

    @cached_property
    def sub(self) -> Callable[[str, str], str]:
        """As of `re.Pattern`."""
        return self._compiled.sub
