"""`muster top`: the screens, what stands in their lines, and the keys."""
