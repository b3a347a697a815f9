"""Tests of master/edited_files."""
