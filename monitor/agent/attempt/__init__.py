"""One attempt at a task, from its claim to its end: the shim over it, its record on disk, and the table of them all."""
