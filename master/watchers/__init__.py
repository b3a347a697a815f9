"""Those that watch: they hear of what is published, look where the core cannot, and tell it by events."""
