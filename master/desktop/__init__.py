"""The desktop client that labs have installed: its dialect, as an adapter over the verbs.

Nothing outside this package and `wire.desktop` knows of that client, but for `master.ports`, which hands over its
connections. The fields that the client expects were measured on a real one. Odd details here (`seccess`, one frame at a
time, a gap between two frames) are requirements of the client.
"""
