"""The ways to a node: on this machine, over SSH, or dialled in. Each ends in a channel for `master.nodes.link`."""
