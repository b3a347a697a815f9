"""Samples of the machine: its own figures, its disks, and who sends them."""
