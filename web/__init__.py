"""The console: a process beside the master that browsers and scripts reach over HTTPS.

It is a client of the master like any other, and has no rights of its own: it shows the master that it is the console,
and then calls it in its user's name. It keeps nothing that could not be lost: sessions are the master's.
"""
