"""Tests of master/loop."""
