"""Users of a queue whose master does not run."""
