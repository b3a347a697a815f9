"""Tasks: their records and states, what they wait for, and the queue in its order."""
