"""The helper that runs on a node: standard library only, Python 3.8 syntax, small, single-threaded.

It travels as one archive (`master/drivers/agent_archive.py`) in which this package is called `agent`; so its files
import each other relatively, and from outside only `wire.agent` and `wire.framing`.
"""
