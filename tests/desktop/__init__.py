"""Tests of the desktop client's dialect, with a stand-in that reads as the real client does."""
