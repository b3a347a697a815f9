"""Measures Muster, beside the targets and beside what the same machine allows. `python -m bench`."""
