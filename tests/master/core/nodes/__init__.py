"""Tests of master/core/nodes."""
