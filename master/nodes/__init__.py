"""The nodes as the master sees them: the registry, one link for each, what is asked of them and what they share."""
