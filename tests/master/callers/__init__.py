"""Tests of master/callers."""
