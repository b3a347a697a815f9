"""The real thing: a master as a process, its agents, clients at once, and what kills them."""
