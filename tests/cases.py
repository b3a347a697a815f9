"""Check many cases in one test.

`each_case` collects what fails and raises one AssertionError at the end, which names each failed case. A test of many
small cases costs one item this way: each item of `pytest.mark.parametrize` is collected again in each worker.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.rights import CannotHere
from tests.waiting import NeverError

TESTS = Path(__file__).parent
ROOT = TESTS.parent
ENDS_THE_TEST = (CannotHere, NeverError, TimeoutError)
"""After these, further cases are not checked: the test cannot run here, or each case might wait as long in vain."""
DID_NOT_RAISE = "DID NOT RAISE"
"""`pytest.raises` fails with this text. Any other `pytest.fail`, such as that of the deadline, ends the test."""


class Cases:
    """The cases of one test."""

    def __init__(self) -> None:
        self.count = 0
        self.failed: list[str] = []

    @contextmanager
    def case(self, name: str) -> Iterator[None]:
        """Check one case. `name` says which one, as the id of a parametrised item does."""
        self.count += 1
        try:
            yield
        except ENDS_THE_TEST as error:
            error.add_note(f"in the case {name}")
            raise
        except pytest.fail.Exception as error:
            if DID_NOT_RAISE not in str(error):
                error.add_note(f"in the case {name}")
                raise
            self._failed(name, error)
        except Exception as error:  # noqa: BLE001  (whatever it is, it is told at the end)
            self._failed(name, error)

    def _failed(self, name: str, error: BaseException) -> None:
        kind = "" if isinstance(error, AssertionError | pytest.fail.Exception) else f"{type(error).__name__}: "
        self.failed.append(f"{name}: {kind}{error} ({_places(error)})")

    def told(self) -> str:
        """Return how many cases failed, and each with its name, its error and the lines it arose in."""
        return "\n".join([f"{len(self.failed)} of {self.count} cases failed:", *self.failed])


def _places(error: BaseException) -> str:
    """Return the lines of tests that the error came through, and the line that raised it."""
    *way, last = ((Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__))
    lines = [one for one in way[1:] if one[0].is_relative_to(TESTS)]  # the first is the `yield` above
    return ", ".join(
        f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{line}" for path, line in [*lines, last]
    )


@contextmanager
def each_case() -> Iterator[Cases]:
    """Collect the failures of a test. The test wraps each case in `with cases.case(name):`.

    Raises AssertionError if a case failed, or if there was no case.
    """
    cases = Cases()
    try:
        yield cases
    except BaseException as error:
        if cases.failed:
            error.add_note(f"before that, {cases.told()}")
        raise
    if cases.failed:
        raise AssertionError(cases.told())
    assert cases.count, "no case was checked"
