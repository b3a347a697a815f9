"""The visible folders and the logs."""
