"""The programs that `muster` starts: the master, and those beside it."""
