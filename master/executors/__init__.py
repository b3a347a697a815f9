"""The ways to carry out what the core wants done: by agents on nodes; in memory, for tests and for simulation."""
