"""The cluster as it is now, kept up to date by what the master tells unasked. Draws nothing: it is for `muster top` and
for any other program that shows a live cluster."""
