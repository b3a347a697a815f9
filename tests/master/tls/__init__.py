"""Encryption of the ports."""
