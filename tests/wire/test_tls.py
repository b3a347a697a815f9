"""What the lab's TLS servers speak is what SECURITY.md says, and there is one place that decides it."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

from wire.tls import server_context

ROOT = Path(__file__).parents[2]


def documented() -> dict[str, set[str]]:
    """The table of SECURITY.md: the ciphers of each version."""
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (TLS 1\.\d) \| (`.+`) \|$", text, re.MULTILINE)
    return {version: set(re.findall(r"`([^`]+)`", ciphers)) for version, ciphers in rows}


def test_servers_offer_the_versions_and_ciphers_that_security_md_lists() -> None:
    context = server_context()
    offered: dict[str, set[str]] = {}
    for cipher in context.get_ciphers():
        offered.setdefault(cipher["protocol"].replace("TLSv", "TLS "), set()).add(cipher["name"])
    assert offered == documented()
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_RENEGOTIATION


def test_no_other_code_makes_a_context_of_a_server() -> None:
    sources = (
        path for package in ("master", "web", "wire", "client", "monitor") for path in (ROOT / package).rglob("*.py")
    )
    making = re.compile(r"PROTOCOL_TLS_SERVER|Purpose\.CLIENT_AUTH|PROTOCOL_TLS\b")
    found = [str(path.relative_to(ROOT)) for path in sources if making.search(path.read_text(encoding="utf-8"))]
    assert found == ["wire/tls.py"]
