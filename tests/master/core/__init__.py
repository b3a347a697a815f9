"""The pure core, without clock, loop or sleep."""
