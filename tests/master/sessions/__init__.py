"""The three ports over real sockets."""
