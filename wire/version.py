"""The version. The installed package has the same (a test compares), but asking for that loads a fourth as much as the
master."""

VERSION = "0.1.0"
