"""The `muster` command: one module a command, imported only when that verb is used."""
