"""`report`: how an agent gets to a master that cannot reach it."""
