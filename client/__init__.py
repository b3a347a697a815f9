"""The client side: a synchronous Python API (`muster.connect`) and the `muster` command. Knows only the wire."""
