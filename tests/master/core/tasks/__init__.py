"""Tests of master/core/tasks."""
