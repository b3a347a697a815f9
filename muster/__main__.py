"""`python -m muster`: the command line, where its script is not on the PATH."""

from __future__ import annotations

import sys

from client.cli.begin import main

sys.exit(main())
