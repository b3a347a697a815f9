"""New labs and old ones."""
