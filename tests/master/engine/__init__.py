"""Tests of master/engine."""
