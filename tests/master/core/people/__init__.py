"""Tests of master/core/people."""
