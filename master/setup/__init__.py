"""What runs once, before a master or beside it: `muster init` and `muster deploy`. A master that runs needs none."""
