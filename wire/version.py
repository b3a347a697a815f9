"""Which version this is. What is installed says the same (a test holds both together), but asking for that loads a
fourth of what the master loads."""

VERSION = "0.1.0"
