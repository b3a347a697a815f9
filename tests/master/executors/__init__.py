"""The ways to run attempts."""
