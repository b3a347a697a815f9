"""Tests of master/start."""
