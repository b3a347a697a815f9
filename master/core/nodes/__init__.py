"""Nodes: the machines, their resources, what is held of them, and what keeps new tasks away."""
