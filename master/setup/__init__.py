"""Programs that run once, before a master or beside it: `muster init` and `muster deploy`. A running master needs
none."""
