"""A master that decides by a file who has which account: `python -m tests.system.mapped_master … --conf CONF`.

The file `account` beside conf.json names the account of everybody's tasks from then on; while it is not there, nobody
has one. What stands before `--conf` is passed over, so that this can stand before a lab's own words.
"""

from __future__ import annotations

import sys
from contextlib import suppress

import master.app
from master.core.core import Core
from master.core.people.run_as import RunAs

FILE = "account"


class MappedMaster(master.app.Master):
    """Asks the file."""

    def accounts(self, core: Core) -> RunAs:  # noqa: ARG002
        """Whatever users there are."""
        return self._account

    def _account(self, _owner: str) -> str | None:
        with suppress(FileNotFoundError):
            return (self.config.folder / FILE).read_text(encoding="ascii").strip() or None
        return None


if __name__ == "__main__":
    from master.command_line import main

    master.app.Master = MappedMaster  # type: ignore[misc]
    sys.exit(main(sys.argv[sys.argv.index("--conf") :]))
