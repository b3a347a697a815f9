"""The nodes as the master sees them: the registry, one link for each, and what is asked of them."""
