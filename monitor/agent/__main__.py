"""Runs the agent from its sources: `python -m monitor.agent serve --state DIR`. The archive has a main of its own."""

from __future__ import annotations

import sys

from .main import main

sys.exit(main(sys.argv[1:], "source"))
