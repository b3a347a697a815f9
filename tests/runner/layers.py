"""Which layer a test belongs to, and which tests must share one worker. Pure: a table and the facts of one test.

The table is `tests/layers.txt`, one line per path or fixture: `tests/wire unit`, `fixture lab real`.
A path covers everything beneath it, and the longest path that covers a file decides. A fixture, or a mark of the test
(`@pytest.mark.real`), moves a test to a later layer, never to an earlier one. A file without a line is `real`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

LAYERS = ("unit", "master", "real", "storm")
"""From the tests that need nothing to those that need everything: `unit` starts no process and opens no socket,
`master` has a master in the process of the test, `real` has processes, servers, machines or a browser, `storm` many
faults."""

_RANK = {layer: at for at, layer in enumerate(LAYERS)}
UNKNOWN = "real"
TABLE = "tests/layers.txt"


class LayersError(ValueError):
    """A line of the table cannot be read; the message quotes it."""


@dataclass(frozen=True)
class Layers:
    """The table, read: a layer for paths, and one for fixtures."""

    paths: dict[str, str] = field(default_factory=dict)
    fixtures: dict[str, str] = field(default_factory=dict)

    def of(self, path: str, fixtures: Iterable[str] = (), marked: Iterable[str] = ()) -> str:
        """The layer of a test in the file `path` (relative to the root) that uses these fixtures and is marked so."""
        parts = path.split("/")
        covering = ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
        layer = next((self.paths[part] for part in covering if part in self.paths), UNKNOWN)
        named = [self.fixtures[name] for name in fixtures if name in self.fixtures]
        return max([layer, *named, *marked], key=_RANK.__getitem__)


def read(text: str) -> Layers:
    """The table from its text. Raises LayersError for a line of another form, an unknown layer or a second line of one
    path or fixture."""
    layers = Layers()
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        *kind, name, layer = line.split() if len(line.split()) in (2, 3) else ("?", "", "")
        if layer not in _RANK or kind not in ([], ["fixture"]):
            raise LayersError(
                f"{TABLE}: {line!r} is neither 'PATH LAYER' nor 'fixture NAME LAYER', LAYER one of {LAYERS}"
            )
        table = layers.fixtures if kind else layers.paths
        if name in table:
            raise LayersError(f"{TABLE}: {name!r} has two lines")
        table[name] = layer
    return layers
