"""Sentences about labs: which one is meant, notes about one, and invitations to it."""
