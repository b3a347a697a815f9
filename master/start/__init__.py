"""The start of a master: its files, lineage, identity, ports and log."""
