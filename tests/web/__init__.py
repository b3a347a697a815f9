"""The console, as a process of its own beside a real master."""
