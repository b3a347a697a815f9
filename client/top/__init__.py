"""What `muster top` shows: its state, its lines as plain data, and the textual program around them."""
