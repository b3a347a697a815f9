"""A wrong value on the command line, as argparse wants to be told of it; it is loaded when there is one, for a command
line that is right needs none (see `client.cli.arguments.quick`)."""

from __future__ import annotations


def wrong(text: str) -> Exception:
    """An ArgumentTypeError, to be raised."""
    from argparse import ArgumentTypeError

    return ArgumentTypeError(text)
