"""The names of the core: each stands in its class, and calls the part that does it."""

from __future__ import annotations

import inspect
import pydoc

from master.core.core import Core
from master.core.operation import operation
from tests.cases import each_case
from tests.master.core.small_core import EIGHT

OPERATIONS = [name for name, value in vars(Core).items() if isinstance(value, operation)]


def plain_core() -> Core:
    return Core((EIGHT,), lambda task, attempt: f"{task}.{attempt}")


def test_each_operation_is_the_method_of_a_part_that_every_core_has() -> None:
    core = plain_core()
    with each_case() as cases:
        for name in OPERATIONS:
            with cases.case(name):
                bound, described = getattr(core, name), getattr(Core, name)
                assert bound.__func__ is described
                assert type(bound.__self__).__name__ == described.__qualname__.partition(".")[0]
                assert getattr(core, name) is bound, "it is looked up once"


def test_two_cores_share_no_part() -> None:
    first, second = plain_core(), plain_core()
    assert [name for name in OPERATIONS if getattr(first, name).__self__ is getattr(second, name).__self__] == []


def test_no_part_hides_another_of_the_same_class() -> None:
    parts = vars(plain_core()._parts)
    assert len({type(part).__name__ for part in parts.values()}) == len(parts)


def test_help_tells_what_an_operation_needs_and_does() -> None:
    assert "cancel(self, task_id: 'int'" in pydoc.plain(pydoc.render_doc(Core))
    assert inspect.getdoc(Core.cancel)
