"""Attempts: what is sent to nodes, what agents report of it, and the follow-up of its end."""
