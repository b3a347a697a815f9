"""Short questions to this node: each is a command in a fork of its own, with its time-out and its end."""
