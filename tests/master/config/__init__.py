"""Tests of master/config."""
