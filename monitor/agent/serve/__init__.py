"""`serve` and `attach`: the agent's loop, the connections to its socket, and whom it obeys."""
