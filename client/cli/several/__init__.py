"""One verb for several tasks, nodes or names."""
