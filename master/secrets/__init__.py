"""Protection of secrets and logs: what the start refuses, what is closed, what is shown as a mark."""
