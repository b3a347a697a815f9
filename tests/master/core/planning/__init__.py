"""Tests of master/core/planning."""
