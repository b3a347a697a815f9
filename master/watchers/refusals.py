"""Refusals for good: what a consumer of moves raises for an event that its receiver will never take, and the codes by
which mail servers and web servers say that.
"""

from __future__ import annotations

from http import HTTPStatus

_PASSING_HTTP = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})
"""RFC 9110, 15.5.9; RFC 8470, 5.2; RFC 6585, 4."""
_PASSING_SMTP = frozenset({530, 534, 535, 538, 552})
"""530 to 538 refuse the log-in, not the message (RFC 4954, 6); 552 was too many recipients or a full mailbox, and is to
be taken for 452 (RFC 5321, 4.5.3.1.10)."""
_BEGIN, _END, _END_SMTP = 400, 500, 600


class RefusedForGoodError(Exception):
    """The receiver refuses an event, and would do so each time; the text says why."""


def is_final_http(status: int) -> bool:
    """Tell whether a web server that answers this will answer the same request so again."""
    return _BEGIN <= status < _END and status not in _PASSING_HTTP


def is_final_smtp(code: int) -> bool:
    """Tell whether a mail server that answers this will answer the same message so again."""
    return _END <= code < _END_SMTP and code not in _PASSING_SMTP
