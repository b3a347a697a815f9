"""What tasks and nodes look like to whoever looks: made of what the core and the registry know, and of nothing else."""
