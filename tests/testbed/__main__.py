"""`python -m tests.testbed N [INNER]`: N hosts for playing with, INNER of them behind a proxy, until Enter."""

from __future__ import annotations

import sys

from tests.testbed.bed import Testbed
from tests.testbed.host import Host


def main(words: list[str]) -> int:
    """Bring it up, say what is there, wait."""
    count, inner = int(words[0]), int(words[1]) if len(words) > 1 else 0
    with Testbed(count, inner=range(count - inner + 1, count + 1)) as bed:
        _say(f"ssh -i {bed.key} {Host.user}@ADDRESS, or the password {Host.password!r}")
        _say(f"shared: {bed.shared}; proxy to the inner hosts: {bed.proxy if inner else 'none'}")
        for host in bed.hosts:
            _say(f"{host.name} {host.address}{' (inner)' if host.inner else ''} {host.fingerprint}")
        _say("Enter ends it.")
        sys.stdin.readline()
    return 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
