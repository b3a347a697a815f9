"""Tasks and nodes as a viewer sees them: made of what the core and the registry know, and of nothing else."""
