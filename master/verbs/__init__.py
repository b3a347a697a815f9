"""One file per noun: what clients may ask of the master."""
