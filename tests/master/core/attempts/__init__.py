"""Tests of master/core/attempts."""
