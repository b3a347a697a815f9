"""`muster init` and `muster deploy`."""
