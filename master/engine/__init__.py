"""The single writer: from an event to the journal, and then to its effects."""
