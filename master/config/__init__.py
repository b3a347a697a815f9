"""The settings: conf.json, what can change at run time, and what follows from a change."""
