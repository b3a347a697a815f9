"""Paths in the addresses of routes, `{path:any}`: as Starlette's `path`, and with line ends too, for names of files may
have them."""

from __future__ import annotations

from starlette.convertors import Convertor, register_url_convertor


class AnyPath(Convertor[str]):
    """All that is left of an address."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        """As it is."""
        return value

    def to_string(self, value: str) -> str:
        """As it is."""
        return value


register_url_convertor("any", AnyPath())
