"""What the testbed raises."""

from __future__ import annotations


class TestbedError(Exception):
    """A host, or the whole testbed, is not what it should be; one line."""

    __test__ = False  # pytest takes every class called Test… for tests
