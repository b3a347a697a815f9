"""Encryption of the three ports: when, with which certificate, and where it begins."""
