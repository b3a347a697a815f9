"""Output of `muster logs`: a file, the end of a log, and lines found by a search."""
