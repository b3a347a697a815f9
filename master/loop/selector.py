"""Selects ready connections: a few at a time, strangers behind all others, and those without hurry together.

The standard library's selector gives the loop all ready connections at once. When ten thousand of them send something
in the same moment, that is a turn of a second, and nothing else is read before its end. Here a turn gets a few; the
kernel gives the others next, in the order in which they became ready. Of connections that are not identified yet
(strangers) a turn gets fewer still: they have a queue of their own (`behind`), and however many they are, known
connections go before them. A stranger that was read several times and still is not identified moves to a second queue:
thousands that send a byte now and then would delay those that send everything at once.

Other connections are not urgent (`unhurried`): a hundred nodes that report their state now and then would wake the loop
for each report, and a turn costs more than a report. When the first of them has sent something, the others have a
moment to do so, too; then they are read together, behind the urgent ones.

Owns the order. Its callers say which connections are strangers, and which are in no hurry.
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Iterator, Mapping
from selectors import EVENT_READ, EVENT_WRITE, BaseSelector, SelectorKey
from typing import Any

_IN = select.EPOLLIN
MOST, STRANGERS = 64, 16
"""Connections, and strangers among them, that are heard in one turn of the loop."""
HEARD = 4
"""So often a stranger is read before it moves behind later ones: as often as a log-in over TLS needs."""
SLOW = STRANGERS // 4
"""So many of these are heard in a turn at least, where there are as many strangers of both kinds."""
UNHURRIED = 32
"""As many more may be heard in one turn of those that are in no hurry."""
MOMENT_S = 0.5
"""So long the first of those in no hurry waits for others to be heard together with."""


class _Keys(Mapping[Any, SelectorKey]):
    """The registered objects, by descriptor or by an object that has one."""

    def __init__(self) -> None:
        self.by_fd: dict[int, SelectorKey] = {}

    def __len__(self) -> int:
        return len(self.by_fd)

    def __iter__(self) -> Iterator[Any]:
        return (key.fileobj for key in self.by_fd.values())

    def __getitem__(self, fileobj: Any) -> SelectorKey:
        return self.by_fd[_fd(fileobj)]


class TurnSelector(BaseSelector):
    """A selector of epoll. Descriptors that are `behind` are given after the others, and few at a time; those that are
    `unhurried` every MOMENT_S."""

    def __init__(self) -> None:
        self._first, self._strangers, self._patient = select.epoll(), select.epoll(), select.epoll()
        self._slow = select.epoll()
        for others in (self._strangers, self._slow, self._patient):
            self._first.register(others.fileno(), select.EPOLLIN)
        self._keys = _Keys()
        self._behind: set[int] = set()
        self._heard: dict[int, int] = {}
        """How often each stranger was heard since it was registered."""
        self._unhurried: set[int] = set()
        self._due = math.inf
        """When those in no hurry are heard, by the monotonic clock; nobody of them has said anything: never."""
        self._only: int | None = None
        self._waker: int | None = None

    # -- who stands where -------------------------------------------------------------------------------------

    def behind(self, fd: int) -> None:
        """Nobody knows who is at the other end of this one. To be said before it is registered."""
        self._behind.add(fd)

    def before(self, fd: int) -> None:
        """It is known who is there; or the connection is over, and the descriptor will be another's."""
        if fd not in self._behind:
            return
        key = self._keys.by_fd.get(fd)
        if key is not None:
            self._epoll(fd).unregister(fd)
            self._first.register(fd, _mask(key.events))
        self._behind.discard(fd)
        self._heard.pop(fd, None)

    def unhurried(self, fd: int) -> None:
        """Let this connection wait a moment from now on, until it is `hurried` or registered anew."""
        key = self._keys.by_fd.get(fd)
        if key is not None and fd not in self._unhurried and fd not in self._behind:
            self._first.unregister(fd)
            self._patient.register(fd, _mask(key.events))
            self._unhurried.add(fd)

    def hurried(self, fd: int) -> None:
        """It cannot any more."""
        if fd in self._unhurried:
            self._unhurried.discard(fd)
            self._patient.unregister(fd)
            self._first.register(fd, _mask(self._keys.by_fd[fd].events))

    @staticmethod
    def has_said(fd: int) -> bool:
        """Is there anything of this one that was not heard yet, its leaving too?"""
        look = select.poll()
        look.register(fd, select.POLLIN)
        return bool(look.poll(0))

    def _epoll(self, fd: int) -> select.epoll:
        if fd in self._unhurried:
            return self._patient
        if fd in self._behind:
            return self._slow if self._heard.get(fd, 0) >= HEARD else self._strangers
        return self._first

    # -- which are read ---------------------------------------------------------------------------------------

    def _hear(self, epoll: select.epoll, most: int, ready: list[tuple[SelectorKey, int]]) -> int:
        found = epoll.poll(0, most)
        for fd, event in found:
            key = self._keys.by_fd.get(fd)
            if key is not None:
                ready.append((key, _events(event) & key.events))
        return len(found)

    def _hear_strangers(self, ready: list[tuple[SelectorKey, int]], *, with_slow: bool) -> None:
        begin = len(ready)
        count = self._hear(self._strangers, STRANGERS - SLOW if with_slow else STRANGERS, ready)
        end = len(ready)
        if with_slow:
            self._hear(self._slow, STRANGERS - count, ready)
        for key, _ in ready[begin:end]:
            heard = self._heard[key.fd] = self._heard.get(key.fd, 0) + 1
            if heard == HEARD:
                self._strangers.unregister(key.fd)
                self._slow.register(key.fd, _mask(key.events))

    def _wait_for_others(self) -> None:
        """The first of those in no hurry has said something: the others wake nobody until they are heard."""
        self._due = time.monotonic() + MOMENT_S
        self._first.modify(self._patient.fileno(), 0)

    def _hear_patient(self, ready: list[tuple[SelectorKey, int]]) -> None:
        if self._hear(self._patient, UNHURRIED, ready) < UNHURRIED:  # else more of them are heard in the next turn
            self._due = math.inf
            self._first.modify(self._patient.fileno(), select.EPOLLIN)

    # -- as of any selector -----------------------------------------------------------------------------------

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        """Tell of it when it is ready. Raises KeyError where that is being done, and OSError."""
        fd = _fd(fileobj)
        if fd in self._keys.by_fd:
            raise KeyError(f"{fileobj!r} (descriptor {fd}) is registered")
        self._epoll(fd).register(fd, _mask(events))
        if self._waker is None:
            self._waker = fd  # a loop begins with its own
        key = self._keys.by_fd[fd] = SelectorKey(fileobj, fd, events, data)
        return key

    def unregister(self, fileobj: Any) -> SelectorKey:
        """Report it no more. Raises KeyError."""
        key = self._keys.by_fd.pop(_fd(fileobj))
        epoll = self._epoll(key.fd)
        self._unhurried.discard(key.fd)  # the number may be another's next
        self._heard.pop(key.fd, None)
        try:
            epoll.unregister(key.fd)
        except OSError:
            return key  # it was closed before
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        """Tell of something else from now on. Raises KeyError, and OSError."""
        key = self.get_key(fileobj)
        if events != key.events:
            self._epoll(key.fd).modify(key.fd, _mask(events))
        changed = self._keys.by_fd[key.fd] = key._replace(events=events, data=data)
        return changed

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Return what is ready, or becomes so within so many seconds (None: wait until something is). Strangers come
        last. The list may be empty before that time is over, if only a connection without hurry has sent something."""
        if self._due is not math.inf:
            rest = max(0.0, self._due - time.monotonic())
            timeout = rest if timeout is None else min(timeout, rest)
        if timeout is None:
            timeout = -1.0
        elif timeout > 0:  # as of the standard library's: rounded up to the clock of epoll, or the loop would ask again
            timeout = math.ceil(timeout * 1e3) * 1e-3
        else:
            timeout = 0
        try:
            found = self._first.poll(timeout, MOST)
        except InterruptedError:
            return []
        keys = self._keys.by_fd
        ready: list[tuple[SelectorKey, int]] = []
        are_strangers = are_slow = False
        for fd, event in found:
            key = keys.get(fd)
            if key is not None:
                ready.append((key, (EVENT_READ if event == _IN else _events(event)) & key.events))
            elif fd == self._patient.fileno():
                self._wait_for_others()
            elif fd == self._slow.fileno():
                are_slow = True
            else:
                are_strangers = True
        if self._due is not math.inf and time.monotonic() >= self._due:
            self._hear_patient(ready)
        if are_strangers or are_slow:
            self._hear_strangers(ready, with_slow=are_slow)
        self._only = ready[0][0].fd if len(ready) == 1 else None
        return ready

    def is_alone(self) -> bool:
        """Tell whether exactly one connection, and nothing else, was ready at the last call. The waker of other threads
        does not count: it may stand for many."""
        return self._only is not None and self._only != self._waker

    def close(self) -> None:
        """It is over."""
        self._patient.close()
        self._slow.close()
        self._strangers.close()
        self._first.close()
        self._keys.by_fd.clear()

    def get_key(self, fileobj: Any) -> SelectorKey:
        """How it is registered. Raises KeyError, which costs little: the loop asks of each new connection."""
        return self._keys.by_fd[_fd(fileobj)]

    def get_map(self) -> Mapping[Any, SelectorKey]:
        """Return the registered objects."""
        return self._keys


def _fd(fileobj: Any) -> int:
    fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
    return int(fd)


def _mask(events: int) -> int:
    return (_IN if events & EVENT_READ else 0) | (select.EPOLLOUT if events & EVENT_WRITE else 0)


def _events(event: int) -> int:
    # An error, or the other end's leaving, is for both to find out.
    written = EVENT_WRITE if event & ~_IN else 0
    return written | (EVENT_READ if event & ~select.EPOLLOUT else 0)
