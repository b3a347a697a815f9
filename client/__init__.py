"""The client side: a synchronous Python API (`client.api.connect`) and the `muster` command. Knows only the wire."""
