"""Everything that crosses a process boundary, and nothing else: framing, messages, errors. No I/O here."""
