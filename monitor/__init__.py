"""The programs beside the master: the agent on a node, and the writer of metrics."""
