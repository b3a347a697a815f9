"""Reduce a JavaScript file to what a browser needs: all but its comments, and the spaces that its lines begin with.

A quarter of our modules is said to people, types among it (JSDoc). It is taken off once, when the console starts, so
that there is nothing to build, and what is served is what lies in `static/`. Lines stay where they are, so that what a
browser complains of is found by its line. It knows no more of the language than that takes: where comments, texts,
templates and regular expressions begin and end.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<line>\n\s*)
    |(?P<brace>[`{}])
    |(?P<rest>[^\n/"'`{}]+|/(?!\*))""",
    re.DOTALL | re.VERBOSE,
)
_PATTERN = re.compile(r"/(?![/*])(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/\w*")
_TEMPLATE = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*(?:`|\$\{)", re.DOTALL)
_IS_DUE = re.compile(r"(?:^|[(,=:\[!&|?{;+\-*%<>~^]|\b(?:return|typeof|case|in|of|else|await|yield|void))$")
"""Where a value is due, a `/` begins a regular expression, and divides nothing."""


def lean(source: str) -> str:
    """The same program. Raises ValueError where a template or a text does not end."""
    said: list[str] = []
    open_ones: list[str] = []
    before = ""
    at = 0
    while at < len(source):
        pattern = _PATTERN.match(source, at) if source[at] == "/" and _IS_DUE.search(before) else None
        token = pattern or _TOKEN.match(source, at)
        if token is None:
            raise ValueError(f"what begins at {at} does not end")
        kind, text, at = token.lastgroup, token.group(), token.end()
        if kind == "comment":
            said.append("\n" * text.count("\n") or " ")
        elif kind == "line":
            said.append("\n" * text.count("\n"))
        elif kind == "brace" and (text == "`" or (text == "}" and open_ones and open_ones.pop() == "${")):
            template = _TEMPLATE.match(source, at)
            if template is None:
                raise ValueError(f"the template before {at} does not end")
            at = template.end()
            if template.group().endswith("${"):
                open_ones.append("${")
            said.append(text + template.group())
            before = "`"
        else:
            if text == "{":
                open_ones.append("{")
            said.append(text)
            before = text.rstrip(" \t")[-12:] or before
    if open_ones:
        raise ValueError(f"{len(open_ones)} of what was opened does not end")
    return "".join(said)
