"""The ways to a node, with a real sshd."""
