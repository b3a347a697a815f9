"""A master that decides by a file who has which account: `python -m tests.system.mapped_master … --conf CONF`.

The file `account` beside conf.json names the account of everybody's tasks from then on; while it is not there, nobody
has one. What stands before `--conf` is passed over, so that this can stand before a lab's own words.
"""

from __future__ import annotations

import sys
from contextlib import suppress

import master.app
from master.config import Config
from master.durable.store import Permit

FILE = "account"


class MappedMaster(master.app.Master):
    """Asks the file."""

    def __init__(self, config: Config, permit: Permit | None = None) -> None:
        super().__init__(config, permit, self._account)

    def _account(self, _owner: str) -> str | None:
        with suppress(FileNotFoundError):
            return (self.config.folder / FILE).read_text(encoding="ascii").strip() or None
        return None


if __name__ == "__main__":
    from master.command_line import main

    master.app.Master = MappedMaster  # type: ignore[misc,assignment]
    sys.exit(main(sys.argv[sys.argv.index("--conf") :]))
