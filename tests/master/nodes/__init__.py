"""Links, registry, questions."""
