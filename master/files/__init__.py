"""The files that people may see: beneath the visible folders, and the logs of tasks."""
