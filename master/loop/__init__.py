"""The event loop: its turns, garbage, threads and processes beside it."""
