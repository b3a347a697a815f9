"""Tests of master/secrets."""
