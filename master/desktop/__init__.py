"""The desktop client that labs have installed: its dialect, as an adapter over the verbs.

Nothing outside this package and `wire.desktop` knows of that client, but for `master.ports`, which hands its
connections over. What the client expects, field by field, was measured on the real one; where something here looks odd
(`seccess`, one frame at a time, a gap between two), it is the client that wants it so.
"""
