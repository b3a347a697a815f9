"""`make demo`: a real training goes through the queue in front of your eyes, driven by the commands people type."""
