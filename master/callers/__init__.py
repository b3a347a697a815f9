"""Callers: which account and machine is at the other end, and how much it may ask."""
