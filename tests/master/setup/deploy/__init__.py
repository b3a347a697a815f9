"""What `muster deploy` writes, read by those it is for."""
